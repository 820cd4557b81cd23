"""Reads static word vectors: files of GloVe, word2vec or fastText."""

import gzip
import itertools
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from absl import logging

from elmo_tf.logs import progress_over
from elmo_tf.text.reading import decode, is_compressed, read_lines

_LONGEST_HEADER = 100  # bytes of a binary file


class WordVectors:
    """One vector per token, independent of the context.

    Args:
        tokens: distinct strings.
        vectors: float (token, feature).

    Raises:
        ValueError: the numbers of vectors and tokens differ.
    """

    def __init__(self, tokens: Sequence[str], vectors: np.ndarray):
        if np.ndim(vectors) != 2 or len(vectors) != len(tokens):
            raise ValueError(
                f"`vectors` must have shape (token, feature), one row per token. Received: "
                f"{len(tokens)} tokens and an array of shape {np.shape(vectors)}."
            )
        self.tokens = tuple(tokens)
        self.vectors = vectors
        self._rows = {token: row for row, token in enumerate(self.tokens)}

    def __contains__(self, token: object) -> bool:
        return token in self._rows

    def __getitem__(self, token: str) -> np.ndarray:
        return self.vectors[self._rows[token]]

    def get(self, token: str, default: np.ndarray) -> np.ndarray:
        """The vector of a token, or the default."""
        return self[token] if token in self._rows else default

    @property
    def dim(self) -> int:
        """Number of features of a vector."""
        return self.vectors.shape[1]


def read_word_vectors(path: str | os.PathLike) -> WordVectors:
    """Reads word vectors: lines of a token and its numbers, separated by single spaces.

    Files of word2vec and fastText begin with a header of two numbers, the number of tokens and the
    dimension; files of GloVe have no header. A token may hold spaces, as a few tokens of GloVe do.
    Of a repeated token the first vector is kept, with a warning.

    Args:
        path: UTF-8, or word2vec's binary format if the name ends in `.bin`; `.gz` is decompressed.

    Raises:
        ValueError: the file is empty, holds another number of vectors than its header says, or has
            a line that is not a token and the same number of numbers. The message names the line.
        OSError: the file cannot be read.
    """
    name = os.fspath(path)
    lines = _rows(path)
    expected, dim = next(lines)
    rows: dict[str, int] = {}
    numbers, count, repeated = bytearray(), 0, []
    for place, token, values in progress_over(lines, expected, "reading vectors", "tokens"):
        count += 1
        if token in rows:
            repeated.append((place, token))
            continue
        rows[token] = len(rows)
        numbers += _vector(values, f"{name}, {place}").tobytes()
    if expected is not None and count != expected:
        raise ValueError(
            f"{name} has {count:,} vectors, but its header says {expected:,}. Is the file complete?"
        )
    if not count:
        raise ValueError(f"{name} has no vectors, only a header.")
    if repeated:
        logging.warning(
            "%s: skipped %d vectors whose tokens occur before; the first is %s, %r.",
            *(name, len(repeated), *repeated[0]),
        )
    return WordVectors(list(rows), np.frombuffer(numbers, np.float32).reshape(len(rows), dim))


def _rows(path: str | os.PathLike) -> Iterator[Any]:
    """Yields the number of vectors in the header, or None, and their dimension; then the vectors.

    For each vector: its place in the file, its token and its numbers.
    """
    is_binary = os.fspath(path).lower().removesuffix(".gz").endswith(".bin")
    return (_binary_rows if is_binary else _text_rows)(path)


def _text_rows(path: str | os.PathLike) -> Iterator[Any]:
    name = os.fspath(path)
    # Without the trailing space of word2vec.
    stripped = ((number, line.rstrip(" \r\n")) for number, line in enumerate(read_lines(path), 1))
    lines = (pair for pair in stripped if pair[1])
    first = next(lines, None)
    if first is None:
        raise ValueError(f"{name} has no vectors: it is empty.")
    if header := re.fullmatch(r"(\d+) (\d+)", first[1]):
        expected, dim = map(int, header.groups())
    else:
        expected, dim = None, first[1].count(" ")
        lines = itertools.chain([first], lines)
    if not dim:
        raise ValueError(f"{name}, line 1: not a token followed by numbers: {first[1][:80]!r}.")
    yield expected, dim
    for number, line in lines:
        yield f"line {number}", *_cut(line, dim, f"{name}, line {number}")


def _binary_rows(path: str | os.PathLike) -> Iterator[Any]:
    """Rows of word2vec's binary format: a token, a space, and float32 numbers."""
    name = os.fspath(path)
    try:
        with gzip.open(path) if is_compressed(path) else open(path, "rb") as file:
            header = re.fullmatch(rb"(\d+) (\d+)\s*", file.readline(_LONGEST_HEADER))
            if not header or not int(header[2]):
                raise ValueError(
                    f"{name} is not in word2vec's binary format, which begins with the number of "
                    "vectors and their dimension."
                )
            expected, dim = map(int, header.groups())
            yield expected, dim
            for number in range(1, expected + 1):
                token = b"".join(iter(lambda: file.read(1) or b" ", b" "))
                values = file.read(4 * dim)
                if len(values) < 4 * dim:
                    return
                yield f"vector {number}", decode(token.lstrip(b"\n")), np.frombuffer(values, "<f4")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"Cannot unpack {name}: {error}") from None


def _cut(line: str, dim: int, place: str) -> tuple[str, list[str]]:
    """Splits a line into the token and the texts of its numbers."""
    token, *values = line.rsplit(" ", dim)
    # If the last word of a token with spaces is a number, the line has too many numbers.
    if len(values) < dim or (" " in token and _is_number(token.rpartition(" ")[2])):
        raise ValueError(
            f"{place}: {line.count(' ')} numbers after the token, not {dim} as before: "
            f"{line[:80]!r}."
        )
    if not token:
        raise ValueError(f"{place}: no token before the numbers: {line[:80]!r}.")
    return token, values


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _vector(values: list[str] | np.ndarray, place: str) -> np.ndarray:
    try:
        with np.errstate(over="ignore"):  # an error below
            vector = np.array(values, np.float32)
    except ValueError:
        wrong = next(value for value in values if not _is_number(value))
        raise ValueError(f"{place}: {wrong[:80]!r} is not a number.") from None
    if not np.isfinite(vector).all():
        raise ValueError(f"{place}: a number is infinite or NaN.")
    return vector
