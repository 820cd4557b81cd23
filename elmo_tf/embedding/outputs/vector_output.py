"""What every format of vectors has in common: a place for each sentence, and commits."""

import abc
import dataclasses
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from elmo_tf.config_checks import check_choice
from elmo_tf.files import refuse_file
from elmo_tf.text.sentence_files import Sentence

DTYPES = ("float32", "float16")
POOLS = ("none", "mean")
# What is added to the name of an output for the folder of what is written so far.
UNFINISHED = ".unfinished"


@dataclasses.dataclass(frozen=True)
class OutputOptions:
    """How vectors are written.

    Args:
        dtype: "float32", or "float16" for half of the size and three digits.
        compression: "none", or what the format has; see `VectorOutput.compressions`.
        forget_sentences: whether the sentences are left out, and only vectors written.
        use_sentence_keys: HDF5 alone: whether datasets are named by their sentences, not numbers.
        pool: "none" for a vector for each token, or "mean" for one for each sentence, the mean over
            its tokens (zeros without tokens).

    Raises:
        ValueError: an unknown dtype or pool, or sentences are to be keys and forgotten.
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
            raise ValueError("Sentences cannot be keys (use_sentence_keys) and forgotten too.")

    def as_written(self, vectors: np.ndarray) -> np.ndarray:
        """The array that is written for a sentence.

        Args:
            vectors: float32 (…, token, feature).

        Returns:
            The same shape, or (…, feature) if it is pooled, of the dtype to write.
        """
        if self.pool == "mean":
            vectors = mean_over_tokens(vectors)
        return np.ascontiguousarray(vectors, self.dtype)


def mean_over_tokens(vectors: np.ndarray) -> np.ndarray:
    """The vector of a sentence: float (…, token, feature) → (…, feature); zeros without tokens."""
    return vectors.sum(axis=-2) / max(1, vectors.shape[-2])


class VectorOutput(abc.ABC):
    """Vectors of sentences in a folder of its own, which becomes the output when it is complete.

    Args:
        folder: holds what is written so far. If it holds a commit, the output goes on from there,
            and what came later is forgotten.
        options: how to write.

    Raises:
        ValueError: the format has no such option.
        OSError: the disk cannot be written to.
    """

    name: ClassVar[str]
    compressions: ClassVar[tuple[str, ...]]
    takes_sentence_keys: ClassVar[bool] = False

    def __init__(self, folder: str | os.PathLike, options: OutputOptions):
        self.check(options)
        self._folder = Path(folder)
        self._options = options
        self.position: dict[str, Any] = {}
        """What the last commit was given; empty at the beginning."""

    @classmethod
    def check(cls, options: OutputOptions) -> None:
        """Raises `ValueError` if the format has no such option."""
        allowed = ("none", *cls.compressions)
        if options.compression not in allowed:
            raise ValueError(
                f"{cls.name} has no compression {options.compression!r}, only {', '.join(allowed)}."
            )
        if options.use_sentence_keys and not cls.takes_sentence_keys:
            raise ValueError(f"{cls.name} has no keys: use_sentence_keys is for HDF5 alone.")

    @classmethod
    def refuse(cls, path: str | os.PathLike, overwrite: bool) -> None:
        """Raises `FileExistsError` if an output of that name exists and may not be replaced."""
        refuse_file(path, overwrite)

    @abc.abstractmethod
    def write(self, number: int, sentence: Sentence, vectors: np.ndarray) -> None:
        """Adds the vectors of the next sentence, float32 (…, token, feature).

        Args:
            number: of the sentence, from 0.
            sentence: its text and tokens.
            vectors: its vectors.
        """

    @abc.abstractmethod
    def commit(self, position: dict[str, Any]) -> None:
        """Makes what was written last, together with `position`; or puts that off."""

    @abc.abstractmethod
    def finish(self, sentences: Iterable[Sentence]) -> list[tuple[Path | None, str]]:
        """Completes the output.

        Args:
            sentences: all of them once more.

        Returns:
            What is to be moved, in this order, and what is then added to the output's name. Of
            None, a file of that name is removed: it is of an output that this one replaces.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """Lets go of the files, whatever their state."""
