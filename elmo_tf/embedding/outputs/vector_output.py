"""The options and the base class of all output formats."""

import abc
import dataclasses
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from elmo_tf.config_checks import check_choice
from elmo_tf.files import refuse_file
from elmo_tf.text.sentence_files import FileSentence

DTYPES = ("float32", "float16")
POOLS = ("none", "mean")
# Added to the name of the output for the folder of unfinished work.
UNFINISHED = ".unfinished"
# Added to the name of the output for the tokens of raw text.
TOKENS = ".tokens.jsonl"


@dataclasses.dataclass(frozen=True)
class OutputOptions:
    """Options of an output.

    Args:
        dtype: "float32", or "float16" for half the size and three significant digits. Defaults to
            "float32".
        compression: "none" or one of `VectorOutput.compressions`. Defaults to "none".
        forget_sentences: whether to write only vectors, without the sentences. Defaults to False.
        use_sentence_keys: HDF5 only. Whether to name datasets by their sentences instead of their
            numbers. Defaults to False.
        pool: "none" for one vector per token, or "mean" for one vector per sentence, the mean over
            its tokens (zeros without tokens). Defaults to "none".

    Raises:
        ValueError: an unknown `dtype` or `pool`, or both `forget_sentences` and
            `use_sentence_keys` are True.
    """

    dtype: str = "float32"
    compression: str = "none"
    forget_sentences: bool = False
    use_sentence_keys: bool = False
    pool: str = "none"

    def __post_init__(self):
        check_choice(self.dtype, "dtype", DTYPES)
        check_choice(self.pool, "pool", POOLS)
        if self.forget_sentences and self.use_sentence_keys:
            raise ValueError("Only one of `forget_sentences` and `use_sentence_keys` may be True.")

    def as_written(self, vectors: np.ndarray) -> np.ndarray:
        """Converts the vectors of a sentence to the array to write.

        Args:
            vectors: float32 (…, token, feature).

        Returns:
            An array of `dtype` and the same shape, or (…, feature) with pooling.
        """
        if self.pool == "mean":
            vectors = mean_over_tokens(vectors)
        return np.ascontiguousarray(vectors, self.dtype)


def mean_over_tokens(vectors: np.ndarray) -> np.ndarray:
    """Mean over tokens: float (…, token, feature) → (…, feature); zeros without tokens."""
    return vectors.sum(axis=-2) / max(1, vectors.shape[-2])


class VectorOutput(abc.ABC):
    """Writes the vectors of sentences to a folder; the complete files are then moved.

    Args:
        folder: the folder of unfinished work. If it holds a commit, writing resumes from there, and
            later writes are discarded.
        options: see `OutputOptions`.

    Raises:
        ValueError: the format does not support an option.
        OSError: the folder is not writable.
    """

    name: ClassVar[str]
    compressions: ClassVar[tuple[str, ...]]
    suffixes: ClassVar[tuple[str, ...]] = ()  # of the names of further files
    takes_sentence_keys: ClassVar[bool] = False

    def __init__(self, folder: str | os.PathLike, options: OutputOptions):
        self.check(options)
        self._folder = Path(folder)
        self._options = options
        self.position: dict[str, Any] = {}
        """The position of the last commit; empty without a commit."""

    @classmethod
    def check(cls, options: OutputOptions) -> None:
        """Raises `ValueError` if the format does not support an option."""
        allowed = ("none", *cls.compressions)
        if options.compression not in allowed:
            raise ValueError(
                f"{cls.name} has no compression {options.compression!r}. "
                f"Allowed: {', '.join(allowed)}."
            )
        if options.use_sentence_keys and not cls.takes_sentence_keys:
            raise ValueError(
                f"{cls.name} does not support use_sentence_keys, which is for HDF5 only."
            )

    @classmethod
    def refuse(cls, path: str | os.PathLike, overwrite: bool) -> None:
        """Raises `FileExistsError` if a file of the output exists and may not be replaced."""
        cls._refuse_vectors(path, overwrite)
        # Further files are moved first, so an interrupted job may have written them.
        is_own = os.path.isdir(os.fspath(path) + UNFINISHED)
        for suffix in (*cls.suffixes, TOKENS):
            refuse_file(os.fspath(path) + suffix, overwrite or is_own)

    @classmethod
    def _refuse_vectors(cls, path: str | os.PathLike, overwrite: bool) -> None:
        refuse_file(path, overwrite)

    @abc.abstractmethod
    def write(self, number: int, sentence: FileSentence, vectors: np.ndarray) -> None:
        """Writes the vectors of the next sentence.

        Args:
            number: number of the sentence, from 0.
            sentence: its text and tokens.
            vectors: float32 (…, token, feature).
        """

    @abc.abstractmethod
    def commit(self, position: dict[str, Any]) -> None:
        """Makes the written vectors and `position` permanent, or defers this to a later commit."""

    @abc.abstractmethod
    def finish(self, sentences: Iterable[FileSentence]) -> list[tuple[Path | None, str]]:
        """Completes the output.

        Args:
            sentences: all sentences again.

        Returns:
            Pairs of a path and a suffix. The path is to be moved to the name of the output +
            suffix, in this order. For None, that file is removed: it belongs to a replaced output.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """Closes the files, also after an error."""
