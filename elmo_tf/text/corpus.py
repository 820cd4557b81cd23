"""Text files ─► sentences, in `tf.data`; one tokenised sentence a line."""

import collections
import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import tensorflow as tf
from absl import logging

from elmo_tf.progress import progress
from elmo_tf.text.data_warnings import data_warnings, is_utf_8
from elmo_tf.text.sentences import split_tokens
from elmo_tf.text.vocabulary import UNKNOWN_ID, TextSource, Vocabulary, is_packed, read_lines

# Tokens of a sentence at most. Windows are cut from whole sentences held in memory, at a cost that
# grows with the square of their length.
MAX_SENTENCE_TOKENS = 10_000
# Lines among which the next one is drawn; they are kept in memory and in every save.
SHUFFLE_LINES = 16_384
# Lines that one step of the graph cuts into tokens; more of them make it no faster.
_LINES_AT_ONCE = 16


def text_files(patterns: Iterable[str | os.PathLike]) -> list[Path]:
    """The files that some patterns name, each once, those of a pattern in order of their names.

    Args:
        patterns: paths, or patterns with `*`, `?`, `[…]`, and `**` for folders of any depth. None
            of these stands for the dot in front of a hidden name.

    Raises:
        FileNotFoundError: a pattern matches no file.
        OSError: a file cannot be read.
    """
    files: dict[Path, None] = {}
    for pattern in map(os.fspath, patterns):
        # A name that exists is taken as it is, whatever characters are in it.
        names = [pattern] if os.path.exists(pattern) else sorted(glob.glob(pattern, recursive=True))
        if not glob.has_magic(pattern) and not names:
            raise FileNotFoundError(f"There is no text file {pattern}.")
        found = [Path(name) for name in names if name == pattern or not os.path.isdir(name)]
        if not found:
            raise FileNotFoundError(f"No text file matches {pattern}.")
        files.update(dict.fromkeys(found))
    for file in files:
        check_text_file(file)
    return list(files)


def check_text_file(path: str | os.PathLike) -> None:
    """Raises `OSError` if a text file cannot be read."""
    if os.path.isdir(path):
        raise IsADirectoryError(f"{os.fspath(path)} is a directory; a text file is needed.")
    if not Path(path).is_fifo():  # which opens only when another process writes to it
        with open(path, "rb"):
            pass


def check_regular_file(path: str | os.PathLike) -> None:
    """Raises `OSError` or `ValueError` if a text file cannot be read more than once."""
    check_text_file(path)
    if not os.path.isfile(path):
        raise ValueError(
            f"{os.fspath(path)} is not a regular file: the text is read more than once, which a "
            "pipe does not allow. Write it to a file first."
        )


def read_sentences(files: Iterable[TextSource]) -> Iterator[list[str]]:
    """The tokens of each line that has any; of a line of more than 10,000, several sentences.

    A line is held in memory whole, and nothing else of the text.

    Raises:
        ValueError: see `read_lines`.
    """
    for file in files:
        for line in read_lines(file):
            tokens = line.split()
            for start in range(0, len(tokens), MAX_SENTENCE_TOKENS):
                yield tokens[start : start + MAX_SENTENCE_TOKENS]


@tf.autograph.experimental.do_not_convert
def sentence_dataset(
    files: Sequence[str | os.PathLike], seed: int | None = None
) -> tf.data.Dataset:
    """The same in the graph: a dataset of string (token,), each sentence an element.

    Args:
        files: text files; `.gz` is unpacked.
        seed: int or None. If given, files and lines come in another order at each pass.
    """
    names = tf.constant([os.fsencode(file) for file in files])
    compressions = tf.constant(["GZIP" if is_packed(file) else "" for file in files])
    # A saved iterator holds numbers of files: they may have other names when it goes on.
    sources = tf.data.Dataset.range(len(files))
    if seed is not None:
        sources = sources.shuffle(len(files), seed=seed)
    lines = sources.flat_map(lambda number: _lines(names[number], compressions[number]))
    if seed is not None:  # here, where they need least memory
        lines = lines.shuffle(SHUFFLE_LINES, seed=seed)
    sentences = lines.batch(_LINES_AT_ONCE).map(lambda lines: _cut(split_tokens(lines))).unbatch()
    return sentences.map(lambda tokens: tokens)  # plain tensors


class CorpusCount(NamedTuple):
    """The size of some text, and how many of its lines are odd.

    sentences: as `read_sentences` gives them.
    tokens: without boundaries.
    types: distinct tokens.
    unknown: tokens that are `<UNK>` to a vocabulary.
    longest: tokens of the longest sentence.
    invalid_lines, nul_lines: those with bytes that are no UTF-8, or are zero.
    cut_lines: those of more than 10,000 tokens, read as several sentences.
    empty_lines: those without a token, which are passed over.
    crlf_lines: those that end in a carriage return and a newline.
    """

    sentences: int
    tokens: int
    types: int
    unknown: int
    longest: int
    invalid_lines: int = 0
    nul_lines: int = 0
    cut_lines: int = 0
    empty_lines: int = 0
    crlf_lines: int = 0

    @property
    def targets(self) -> int:
        """What a language model predicts in one direction: every token, and a boundary each."""
        return self.tokens + self.sentences

    def summary(self) -> str:
        """The size, in a line."""
        return (
            f"Corpus: {self.sentences:,} sentences, {self.tokens:,} tokens, {self.types:,} types, "
            f"{self.unknown / self.tokens:.2%} of tokens unknown, longest sentence "
            f"{self.longest:,} tokens."
        )

    def data_warnings(self) -> str:
        """The odd lines and what becomes of them, in a line; nothing if there are none."""
        kinds = (
            (self.invalid_lines, "with invalid UTF-8 (read byte for byte; another encoding?)"),
            (self.nul_lines, "with NUL bytes (is it UTF-16?)"),
            (self.cut_lines, f"of more than {MAX_SENTENCE_TOKENS:,} tokens (cut)"),
            (self.empty_lines, "empty (passed over)"),
            (self.crlf_lines, "ending in CRLF (read as LF)"),
        )
        return data_warnings(*kinds)


def count_corpus(files: Sequence[str | os.PathLike], vocabulary: Vocabulary) -> CorpusCount:
    """Counts text files, about 4 million tokens per second.

    Raises:
        ValueError: there is no token in them; or see `check_regular_file` and `read_lines`.
    """
    for file in files:
        check_regular_file(file)
    types: collections.Counter[str] = collections.Counter()
    odd: collections.Counter[str] = collections.Counter()
    sentences = longest = 0
    with progress(None, "counting the corpus", "sentences") as meter:
        for file in files:
            for line in read_lines(file):
                tokens = line.split()
                types.update(tokens)
                odd.update(_line_warnings(line, tokens))
                parts = -(-len(tokens) // MAX_SENTENCE_TOKENS)
                sentences += parts
                longest = max(longest, min(len(tokens), MAX_SENTENCE_TOKENS))
                meter.update(parts)
    if not types:
        raise ValueError(f"There is no token in {', '.join(map(os.fspath, files))}.")
    ids = vocabulary.ids(list(types))
    unknown = sum(count for id, count in zip(ids, types.values(), strict=True) if id == UNKNOWN_ID)
    return CorpusCount(sentences, types.total(), len(types), unknown, longest, **odd)


def report_corpus(count: CorpusCount) -> None:
    """Logs the size of a corpus and its odd lines; warns if they suggest that it is damaged."""
    logging.info("%s", count.summary())
    if count.data_warnings():
        doubtful = count.invalid_lines or count.nul_lines or count.cut_lines
        logging.log(logging.WARNING if doubtful else logging.INFO, "%s", count.data_warnings())


def _lines(name: tf.Tensor, compression: tf.Tensor) -> tf.data.Dataset:
    """The lines of a file, without the byte order mark in front of the text."""
    lines = tf.data.TextLineDataset(name, compression_type=compression)
    first = lines.take(1).map(
        lambda line: tf.strings.regex_replace(line, "^\ufeff", "", replace_global=False)
    )
    return first.concatenate(lines.skip(1))


def _cut(lines: tf.RaggedTensor) -> tf.RaggedTensor:
    """(line, token) → (sentence, token): what `read_sentences` does with long and empty lines."""
    lengths = lines.row_lengths()
    parts = -(-lengths // MAX_SENTENCE_TOKENS)  # (line,)
    first_parts = tf.repeat(tf.cumsum(parts, exclusive=True), parts)  # (sentence,)
    starts = (tf.range(tf.reduce_sum(parts)) - first_parts) * MAX_SENTENCE_TOKENS
    sizes = tf.minimum(tf.repeat(lengths, parts) - starts, MAX_SENTENCE_TOKENS)
    return tf.RaggedTensor.from_row_lengths(lines.values, sizes, validate=False)


def _line_warnings(line: str, tokens: list[str]) -> Iterator[str]:
    """The fields of `CorpusCount` in which a line counts."""
    if not is_utf_8(line):
        yield "invalid_lines"
    if "\0" in line:
        yield "nul_lines"
    if len(tokens) > MAX_SENTENCE_TOKENS:
        yield "cut_lines"
    if not tokens:
        yield "empty_lines"
    if line.endswith("\r\n"):
        yield "crlf_lines"
