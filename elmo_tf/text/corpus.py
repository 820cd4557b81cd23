"""Text files ─► sentences, in `tf.data`; one tokenised sentence a line."""

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import tensorflow as tf

from elmo_tf.progress import progress
from elmo_tf.text.sentences import split_tokens
from elmo_tf.text.vocabulary import Vocabulary, read_lines


def text_files(patterns: Iterable[str | os.PathLike]) -> list[Path]:
    """The files that some patterns name, each once, those of a pattern in order of their names.

    Args:
        patterns: paths, or patterns with `*`, `?`, `[…]`, and `**` for folders of any depth.

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
        with open(file, "rb"):
            pass
    return list(files)


def read_sentences(files: Sequence[str | os.PathLike]) -> Iterator[list[str]]:
    """The tokens of each line that has any.

    Raises:
        ValueError: a `.gz` file is damaged, or only a carriage return stands between two tokens.
    """
    for file in files:
        for number, line in enumerate(read_lines(file), start=1):
            tokens = line.split()
            # TensorFlow's reader drops carriage returns wherever they are.
            if "\r" in line and line.replace("\r", "").split() != tokens:
                raise ValueError(
                    f"{os.fspath(file)}, line {number}: a carriage return stands between two "
                    "tokens. Put a newline or a space in its place."
                )
            if tokens:
                yield tokens


@tf.autograph.experimental.do_not_convert
def sentence_dataset(
    files: Sequence[str | os.PathLike], seed: int | None = None
) -> tf.data.Dataset:
    """The same in the graph: a dataset of string (token,), each line of text an element.

    Args:
        files: text files; `.gz` is unpacked.
        seed: int or None. If given, the files come in another order at each pass.
    """
    names = tf.data.Dataset.from_tensor_slices([os.fsencode(file) for file in files])
    if seed is not None:
        names = names.shuffle(len(files), seed=seed)
    return names.flat_map(_lines).map(lambda line: split_tokens(line[tf.newaxis]).values)


class CorpusCount(NamedTuple):
    """Sentences of some text, its tokens (no boundaries), and those not in a vocabulary."""

    sentences: int
    tokens: int
    unknown: int

    @property
    def targets(self) -> int:
        """What a language model predicts in one direction: every token, and a boundary each."""
        return self.tokens + self.sentences


def count_corpus(files: Sequence[str | os.PathLike], vocabulary: Vocabulary) -> CorpusCount:
    """Counts text files.

    Raises:
        ValueError: there is no token in them, or see `read_sentences`.
    """
    sentences = tokens = unknown = 0
    with progress(None, "counting the corpus", "sentences") as meter:
        for sentence in read_sentences(files):
            sentences += 1
            tokens += len(sentence)
            unknown += sum(token not in vocabulary for token in sentence)
            meter.update(1)
    if not tokens:
        raise ValueError(f"There is no token in {', '.join(map(os.fspath, files))}.")
    return CorpusCount(sentences, tokens, unknown)


def _lines(name: tf.Tensor) -> tf.data.Dataset:
    packed = tf.strings.regex_full_match(name, r".*\.gz")
    return tf.data.TextLineDataset(name, compression_type=tf.where(packed, "GZIP", ""))
