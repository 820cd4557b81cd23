import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.text.vocabulary import Vocabulary
from elmo_tf.text.windows import lm_windows, target_ids

NUM_ROWS, WINDOW = 3, 4


def sentences(seed=0, count=23):
    """Sentences of distinct tokens, so that each token identifies its position."""
    rng = np.random.default_rng(seed)
    return [
        [f"{i}.{j}" for j in range(length)] for i, length in enumerate(rng.integers(0, 9, count))
    ]


def dataset_of(sentences):
    ragged = tf.ragged.constant(sentences, dtype=tf.string)
    return tf.data.Dataset.from_tensor_slices(ragged)


def rows_of(windows):
    """The tokens of each batch row, as (forward input, target, backward input, target)."""
    rows = [[] for _ in range(NUM_ROWS)]
    for window in windows:
        inputs, targets, mask = window["inputs"], window["targets"], window["mask"]
        assert inputs.shape == targets.shape == (2, NUM_ROWS, WINDOW)
        streams = np.stack([inputs[0], targets[0], inputs[1], targets[1]], axis=-1)
        for row in range(NUM_ROWS):
            real = streams[row][mask[row]]
            rows[row].extend(tuple(part.decode() for part in step) for step in real)
    return rows


def sentences_of(row):
    """Splits a batch row at the forward direction's `<S>`."""
    found = []
    for step in row:
        if step[0] == " <S>":
            found.append([])
        found[-1].append(step)
    return found


@pytest.fixture(scope="module")
def complete_rows():
    windows = lm_windows(dataset_of(sentences()), NUM_ROWS, WINDOW, drop_remainder=False)
    return rows_of(windows.as_numpy_iterator())


def test_both_directions_predict_the_next_token_and_the_boundary(complete_rows):
    for row in complete_rows:
        for steps in sentences_of(row):
            inputs, targets, backward_inputs, backward_targets = zip(*steps, strict=True)
            tokens = list(inputs[1:])
            assert list(inputs) == [" <S>", *tokens]
            assert list(targets) == [*tokens, " </S>"]
            assert list(backward_inputs) == [" </S>", *tokens[::-1]]
            assert list(backward_targets) == [*tokens[::-1], " <S>"]


def test_each_sentence_occurs_exactly_once(complete_rows):
    found = [
        [step[0] for step in steps[1:]] for row in complete_rows for steps in sentences_of(row)
    ]

    assert sorted(found) == sorted(sentence for sentence in sentences() if sentence)


def test_batch_rows_have_similar_lengths(complete_rows):
    lengths = [len(row) for row in complete_rows]

    assert max(lengths) - min(lengths) <= max(map(len, sentences())) + 1


def test_windows_have_no_padding_if_the_remainder_is_dropped(complete_rows):
    windows = list(lm_windows(dataset_of(sentences()), NUM_ROWS, WINDOW).as_numpy_iterator())

    assert windows
    assert all(window["mask"].all() for window in windows)
    for row, complete in zip(rows_of(windows), complete_rows, strict=True):
        assert row == complete[: len(row)]
        assert len(row) == WINDOW * len(windows)


def test_padding_is_empty_and_at_the_end_of_a_batch_row():
    windows = list(lm_windows(dataset_of(sentences()), NUM_ROWS, WINDOW, False).as_numpy_iterator())
    mask = np.concatenate([window["mask"] for window in windows], axis=1)
    inputs = np.concatenate([window["inputs"] for window in windows], axis=2)

    assert (np.diff(mask.astype(int), axis=1) <= 0).all()
    assert not mask.all()
    assert (inputs[:, ~mask] == b"").all()


@pytest.mark.parametrize("count", [1, 2])
def test_fewer_sentences_than_batch_rows_are_kept(count):
    text = [["a", "b"], ["c"]][:count]
    windows = lm_windows(dataset_of(text), NUM_ROWS, WINDOW, drop_remainder=False)

    rows = rows_of(windows.as_numpy_iterator())

    assert sum(map(len, rows)) == sum(len(sentence) + 1 for sentence in text)


def test_sentences_of_static_length_give_the_same_windows():
    text = [["a", "b", "c"], ["d", "e", "f"], ["g", "h", "i"], ["j", "k", "l"]]
    dense = tf.data.Dataset.from_tensor_slices(text)

    known, unknown, none = (
        list(lm_windows(sentences, NUM_ROWS, WINDOW, drop_remainder=False).as_numpy_iterator())
        for sentences in (dense, dataset_of(text), dataset_of([[]]))
    )

    assert rows_of(known) == rows_of(unknown)
    assert known
    assert none == []


def test_targets_and_boundaries_are_mapped_to_vocabulary_ids():
    vocabulary = Vocabulary.build(["a a b"])
    targets = tf.constant([[" <S>", " </S>", "a"], ["b", "other", "<S>"]])

    ids = target_ids(vocabulary, targets)

    assert ids.dtype == tf.int32
    assert ids.numpy().tolist() == [[0, 1, 3], [4, 2, 0]]
