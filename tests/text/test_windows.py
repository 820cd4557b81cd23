import itertools
import math

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.text import corpus
from elmo_tf.text import windows as module
from elmo_tf.text.corpus import line_dataset
from elmo_tf.text.windows import LMWindows


def sentences(count):
    """Sentences of distinct tokens, so that each token identifies its position."""
    lengths = np.random.default_rng(0).integers(0, 9, count)
    return [[f"{i}.{j}" for j in range(length)] for i, length in enumerate(lengths)]


def dataset_of(sentences):
    return tf.data.Dataset.from_tensor_slices(list(map(" ".join, sentences)))


def rows_in_python(sentences, num_rows):
    """The steps of each batch row: forward input and target, backward input and target."""
    rows = [[] for _ in range(num_rows)]
    sentences = list(filter(None, sentences))
    for start in range(0, len(sentences), num_rows):
        batch = sorted(sentences[start : start + num_rows], key=len, reverse=True)
        for row, tokens in zip(sorted(rows, key=len), batch, strict=False):
            forward, backward = [" <S>", *tokens, " </S>"], [" </S>", *tokens[::-1], " <S>"]
            row += zip(forward, forward[1:], backward, backward[1:], strict=False)
    return rows


def steps_of(windows, num_rows, window):
    """The steps of the windows in each batch row, in the same format, without padding."""
    rows = [[] for _ in range(num_rows)]
    for one in windows:
        inputs, targets, mask = (one[name].numpy() for name in ("inputs", "targets", "mask"))
        assert inputs.shape == targets.shape == (2, num_rows, window)
        assert (inputs[:, ~mask] == b"").all()
        streams = np.stack([inputs[0], targets[0], inputs[1], targets[1]], axis=-1)
        for row, steps, is_real in zip(rows, streams, mask, strict=True):
            row.extend(tuple(map(bytes.decode, step)) for step in steps[is_real])
    return rows


@pytest.fixture
def short_reads(monkeypatch):
    monkeypatch.setattr(module, "_LINES_PER_READ", 4)


@pytest.mark.parametrize(("num_rows", "window", "count"), [(3, 4, 60), (1, 7, 60), (5, 2, 3)])
def test_windows_equal_those_of_plain_python(short_reads, num_rows, window, count):
    text = sentences(count)
    rows = rows_in_python(text, num_rows)
    shape = num_rows, window

    windows = list(LMWindows(dataset_of(text), *shape, drop_remainder=False))
    full = list(LMWindows(dataset_of(text), *shape))

    assert steps_of(windows, *shape) == rows
    mask = np.concatenate([one["mask"] for one in windows], axis=1)
    assert (np.diff(mask.astype(int)) <= 0).all()  # padding is at the end
    assert len(windows) == math.ceil(max(map(len, rows)) / window)
    assert all(one["mask"].numpy().all() for one in full)
    assert len(full) == min(map(len, rows)) // window
    assert steps_of(full, *shape) == [row[: len(full) * window] for row in rows]
    assert not list(LMWindows(dataset_of([[]]), *shape, drop_remainder=False))


@pytest.mark.parametrize("taken", [0, 1, 45])
def test_a_saved_position_is_restored_by_another_number_of_workers(
    short_reads, tmp_path, monkeypatch, taken
):
    monkeypatch.setattr(corpus, "SHUFFLE_LINES", 10)
    lines = [b"a%d \xff\xe3\x80\x80\xc3\xa9\n" % number for number in range(40)]
    (tmp_path / "a.txt").write_bytes(b"".join(lines))
    (tmp_path / "b.txt").write_bytes(b"c " * (2 * corpus.MAX_SENTENCE_TOKENS + 1))

    def windows_of(rows):  # of a new dataset, as in a new process
        lines = line_dataset([tmp_path / "a.txt", tmp_path / "b.txt"], seed=2)
        return LMWindows(lines.repeat(), 6, 20, rows=rows)

    windows, other = windows_of(slice(3, 6)), windows_of(slice(6))
    for _ in range(taken):
        next(windows)
    windows.write(str(tmp_path / "saved"))
    other.read(str(tmp_path / "saved"))

    for one, all_rows in itertools.islice(zip(windows, other, strict=True), 150):
        for name in ("inputs", "targets", "mask"):
            np.testing.assert_array_equal(one[name], all_rows[name][..., 3:, :])
