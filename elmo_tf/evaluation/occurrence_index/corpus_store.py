"""The text of an occurrence index on disk: distinct sentences, and the positions of each type.

`sentences.txt` holds the sentences, `sentences.i64` their offsets and sources, `types.txt` the
distinct tokens in order of appearance, and `tokens.i32` the type of each token.
"""

import collections
import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from absl import logging

from elmo_tf.progress import progress
from elmo_tf.text.corpus import MAX_SENTENCE_TOKENS
from elmo_tf.text.data_warnings import data_warnings, line_kinds, suspicions
from elmo_tf.text.sentences import decode, encode
from elmo_tf.text.vocabulary import sentence_lines

TEXT, ROWS, TYPES, TOKENS = "sentences.txt", "sentences.i64", "types.txt", "tokens.i32"

# Bytes of a sentence's digest. The probability that any two of 100 million sentences share a digest
# is 0.03 %.
_DIGEST_BYTES = 8
# Columns of `sentences.i64`. Its last row has the total numbers of tokens and bytes.
_FIRST_TOKEN, _FIRST_BYTE, _FILE, _LINE = range(4)


class Source(NamedTuple):
    """The file and line (from 1) of a sentence's first appearance."""

    file: str
    line: int


def write_corpus(
    files: Sequence[str | os.PathLike], folder: Path, max_tokens: int | None = None
) -> None:
    """Writes the distinct sentences of a text.

    Memory holds a digest of each sentence, about 70 bytes, to recognize duplicates.

    Args:
        files: text files, one tokenized sentence per line. A line of more than 10,000 tokens is
            split.
        folder: an empty directory.
        max_tokens: int >= 1 or None. Reading stops after the sentence that reaches this number.

    Raises:
        ValueError: the files hold no token.
    """
    types: dict[str, int] = {}
    seen: set[bytes] = set()
    row = [0, 0, 0, 0]
    with (
        open(folder / TEXT, "wb") as text,
        open(folder / ROWS, "wb") as rows,
        open(folder / TOKENS, "wb") as ids,
        progress(None, "reading the corpus", "tokens") as meter,
    ):
        for file, line, tokens in _sentences(files):
            sentence = encode(" ".join(tokens)) + b"\n"
            digest = hashlib.blake2b(sentence, digest_size=_DIGEST_BYTES).digest()
            if digest in seen:
                continue
            seen.add(digest)
            row[_FILE:] = file, line
            rows.write(np.array(row, np.int64).tobytes())
            text.write(sentence)
            numbers = [types.setdefault(token, len(types)) for token in tokens]
            ids.write(np.array(numbers, np.int32).tobytes())
            row[_FIRST_TOKEN] += len(tokens)
            row[_FIRST_BYTE] += len(sentence)
            meter.update(len(tokens))
            if max_tokens is not None and row[_FIRST_TOKEN] >= max_tokens:
                break
        rows.write(np.array(row, np.int64).tobytes())
    if not types:
        raise ValueError(f"There is no token in {', '.join(map(os.fspath, files))}.")
    (folder / TYPES).write_bytes(b"".join(encode(token) + b"\n" for token in types))


class StoredCorpus:
    """The files that `write_corpus` wrote, memory-mapped.

    Args:
        folder: their directory.
        files: names of the text files, for `source`.

    Attributes:
        types: the distinct tokens.
    """

    def __init__(self, folder: Path, files: Sequence[str]):
        self._files = files
        self._text = np.memmap(folder / TEXT, np.uint8, "r")
        self._rows = np.memmap(folder / ROWS, np.int64, "r").reshape(-1, 4)
        self._ids = np.memmap(folder / TOKENS, np.int32, "r")
        self._starts = np.array(self._rows[:, _FIRST_TOKEN])
        lines = decode((folder / TYPES).read_bytes()).split("\n")
        self.types = tuple(lines[:-1])
        self._type_ids = {token: number for number, token in enumerate(self.types)}

    @property
    def num_sentences(self) -> int:
        """The number of distinct sentences."""
        return len(self._starts) - 1

    @property
    def num_tokens(self) -> int:
        """The number of tokens of these sentences."""
        return len(self._ids)

    def tokens(self, sentence: int) -> list[str]:
        """Returns the tokens of a sentence."""
        start, end = self._rows[sentence : sentence + 2, _FIRST_BYTE]
        return decode(self._text[start : end - 1].tobytes()).split(" ")

    def source(self, sentence: int) -> Source:
        """Returns the first appearance of a sentence."""
        _, _, file, line = self._rows[sentence].tolist()
        return Source(self._files[file], line)

    def places(self, numbers: np.ndarray) -> list[tuple[int, int]]:
        """Returns sentence and position of tokens, which are numbered through the text."""
        sentences = np.searchsorted(self._starts, numbers, side="right") - 1
        positions = numbers - self._starts[sentences]
        return list(zip(sentences.tolist(), positions.tolist(), strict=True))

    def occurrences(self, token: str) -> np.ndarray:
        """Returns the numbers, through the text, of the occurrences of a token."""
        type_id = self._type_ids.get(token)
        return np.flatnonzero(self._ids == type_id) if type_id is not None else np.zeros(0, int)


def _sentences(files: Sequence[str | os.PathLike]) -> Iterator[tuple[int, int, list[str]]]:
    """Yields file, line and tokens of each sentence; finally warns about irregular lines."""
    empty = cut = 0
    suspicious: collections.Counter[str] = collections.Counter()
    try:
        for file, path in enumerate(files):
            for number, line in enumerate(sentence_lines(path), start=1):
                tokens = line.split()
                empty += not tokens
                for kind in suspicions(line, tokens):
                    suspicious[kind] += 1
                cut += len(tokens) > MAX_SENTENCE_TOKENS
                for start in range(0, len(tokens), MAX_SENTENCE_TOKENS):
                    yield file, number, tokens[start : start + MAX_SENTENCE_TOKENS]
    finally:  # also if the caller stops early
        warning = data_warnings(
            (empty, "empty (ignored)"),
            *line_kinds(suspicious),
            (cut, f"of more than {MAX_SENTENCE_TOKENS:,} tokens (split)"),
        )
        if warning:
            logging.warning("%s", warning)
