"""Static vectors of words, from text files of GloVe, word2vec or fastText."""

import functools
import itertools
import os
import re
from collections.abc import Container, Iterator, Sequence

import numpy as np
from absl import logging

from elmo_tf.config_checks import check_int
from elmo_tf.progress import progress_over
from elmo_tf.text.vocabulary import read_lines

# Rows that are scaled at once.
_ROWS = 65_536


class WordVectors:
    """One vector a token, whatever its context.

    Args:
        tokens: distinct strings.
        vectors: float (token, feature).

    Raises:
        ValueError: not as many vectors as tokens.
    """

    def __init__(self, tokens: Sequence[str], vectors: np.ndarray):
        if np.ndim(vectors) != 2 or len(vectors) != len(tokens):
            raise ValueError(
                f"One vector a token is needed, (token, feature). Received: {len(tokens)} tokens "
                f"and an array of shape {np.shape(vectors)}."
            )
        self.tokens = tuple(tokens)
        self.vectors = vectors
        self._rows = {token: row for row, token in enumerate(self.tokens)}

    def __len__(self) -> int:
        return len(self.tokens)

    def __contains__(self, token: object) -> bool:
        return token in self._rows

    def __getitem__(self, token: str) -> np.ndarray:
        return self.vectors[self._rows[token]]

    def get(self, token: str, default: np.ndarray) -> np.ndarray:
        """A token's vector, or another if it has none."""
        row = self._rows.get(token)
        return default if row is None else self.vectors[row]

    @property
    def dim(self) -> int:
        """Width of a vector."""
        return self.vectors.shape[1]

    def nearest(self, token: str, top_n: int = 5) -> list[tuple[str, float]]:
        """The other tokens whose vectors are most like a token's.

        Args:
            token: one of the tokens.
            top_n: int >= 1. How many.

        Returns:
            Tokens and their exact cosine similarities, the nearest first; of equal ones, those that
            come first in `tokens`.

        Raises:
            ValueError: the token has no vector.
        """
        if token not in self._rows:
            raise ValueError(f"There is no vector of the token {token!r}.")
        return self.nearest_to(self[token], top_n, without=token)

    def nearest_to(
        self, vector: np.ndarray, top_n: int = 5, without: str | None = None
    ) -> list[tuple[str, float]]:
        """The same for any vector.

        Args:
            vector: float (feature,).
            top_n: int >= 1. How many.
            without: a token that is left out; None for none.
        """
        check_int(top_n, "top_n", least=1)
        vector = np.asarray(vector, np.float32)
        similarities = self._units @ (vector / (np.linalg.norm(vector) or 1))  # (token,)
        order = np.argsort(-similarities, kind="stable")[: top_n + 1]
        found = [(self.tokens[row], float(similarities[row])) for row in order]
        return [(token, near) for token, near in found if token != without][:top_n]

    @functools.cached_property
    def _units(self) -> np.ndarray:
        """The vectors, scaled to length 1; zeros stay zeros. float32 (token, feature)."""
        units = np.empty(self.vectors.shape, np.float32)
        for start in range(0, len(units), _ROWS):  # float16 vectors may be on the disk
            part = np.asarray(self.vectors[start : start + _ROWS], np.float32)
            norms = np.linalg.norm(part, axis=1, keepdims=True)
            units[start : start + _ROWS] = part / np.where(norms > 0, norms, 1)
        return units


def read_word_vectors(
    path: str | os.PathLike, vocabulary: Container[str] | None = None
) -> WordVectors:
    """Reads vectors: lines of a token and its numbers, with single spaces between them.

    GloVe's files begin at once; those of word2vec and fastText with a line of two numbers, the
    tokens and the dimensions. A token may hold spaces, as a few of GloVe's do. A token that stands
    more than once has the first of its vectors; that is told.

    Args:
        path: UTF-8; `.gz` is unpacked.
        vocabulary: tokens to keep, such as a `Vocabulary` or a set; the numbers of others are not
            read. None keeps all.

    Raises:
        ValueError: the file holds no vector, not those that its first line promises, or a line is
            not a token and as many numbers as in the others. The message names the line.
        OSError: the file cannot be read.
    """
    name = os.fspath(path)
    lines = _numbered_lines(path)
    first = next(lines, None)
    if first is None:
        raise ValueError(f"{name} holds no vectors: it is empty.")
    header = re.fullmatch(r"(\d+) (\d+)", first[1])
    if header:
        promised, dim = map(int, header.groups())
    else:
        promised, dim = None, first[1].count(" ")
        lines = itertools.chain([first], lines)
    if not dim:
        raise ValueError(f"{name}, line 1: no token with numbers behind it: {first[1][:80]!r}.")
    rows: dict[str, int] = {}
    numbers, count, doubled = bytearray(), 0, []
    for number, line in progress_over(lines, promised, "reading vectors", "tokens"):
        count += 1
        token, values = _cut(line, dim, f"{name}, line {number}")
        if vocabulary is not None and token not in vocabulary:
            continue
        if token in rows:
            doubled.append((number, token))
            continue
        rows[token] = len(rows)
        numbers += _vector(values, f"{name}, line {number}").tobytes()
    if promised is not None and count != promised:
        raise ValueError(
            f"{name} holds {count:,} vectors, but its first line promises {promised:,}. Is the "
            "file complete?"
        )
    if not count:
        raise ValueError(f"{name} holds no vectors: there is nothing behind its first line.")
    if doubled:
        logging.warning(
            "%s: %d lines are of tokens that came before, and were passed over; the first is line "
            "%d, %r.",
            *(name, len(doubled), *doubled[0]),
        )
    return WordVectors(list(rows), np.frombuffer(numbers, np.float32).reshape(len(rows), dim))


def _numbered_lines(path: str | os.PathLike) -> Iterator[tuple[int, str]]:
    """Lines that hold anything, from 1, without the space that word2vec writes at their ends."""
    for number, line in enumerate(read_lines(path), start=1):
        line = line.rstrip(" \r\n")
        if line:
            yield number, line


def _cut(line: str, dim: int, place: str) -> tuple[str, list[str]]:
    """A line's token, and what should be its numbers."""
    token, *values = line.rsplit(" ", dim)
    # A token may end in anything but a number: else there is one too many of them.
    if len(values) < dim or (" " in token and _is_number(token.rpartition(" ")[2])):
        raise ValueError(
            f"{place}: {line.count(' ')} numbers behind the token, not {dim} as before: "
            f"{line[:80]!r}."
        )
    if not token:
        raise ValueError(f"{place}: no token in front of the numbers: {line[:80]!r}.")
    return token, values


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _vector(values: list[str], place: str) -> np.ndarray:
    try:
        with np.errstate(over="ignore"):  # told below
            vector = np.array(values, np.float32)
    except ValueError:
        wrong = next(value for value in values if not _is_number(value))
        raise ValueError(f"{place}: {wrong[:80]!r} is not a number.") from None
    if not np.isfinite(vector).all():
        raise ValueError(f"{place}: a number is infinite, or none (nan).")
    return vector
