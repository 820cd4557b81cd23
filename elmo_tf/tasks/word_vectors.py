"""Reads static word vectors: text files of GloVe, word2vec or fastText."""

import itertools
import os
import re

import numpy as np

from elmo_tf.logs import progress_over
from elmo_tf.text.reading import read_lines


def read_word_vectors(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """Reads word vectors: lines of a token and its numbers, separated by single spaces.

    Files of word2vec and fastText begin with a header of two numbers, the number of tokens and the
    dimension; files of GloVe have no header. A token may hold spaces, as a few tokens of GloVe do.
    Of a repeated token the first vector is kept.

    Args:
        path: UTF-8; `.gz` is decompressed.

    Returns:
        The vector of each token, float32 (feature,), in the order of the file.

    Raises:
        ValueError: the file is empty, holds another number of vectors than its header says, or has
            a line that is not a token and the same number of numbers. The message names the line.
        OSError: the file cannot be read.
    """
    name = os.fspath(path)
    # Without the trailing space of word2vec.
    stripped = ((number, line.rstrip(" \r\n")) for number, line in enumerate(read_lines(path), 1))
    lines = (pair for pair in stripped if pair[1])
    first = next(lines, (1, ""))
    if header := re.fullmatch(r"(\d+) (\d+)", first[1]):
        expected, dim = map(int, header.groups())
    else:
        expected, dim = None, first[1].count(" ")
        lines = itertools.chain([first], lines)
    rows: dict[str, int] = {}
    numbers, count = bytearray(), 0
    for number, line in progress_over(lines, expected, "reading vectors", "tokens"):
        count += 1
        token, vector = _parsed(line, dim, f"{name}, line {number}")
        if token not in rows:
            rows[token] = len(rows)
            numbers += vector.tobytes()
    if not count or expected not in (None, count):
        raise ValueError(f"{name} has {count:,} vectors; its header says {expected:,}.")
    vectors = np.frombuffer(numbers, np.float32).reshape(len(rows), dim)
    return dict(zip(rows, vectors, strict=True))


def _parsed(line: str, dim: int, place: str) -> tuple[str, np.ndarray]:
    """The token and the vector of a line."""
    token, *values = line.rsplit(" ", dim)
    # If the last word of a token with spaces is a number, the line has too many numbers.
    has_more = " " in token and _is_number(token.rpartition(" ")[2])
    if not token or not dim or len(values) < dim or has_more:
        raise ValueError(f"{place}: not a token and {dim or 'its'} numbers: {line[:80]!r}.")
    try:
        with np.errstate(over="ignore"):  # an error below
            vector = np.array(values, np.float32)
    except ValueError as error:
        raise ValueError(f"{place}: {error}.") from None
    if not np.isfinite(vector).all():
        raise ValueError(f"{place}: a number is infinite or NaN.")
    return token, vector


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
