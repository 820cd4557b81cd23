import itertools

import numpy as np
import pytest

from elmo_tf.text.batches import (
    in_batches,
    packed_rows,
    read_ahead,
    rounded_length,
    rounded_rows,
    windows,
)


def test_lengths_and_row_counts_are_rounded_up_to_few_distinct_values():
    lengths = [rounded_length(length) for length in range(1000)]
    counts = [rounded_rows(count) for count in range(1, 100)]

    assert all(0 <= new - old < max(5, old / 4) for old, new in enumerate(lengths))
    assert all(old <= new < max(2 * old, old + 8) for old, new in enumerate(counts, 1))
    assert (len({*lengths}), len({*counts})) < (40, 20)


@pytest.mark.parametrize("batch_tokens", [1, 50, 10_000])
def test_batches_have_similar_lengths_and_results_are_in_order(batch_tokens):
    lengths = [7, 3, 90, 3, 0, 12, 30, 31] * 5
    batches = []

    def run(batch):
        batches.append(batch)
        return [length + 1 for length in batch]

    assert list(in_batches(lengths, batch_tokens, run, int)) == [length + 1 for length in lengths]
    for batch in batches:
        assert batch == sorted(batch)
        positions = rounded_rows(len(batch)) * rounded_length(batch[-1] + 1)
        assert positions <= batch_tokens or len(batch) == 1


def test_more_is_read_ahead_of_long_sentences():
    long = [["a"] * 9] * 300
    numbers = [len(read_ahead(iter(long), 30, most_tokens=n)) for n in (0, 100, 1000)]
    assert numbers == [3, 10, 40]


@pytest.mark.parametrize("batch_tokens", [1, 50, 700, 10_000])
def test_packed_rows_contain_each_sentence_once_with_little_padding(batch_tokens):
    rng = np.random.default_rng(0)
    lengths = [*rng.integers(0, 40, 200).tolist(), 90]

    rows = packed_rows(lengths, batch_tokens)

    assert sorted(itertools.chain(*rows)) == list(range(len(lengths)))
    widths = [sum(lengths[index] for index in row) for row in rows]
    positions = 0
    for window, num_rows in windows(widths, batch_tokens):
        size = window.stop - window.start
        assert num_rows * size <= max(batch_tokens, num_rows)
        positions += num_rows * size
    assert sum(lengths) <= positions <= 1.15 * sum(lengths)
