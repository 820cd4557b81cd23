"""Text files ─► lines as a `tf.data` dataset ─► sentences; one tokenized sentence per line."""

import collections
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf
from absl import logging

from elmo_tf.files import atomic_file
from elmo_tf.text.counting import MAX_SENTENCE_TOKENS, TextCount, count_text
from elmo_tf.text.reading import (
    TextSource,
    check_regular_file,
    decode,
    encode,
    format_of,
    is_compressed,
    sentence_lines,
)
from elmo_tf.text.vocabulary import EOS_ID, UNKNOWN_ID, Vocabulary

# Size of the shuffle buffer, which is kept in memory and in every checkpoint.
SHUFFLE_LINES = 16_384
# Files that are read alternately, line by line, so that a batch has text of many sources.
_MIXED_FILES = 64
# Share of unknown targets above which perplexities are misleading.
_MAX_UNKNOWN = 0.05


def read_sentences(files: Iterable[TextSource]) -> Iterator[list[str]]:
    """Yields the tokens of each line, without empty lines; splits lines of over 10,000 tokens.

    For errors, see `sentence_lines`.
    """
    for file in files:
        yield from _sentences(sentence_lines(file))


def _sentences(lines: Iterable[str]) -> Iterator[list[str]]:
    for line in lines:
        tokens = line.split()
        for start in range(0, len(tokens), MAX_SENTENCE_TOKENS):
            yield tokens[start : start + MAX_SENTENCE_TOKENS]


def plain_files(files: Sequence[Path], folder: Path, format: str | None = None) -> list[Path]:
    """Text files for `line_dataset`: FASTA is converted, unless `folder` has the converted file.

    For `format` and errors, see `sentence_lines`.
    """
    plain = []
    for index, file in enumerate(files):
        if (format or format_of(file)) == "fasta":
            stat = file.stat()
            converted = folder / f"{index}-{file.name}-{stat.st_size}-{stat.st_mtime_ns}.txt"
            if not converted.exists():
                lines = (encode(line) + b"\n" for line in sentence_lines(file, format=format))
                with atomic_file(converted) as part, open(part, "wb") as text:
                    text.writelines(lines)
            file = converted
        plain.append(file)
    return plain


def lines_read_once(
    files: Sequence[str | os.PathLike], format: str | None = None
) -> tf.data.Dataset:
    """The dataset of the lines that `sentence_lines` yields: string (), in one pass."""
    return tf.data.Dataset.from_generator(
        lambda: (encode(line) for file in files for line in sentence_lines(file, format=format)),
        output_signature=tf.TensorSpec((), tf.string),
    )


@tf.autograph.experimental.do_not_convert
def line_dataset(files: Sequence[str | os.PathLike], seed: int) -> tf.data.Dataset:
    """The shuffled dataset of the lines of text that `sentence_lines` yields: string ().

    Each pass has another order: the lines of 64 files are interleaved, and shuffled in a buffer of
    16,384 lines. A saved iterator resumes where it stood.

    Args:
        files: text files; `.gz` is decompressed.
        seed: int. Determines the orders.
    """
    names = tf.constant([os.fsencode(file) for file in files])
    compressions = tf.constant(["GZIP" if is_compressed(file) else "" for file in files])
    # A saved iterator stores indices: files may be renamed before training resumes.
    sources = tf.data.Dataset.range(len(files)).shuffle(len(files), seed=seed)

    def lines_of(index: tf.Tensor) -> tf.data.Dataset:
        lines = tf.data.TextLineDataset(names[index], compression_type=compressions[index])
        first = lines.take(1).map(  # without the byte order mark
            lambda line: tf.strings.regex_replace(line, "^\ufeff", "", replace_global=False)
        )
        return first.concatenate(lines.skip(1))

    return sources.interleave(lines_of, _MIXED_FILES).shuffle(SHUFFLE_LINES, seed=seed)


# Tokens separated by spaces, and their number, with a boundary.
CountedLine = tuple[str, int]


def sentences_of(lines: Iterable[bytes]) -> list[CountedLine]:
    """The sentences that `read_sentences` yields for lines of UTF-8."""
    return [(" ".join(tokens), len(tokens) + 1) for tokens in _sentences(map(decode, lines))]


def prefetch(dataset: tf.data.Dataset, count: int) -> tf.data.Dataset:
    """Prefetches `count` elements, with autotuning disabled.

    The autotuner sleeps for up to a minute, and an iterator ends only when it wakes up: a pass of
    12 seconds took 20.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.prefetch(count).with_options(options)


def count_files(files: Sequence[str | os.PathLike], format: str | None = None) -> TextCount:
    """Counts the tokens and the suspicious lines of files, see `count_text`.

    Raises:
        ValueError: the files contain no token; or see `check_regular_file` and `sentence_lines`.
    """
    for file in files:
        check_regular_file(file)
    text = count_text(files, format)
    if not text.types:
        raise ValueError(f"There is no token in {', '.join(map(os.fspath, files))}.")
    return text


def corpus_size(text: TextCount, vocabulary: Vocabulary) -> dict[str, Any]:
    """The size of a corpus and what a vocabulary covers of it, for JSON.

    `types` are distinct tokens, `longest` is the number of tokens of the longest sentence, and
    `unigram_perplexity` that of the frequencies of the targets on this text.
    """
    ids = vocabulary.ids(list(text.types))
    targets = collections.Counter({EOS_ID: text.sentences})
    for id, count in zip(ids, text.types.values(), strict=True):
        targets[id] += count
    total = targets.total()
    entropy = math.fsum(count / total * math.log(total / count) for count in targets.values())
    return {
        "sentences": text.sentences,
        "tokens": text.tokens,
        "types": len(text.types),
        "unknown": targets[UNKNOWN_ID],
        "longest": text.longest,
        "unigram_perplexity": round(math.exp(entropy), 1),
    }


def warn_of_unknown(share: float, text: str, consequence: str) -> None:
    """Warns if more than 5 % of the targets of a corpus, `text`, are not in the vocabulary."""
    if share > _MAX_UNKNOWN:
        logging.warning(
            "%s of the targets%s are not in the vocabulary and count as <UNK>: %s",
            *(f"{share:.1%}", text, consequence),
        )
