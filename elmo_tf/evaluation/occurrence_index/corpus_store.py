"""Text files ─► sentences on the disk, each once, with all places of a token at hand.

`sentences.txt` holds the sentences, `sentences.i64` where each begins and came from, `types.txt`
the distinct tokens in order of appearance, and `tokens.i32` the number of each token's type.
"""

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from absl import logging

from elmo_tf.progress import progress
from elmo_tf.text.corpus import MAX_SENTENCE_TOKENS
from elmo_tf.text.data_warnings import data_warnings, is_utf_8
from elmo_tf.text.sentences import encode
from elmo_tf.text.vocabulary import read_lines

TEXT, ROWS, TYPES, TOKENS = "sentences.txt", "sentences.i64", "types.txt", "tokens.i32"

# Bytes of a sentence's digest. Two of 100 million unlike sentences share one with a probability of
# 0.03 %.
_DIGEST_BYTES = 8
# Of a sentence: its first token, its first byte, its file and its line. A last row ends both.
_FIRST_TOKEN, _FIRST_BYTE, _FILE, _LINE = range(4)


class Source(NamedTuple):
    """Where a sentence was read first: a file, and a line from 1."""

    file: str
    line: int


def write_corpus(
    files: Sequence[str | os.PathLike], folder: Path, max_tokens: int | None = None
) -> None:
    """Writes the sentences of some text into a folder.

    Sentences that came before are passed over: for that, a digest of each is kept in memory, about
    70 bytes.

    Args:
        files: one tokenised sentence a line. A line of more than 10,000 tokens is several.
        folder: an empty one.
        max_tokens: int >= 1 or None. The first sentence that reaches them is the last.

    Raises:
        ValueError: there is no token in the files.
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
    """What `write_corpus` wrote, read as it is needed.

    Args:
        folder: the folder.
        files: names of the text files, for `source`.
    """

    def __init__(self, folder: Path, files: Sequence[str]):
        self._files = files
        self._text = np.memmap(folder / TEXT, np.uint8, "r")
        self._rows = np.memmap(folder / ROWS, np.int64, "r").reshape(-1, 4)
        self._ids = np.memmap(folder / TOKENS, np.int32, "r")
        self._starts = np.array(self._rows[:, _FIRST_TOKEN])
        lines = (folder / TYPES).read_bytes().decode("utf-8", "surrogateescape").split("\n")
        self.types = tuple(lines[:-1])
        self._numbers = {token: number for number, token in enumerate(self.types)}

    @property
    def num_sentences(self) -> int:
        """Sentences, each counted once."""
        return len(self._starts) - 1

    @property
    def num_tokens(self) -> int:
        """Tokens of all sentences."""
        return len(self._ids)

    def tokens(self, sentence: int) -> list[str]:
        """The tokens of a sentence."""
        start, end = self._rows[sentence : sentence + 2, _FIRST_BYTE]
        text = self._text[start : end - 1].tobytes().decode("utf-8", "surrogateescape")
        return text.split(" ")

    def source(self, sentence: int) -> Source:
        """Where a sentence was read first."""
        _, _, file, line = self._rows[sentence].tolist()
        return Source(self._files[file], line)

    def places(self, numbers: np.ndarray) -> list[tuple[int, int]]:
        """Sentence and position of tokens that are numbered through the whole text."""
        sentences = np.searchsorted(self._starts, numbers, side="right") - 1
        positions = numbers - self._starts[sentences]
        return list(zip(sentences.tolist(), positions.tolist(), strict=True))

    def occurrences(self, token: str) -> np.ndarray:
        """Numbers, through the whole text, of the places where a token stands."""
        number = self._numbers.get(token)
        return np.flatnonzero(self._ids == number) if number is not None else np.zeros(0, np.int64)


def _sentences(files: Sequence[str | os.PathLike]) -> Iterator[tuple[int, int, list[str]]]:
    """File, line and tokens of each sentence. What is odd is told at the end."""
    empty = invalid = cut = 0
    try:
        for file, path in enumerate(files):
            for number, line in enumerate(read_lines(path), start=1):
                tokens = line.split()
                empty += not tokens
                invalid += not is_utf_8(line)
                cut += len(tokens) > MAX_SENTENCE_TOKENS
                for start in range(0, len(tokens), MAX_SENTENCE_TOKENS):
                    yield file, number, tokens[start : start + MAX_SENTENCE_TOKENS]
    finally:  # also where no more are wanted
        told = data_warnings(
            (empty, "empty (passed over)"),
            (invalid, "with invalid UTF-8 (read byte for byte; another encoding?)"),
            (cut, f"of more than {MAX_SENTENCE_TOKENS:,} tokens (cut)"),
        )
        if told:
            logging.warning("%s", told)
