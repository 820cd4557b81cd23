"""Lines ─► windows: the batches for training and evaluating a language model.

Sentences are concatenated in batch rows, and the rows are cut into windows; the LSTM state of a row
is carried from window to window. Both directions read the same sentences at the same time, the
backward direction with each sentence reversed, so that the distinct tokens of a window are encoded
once for both.
"""

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from elmo_tf.text.corpus import CountedLine, prefetch, sentences_of
from elmo_tf.text.reading import encode
from elmo_tf.text.vocabulary import BOS_ID, EOS_ID, Vocabulary

# Sentence boundaries. No token of a text equals them, since they contain whitespace.
BOS = " <S>"
EOS = " </S>"
# The strings of windows: these, and then the tokens of a block.
_SPECIAL = (BOS, EOS, "")
_BOS, _EOS, _PADDING, _FIRST_TOKEN = range(4)
_LINES_PER_READ = 1024
# Limits of a block: its tokens, of all rows, and its windows. Windows do not depend on them.
_BLOCK_TOKENS, _BLOCK_WINDOWS = 2**17, 64


class LMWindows(Iterator):
    """Cuts a stream of sentences into windows for both directions; an iterator.

    Forward inputs are `<S> w1 … wn` and targets `w1 … wn </S>`; backward inputs `</S> wn … w1` and
    targets `wn … w1 <S>`. As many sentences as there are rows are assigned at a time, the longest
    one to the row with the least text. Their lengths alone decide, so that each worker of a run
    cuts windows of its own rows only. A thread prepares the next windows.

    Args:
        lines: a dataset of lines, string (), see `line_dataset`.
        num_rows: int >= 1. Batch rows of a window, of all workers together.
        window: int >= 1. Length of a window in tokens.
        drop_remainder: whether to drop the text that remains at the end, or to return it in masked
            windows. Defaults to True.
        rows: the slice of the rows to return. Defaults to all rows.

    Yields dicts: "inputs" and "targets", string (direction, row, token), and "mask", bool (row,
    token).
    """

    def __init__(
        self,
        lines: tf.data.Dataset,
        num_rows: int,
        window: int,
        drop_remainder: bool = True,
        rows: slice = slice(None),
    ):
        self._lines = iter(prefetch(lines.batch(_LINES_PER_READ), 1))
        self._num_rows = num_rows
        self._window = window
        self._drop_remainder = drop_remainder
        self._own = rows
        self._thread = ThreadPoolExecutor(1)
        self._block = _Block([[]] * num_rows, [0] * num_rows, [], [], [])
        self._next: Future[_Block] | None = None
        self._taken = 0  # windows of the block that have been returned

    def __next__(self) -> dict[str, tf.Tensor]:
        if self._taken == len(self._block.windows):
            self._block = self._next.result() if self._next else self._block_after(self._block)
            self._taken = 0
            if not self._block.windows:
                raise StopIteration
            self._next = self._thread.submit(self._block_after, self._block)
        self._taken += 1
        return self._block.windows[self._taken - 1]

    def write(self, prefix: str) -> None:
        """Saves the position in the text, the same for any `rows`, in files `prefix.*`."""
        block, read = self._block, self._next.result().read if self._next else []
        content = {
            "rows": block.rows,
            "done": [done + self._taken * self._window for done in block.done],
            "queue": block.queue + read,
        }
        Path(f"{prefix}.json").write_text(json.dumps(content))
        tf.train.Checkpoint(lines=self._lines).write(prefix)

    def read(self, prefix: str) -> None:
        """Restores a position that `write` saved, before the first window is read.

        Raises:
            AssertionError, OSError, KeyError, ValueError, tf.errors.OpError: the files are damaged.
        """
        tf.train.Checkpoint(lines=self._lines).read(prefix).assert_consumed()
        content = json.loads(Path(f"{prefix}.json").read_text())
        self._block = _Block(content["rows"], content["done"], content["queue"], [], [])

    def _block_after(self, block: "_Block") -> "_Block":
        rows, done = block.rest(len(block.windows) * self._window)
        queue, read = block.queue.copy(), []
        lengths = np.array([sum(size for _, size in row) for row in rows]) - done
        most = min(_BLOCK_TOKENS // (self._num_rows * self._window), _BLOCK_WINDOWS)
        enough = self._window * max(most, 1)
        is_end = False
        while lengths.min() < enough and not is_end:
            while len(queue) < self._num_rows and (lines := next(self._lines, None)) is not None:
                sentences = sentences_of(lines.numpy().tolist())
                read += sentences
                queue += sentences
            batch = queue[: self._num_rows]
            del queue[: self._num_rows]
            is_end = not batch
            batch.sort(key=lambda sentence: -sentence[1])  # stable
            for row, sentence in zip(np.argsort(lengths, kind="stable"), batch, strict=False):
                rows[row].append(sentence)
                lengths[row] += sentence[1]
        num_windows = lengths.min() // self._window
        if is_end and not self._drop_remainder:
            num_windows = -(-lengths.max() // self._window)
        own = self._own
        windows = _windows(rows[own], done[own], lengths[own], num_windows, self._window)
        return _Block(rows, done, queue, windows, read)


class _Block(NamedTuple):
    """Windows that are cut from a text at once, and the text before they were cut."""

    rows: list[list[CountedLine]]  # of all workers; no sentence is completely in earlier windows
    done: list[int]  # positions at the beginning of each row that are in earlier windows
    queue: list[CountedLine]  # sentences without a row
    windows: list[dict[str, tf.Tensor]]
    read: list[CountedLine]  # those read for this block

    def rest(self, num_positions: int) -> tuple[list[list[CountedLine]], list[int]]:
        """`rows` and `done` after so many more positions, without completed sentences."""
        rows, done = [], []
        for row, start in zip(self.rows, self.done, strict=True):
            start += num_positions
            first = 0
            while first < len(row) and row[first][1] <= start:
                start -= row[first][1]
                first += 1
            rows.append(row[first:])
            done.append(start if first < len(row) else 0)
        return rows, done


def _windows(
    rows: Sequence[Sequence[CountedLine]],
    done: Sequence[int],
    lengths: np.ndarray,
    num_windows: int,
    window: int,
) -> list[dict[str, tf.Tensor]]:
    """Splits sentences into tokens, and cuts windows of a worker's rows.

    `lengths` are the positions of each row after the first `done`.
    """
    if not num_windows:
        return []
    sentences = [sentence for row in rows for sentence in row]
    streams = _streams(np.array([size for _, size in sentences], np.int64))
    starts = np.cumsum(lengths + done) - lengths  # (row,)
    place = np.arange(num_windows * window)
    mask = place < lengths[:, np.newaxis]  # (row, place)
    index = streams[..., np.where(mask, starts[:, np.newaxis] + place, -1)]  # (…, row, place)
    index = index.reshape(2, 2, len(rows), num_windows, window)
    inputs, targets = np.moveaxis(index, 3, 1)  # (window, direction, row, token) each
    mask = mask.reshape(len(rows), num_windows, window).swapaxes(0, 1)
    with tf.device("CPU:0"):
        texts = tf.constant([encode(text) for text, _ in sentences], tf.string)
        tokens = tf.strings.split(texts).values
        strings = tf.concat([_SPECIAL, tokens], axis=0)
        parts = tf.gather(strings, inputs), tf.gather(strings, targets), tf.constant(mask)
        return [
            {"inputs": inputs, "targets": targets, "mask": mask}
            for inputs, targets, mask in zip(*map(tf.unstack, parts), strict=True)
        ]


def _streams(sizes: np.ndarray) -> np.ndarray:
    """The inputs and targets of both directions, as indices of strings.

    `sizes` are the lengths of sentences, with a boundary. Returns int32 (inputs or targets,
    direction, position + 1); the last position is padding.
    """
    ends = np.cumsum(sizes)  # (sentence,)
    sentence = np.repeat(np.arange(len(sizes)), sizes)  # (position,)
    forward = np.arange(len(sentence))
    backward = (2 * ends - sizes - 2)[sentence] - forward
    # Without the boundaries of earlier sentences, positions are the indices of tokens.
    targets = np.array([forward, backward]) - sentence + _FIRST_TOKEN  # (direction, position)
    inputs = targets - [[1], [-1]]
    inputs[:, ends - sizes] = [[_BOS], [_EOS]]
    targets[:, ends - 1] = [[_EOS], [_BOS]]
    streams = np.array([inputs, targets], np.int32)
    return np.pad(streams, ((0, 0), (0, 0), (0, 1)), constant_values=_PADDING)


def boundary_or(tokens: tf.Tensor, bos: int, eos: int, other: tf.Tensor) -> tf.Tensor:
    """Returns `bos` and `eos` where a window's tokens are boundaries, and `other` elsewhere."""
    return tf.where(tokens == BOS, bos, tf.where(tokens == EOS, eos, other))


def target_ids(vocabulary: Vocabulary, targets: tf.Tensor) -> tf.Tensor:
    """Returns the vocabulary ids of a window's targets, int32 of the same shape."""
    return boundary_or(targets, BOS_ID, EOS_ID, tf.cast(vocabulary.lookup(targets), tf.int32))
