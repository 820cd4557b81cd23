"""Lines ─► windows: the batches for training and evaluating a language model.

Sentences are concatenated in batch rows, and the rows are cut into windows; the LSTM state of a row
is carried from window to window. Both directions read the same sentences at the same time, the
backward direction with each sentence reversed, so that the distinct tokens of a window are encoded
once for both.
"""

import itertools
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
_LINES_PER_READ = 1024


class LMWindows(Iterator):
    """Cuts a stream of sentences into windows for both directions; an iterator.

    Forward inputs are `<S> w1 … wn` and targets `w1 … wn </S>`; backward inputs `</S> wn … w1` and
    targets `wn … w1 <S>`. As many sentences as there are rows are assigned at a time, the longest
    one to the row with the least text. Their lengths alone decide, so that each worker of a run
    cuts windows of its own rows only. A thread prepares the next window.

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
        self._thread = ThreadPoolExecutor(1)
        self._position = _Position([[]] * num_rows, [0] * num_rows, [])
        self._next: Future[_Position] | None = None
        # Text that is not in windows: of each own row, inputs and targets of both directions.
        self._streams = {row: (([], []), ([], [])) for row in range(num_rows)[rows]}

    def __next__(self) -> dict[str, tf.Tensor]:
        self._position = self._next.result() if self._next else self._after(self._position)
        if self._position.window is None:
            raise StopIteration
        self._next = self._thread.submit(self._after, self._position)
        return self._position.window

    def write(self, prefix: str) -> None:
        """Saves the position in the text, the same for any `rows`, in files `prefix.*`."""
        rows, done, queue, *_ = self._position
        read = self._next.result().read if self._next else []
        content = {"rows": rows, "done": done, "queue": queue + read}
        Path(f"{prefix}.json").write_text(json.dumps(content))
        tf.train.Checkpoint(lines=self._lines).write(prefix)

    def read(self, prefix: str) -> None:
        """Restores a position that `write` saved, before the first window is read.

        Raises:
            AssertionError, OSError, KeyError, ValueError, tf.errors.OpError: the files are damaged.
        """
        tf.train.Checkpoint(lines=self._lines).read(prefix).assert_consumed()
        content = json.loads(Path(f"{prefix}.json").read_text())
        self._position = _Position(content["rows"], content["done"], content["queue"])
        for row, streams in self._streams.items():
            for text, _ in content["rows"][row]:
                _append(streams, text)
            for stream in itertools.chain(*streams):
                del stream[: content["done"][row]]

    def _after(self, position: "_Position") -> "_Position":
        """Cuts the next window."""
        rows, done, queue, read = [*map(list, position.rows)], [], position.queue.copy(), []
        lengths = np.array([sum(size for _, size in row) for row in rows]) - position.done
        is_end = False
        while lengths.min() < self._window and not is_end:
            while len(queue) < self._num_rows and (lines := next(self._lines, None)) is not None:
                sentences = sentences_of(lines.numpy().tolist())
                read += sentences
                queue += sentences
            batch = queue[: self._num_rows]
            del queue[: self._num_rows]
            is_end = not batch
            batch.sort(key=lambda sentence: -sentence[1])  # stable
            for row, (text, size) in zip(np.argsort(lengths, kind="stable"), batch, strict=False):
                rows[row].append((text, size))
                lengths[row] += size
                if row in self._streams:
                    _append(self._streams[row], text)
        if lengths.min() < self._window and (self._drop_remainder or not lengths.any()):
            return _Position(rows, position.done, queue, read)
        window = self._cut(lengths)
        for row, start in zip(rows, position.done, strict=True):
            end = start + self._window
            while row and row[0][1] <= end:
                end -= row.pop(0)[1]
            done.append(end if row else 0)
        return _Position(rows, done, queue, read, window)

    def _cut(self, lengths: np.ndarray) -> dict[str, tf.Tensor]:
        """Takes a window from the streams; `lengths` are those of all rows."""
        padding = [b""] * self._window
        strings = [
            [[(stream[: self._window] + padding)[: self._window] for stream in s] for s in streams]
            for streams in self._streams.values()
        ]
        for streams in self._streams.values():
            for stream in itertools.chain(*streams):
                del stream[: self._window]
        with tf.device("CPU:0"):
            inputs, targets = tf.unstack(tf.transpose(tf.constant(strings), (1, 2, 0, 3)))
            mask = tf.sequence_mask(lengths[list(self._streams)], self._window)
        return {"inputs": inputs, "targets": targets, "mask": mask}


class _Position(NamedTuple):
    """A position in the text, after a window."""

    rows: list[list[CountedLine]]  # the sentences of each row that are not completely in windows
    done: list[int]  # positions at the beginning of each row that are in windows
    queue: list[CountedLine]  # sentences without a row
    read: Sequence[CountedLine] = ()  # those read for the window
    window: dict[str, tf.Tensor] | None = None  # None after the last one


def _append(streams: Sequence[Sequence[list[bytes]]], text: str) -> None:
    """Appends a sentence to the inputs and targets of a row."""
    tokens = [BOS.encode(), *encode(text).split(b" "), EOS.encode()]
    for inputs, targets, stream in zip(*streams, (tokens, tokens[::-1]), strict=True):
        inputs += stream[:-1]
        targets += stream[1:]


def boundary_or(tokens: tf.Tensor, bos: int, eos: int, other: tf.Tensor) -> tf.Tensor:
    """Returns `bos` and `eos` where a window's tokens are boundaries, and `other` elsewhere."""
    return tf.where(tokens == BOS, bos, tf.where(tokens == EOS, eos, other))


def target_ids(vocabulary: Vocabulary, targets: tf.Tensor) -> tf.Tensor:
    """Returns the vocabulary ids of a window's targets, int32 of the same shape."""
    return boundary_or(targets, BOS_ID, EOS_ID, tf.cast(vocabulary.lookup(targets), tf.int32))
