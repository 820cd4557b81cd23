"""Text files ─► lines as a `tf.data` dataset ─► sentences; one tokenized sentence per line."""

import collections
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import tensorflow as tf
from absl import logging

from elmo_tf.text.counting import MAX_SENTENCE_TOKENS, TextCount, count_text
from elmo_tf.text.fasta import RARE, is_fasta
from elmo_tf.text.reading import TextSource, check_regular_file, is_compressed, sentence_lines
from elmo_tf.text.sentence_files import LINE_KINDS, data_warnings
from elmo_tf.text.sentences import count_tokens
from elmo_tf.text.vocabulary import EOS_ID, UNKNOWN_ID, Vocabulary

# Size of the shuffle buffer, which is kept in memory and in every checkpoint.
SHUFFLE_LINES = 16_384
# Files that are read alternately, line by line, so that a batch has text of many sources.
_MIXED_FILES = 64
# Share of unknown targets above which perplexities are misleading.
_MAX_UNKNOWN = 0.05
_LINE_KINDS = {
    **LINE_KINDS,
    "cut": f"of more than {MAX_SENTENCE_TOKENS:,} tokens (split)",
    "empty": "empty (skipped)",
    "crlf": "ending in CRLF (read as LF)",
}


def check_tokens(files: Sequence[str | os.PathLike]) -> None:
    """Reads the first sentence of texts, to find wrong files before a model is loaded.

    Raises:
        ValueError: the files contain no token, or are not regular files; or see `sentence_lines`.
    """
    for file in files:
        check_regular_file(file)
    if next(read_sentences(files), None) is None:
        raise ValueError(f"There is no token in {', '.join(map(os.fspath, files))}.")


def read_sentences(files: Iterable[TextSource], format: str | None = None) -> Iterator[list[str]]:
    """Yields the tokens of each line, without empty lines; splits lines of over 10,000 tokens.

    Memory is needed for a single line.

    For `format` and errors, see `sentence_lines`.
    """
    for file in files:
        for line in sentence_lines(file, format=format):
            tokens = line.split()
            for start in range(0, len(tokens), MAX_SENTENCE_TOKENS):
                yield tokens[start : start + MAX_SENTENCE_TOKENS]


@tf.autograph.experimental.do_not_convert
def line_dataset(
    files: Sequence[str | os.PathLike], seed: int | None = None, format: str | None = None
) -> tf.data.Dataset:
    """The dataset of the lines that `sentence_lines` yields, for `sentences_of`: string ().

    Args:
        files: text files; `.gz` is decompressed.
        seed: int or None. If given, files and lines are shuffled, differently in each pass: the
            lines of 64 files are interleaved, and shuffled in a buffer of 16,384 lines.
        format: see `sentence_lines`.
    """
    lines_of = _records if _are_fasta(files, format) else _lines
    names = tf.constant([os.fsencode(file) for file in files])
    compressions = tf.constant(["GZIP" if is_compressed(file) else "" for file in files])
    # A saved iterator stores indices: files may be renamed before training resumes.
    sources = tf.data.Dataset.range(len(files))
    if seed is not None:
        sources = sources.shuffle(len(files), seed=seed)
    lines = sources.interleave(
        lambda index: lines_of(names[index], compressions[index]),
        cycle_length=1 if seed is None else _MIXED_FILES,
    )
    return lines if seed is None else lines.shuffle(SHUFFLE_LINES, seed=seed)


# Tokens separated by whitespace for `tf.strings.split`; and their number, with a boundary.
Sentence = tuple[bytes, int]


def sentences_of(lines: list[bytes]) -> list[Sentence]:
    """The sentences that `read_sentences` yields for lines, as `Sentence`s."""
    text, counts = count_tokens(lines)
    sentences = []
    for line, count in zip(text.split(b"\n"), counts, strict=True):
        if count <= MAX_SENTENCE_TOKENS:
            if count:
                sentences.append((line, count + 1))
            continue
        tokens = line.split()
        for start in range(0, count, MAX_SENTENCE_TOKENS):
            part = tokens[start : start + MAX_SENTENCE_TOKENS]
            sentences.append((b" ".join(part), len(part) + 1))
    return sentences


def prefetch(dataset: tf.data.Dataset, count: int) -> tf.data.Dataset:
    """Prefetches `count` elements, with autotuning disabled.

    The autotuner sleeps for up to a minute, and an iterator ends only when it wakes up: a pass of
    12 seconds took 20.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.prefetch(count).with_options(options)


class CorpusCount(NamedTuple):
    """The size of a corpus, and its numbers of suspicious lines, see `_LINE_KINDS`."""

    sentences: int  # see `read_sentences`
    tokens: int  # without boundaries
    types: int  # distinct tokens
    unknown: int  # tokens that are not in the vocabulary
    longest: int  # tokens of the longest sentence
    unigram_perplexity: float  # of the frequencies of the targets, on this text
    invalid_lines: int = 0
    nul_lines: int = 0
    cut_lines: int = 0
    empty_lines: int = 0
    crlf_lines: int = 0
    boundary_lines: int = 0
    space_lines: int = 0

    @property
    def targets(self) -> int:
        """Number of targets of one direction: every token, and a boundary per sentence."""
        return self.tokens + self.sentences

    @property
    def unknown_share(self) -> float:
        """Share of the targets that are not in the vocabulary."""
        return self.unknown / self.targets

    def summary(self) -> str:
        """The size as a line of text."""
        return (
            f"Corpus: {self.sentences:,} sentences, {self.tokens:,} tokens, {self.types:,} types, "
            f"{self.unknown / self.tokens:.2%} of tokens unknown, longest sentence "
            f"{self.longest:,} tokens."
        )

    def data_warnings(self) -> str:
        """The suspicious lines as a line of text; empty if there are none."""
        return data_warnings(
            {kind: getattr(self, f"{kind}_lines") for kind in _LINE_KINDS}, _LINE_KINDS
        )


def count_files(files: Sequence[str | os.PathLike], format: str | None = None) -> TextCount:
    """Counts the tokens and the suspicious lines of files, see `count_text`.

    Raises:
        ValueError: the files contain no token, or some of them are FASTA and some are not; or see
            `check_regular_file` and, for `format` too, `sentence_lines`.
    """
    _are_fasta(files, format)
    for file in files:
        check_regular_file(file)
    text = count_text(files, format)
    if not text.types:
        raise ValueError(f"There is no token in {', '.join(map(os.fspath, files))}.")
    return text


def count_corpus(
    files: Sequence[str | os.PathLike],
    vocabulary: Vocabulary,
    format: str | None = None,
    text: TextCount | None = None,
) -> CorpusCount:
    """Returns the size of a corpus; `text` is its result of `count_files`, if that is known.

    For errors, see `count_files`.
    """
    text = text or count_files(files, format)
    ids = vocabulary.ids(list(text.types))
    targets = collections.Counter({EOS_ID: text.sentences})
    for id, count in zip(ids, text.types.values(), strict=True):
        targets[id] += count
    total = targets.total()
    entropy = math.fsum(count / total * math.log(total / count) for count in targets.values())
    size = (text.sentences, text.types.total(), len(text.types), targets[UNKNOWN_ID], text.longest)
    lines = {f"{kind}_lines": number for kind, number in text.lines.items()}
    return CorpusCount(*size, round(math.exp(entropy), 1), **lines)


def report_corpus(count: CorpusCount) -> None:
    """Logs the size of a corpus and its suspicious lines."""
    logging.info("%s", count.summary())
    report_lines(count)


def report_lines(count: CorpusCount) -> None:
    """Logs the suspicious lines of a corpus; warns unless they are only empty or end in CRLF."""
    if count.data_warnings():
        is_harmless = not count._replace(empty_lines=0, crlf_lines=0).data_warnings()
        logging.log(logging.INFO if is_harmless else logging.WARNING, "%s", count.data_warnings())


def warn_of_unknown(count: CorpusCount, text: str, consequence: str) -> None:
    """Warns if more than 5 % of the targets of a corpus are not in the vocabulary.

    `text` names the corpus in the message, which ends with `consequence`.
    """
    if count.unknown_share > _MAX_UNKNOWN:
        logging.warning(
            "%s of the targets%s are not in the vocabulary and count as <UNK>: %s",
            *(f"{count.unknown_share:.1%}", text, consequence),
        )


def _lines(name: tf.Tensor, compression: tf.Tensor) -> tf.data.Dataset:
    """The lines of a file, without the byte order mark."""
    lines = tf.data.TextLineDataset(name, compression_type=compression)
    first = lines.take(1).map(
        lambda line: tf.strings.regex_replace(line, "^\ufeff", "", replace_global=False)
    )
    return first.concatenate(lines.skip(1))


def _are_fasta(files: Sequence[str | os.PathLike], format: str | None) -> bool:
    kinds = {is_fasta(file) if format is None else format == "fasta" for file in files}
    if len(kinds) > 1:
        raise ValueError(
            "FASTA and text cannot be read together. Files in FASTA: "
            f"{', '.join(os.fspath(file) for file in files if is_fasta(file))}."
        )
    return True in kinds


def _records(name: tf.Tensor, compression: tf.Tensor) -> tf.data.Dataset:
    """The residues of each record of FASTA, separated by spaces; the same as `sentence_lines`."""

    def step(record: tf.Tensor, line: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        is_header = tf.strings.substr(line, 0, 1) == ">"
        extended = tf.strings.join([record, line])
        return tf.where(is_header, "", extended), tf.where(is_header, record, "")

    def spaced(record: tf.Tensor) -> tf.Tensor:
        residues = tf.strings.regex_replace(tf.strings.upper(record), r"[^A-Z]", "")
        residues = tf.strings.regex_replace(residues, f"[{RARE}]", "X")
        return tf.strings.regex_replace(residues, "(.)", r"\1 ")

    lines = _lines(name, compression).concatenate(tf.data.Dataset.from_tensors(">"))
    records = lines.scan(tf.constant(""), step)  # "" for each line that ends no record
    return records.filter(lambda record: record != "").map(spaced)
