"""The options of all output formats, and the shards that a job joins to an output."""

import abc
import io
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from elmo_tf.files import refuse_file
from elmo_tf.settings import checked_dataclass
from elmo_tf.text.sentence_files import FileSentence

# The file of each shard, and its sentences.
Shards = Iterable[tuple[Path, Sequence[FileSentence]]]

# Added to the name of the output for the folder of unfinished work.
UNFINISHED = ".unfinished"
# Added to the name of the output for the tokens of raw text.
TOKENS = ".tokens.jsonl"


@checked_dataclass
class OutputOptions:
    """Options of an output.

    Args:
        dtype: "float32", or "float16" for half the size and three significant digits. Defaults to
            "float32".
        compression: "none" or one of `VectorOutput.compressions`. Defaults to "none".
        forget_sentences: whether to write only vectors, without the sentences. Defaults to False.
        use_sentence_keys: HDF5 only. Whether to name datasets by their sentences instead of their
            numbers. Sequences of FASTA are named by their identifiers. Defaults to False.
        pool: "none" for one vector per token, or "mean" for one vector per sentence, the mean over
            its tokens (zeros without tokens). Defaults to "none".

    Raises:
        ValueError: an unknown `dtype` or `pool`, or both `forget_sentences` and
            `use_sentence_keys` are True.
    """

    dtype: Literal["float32", "float16"] = "float32"
    compression: str = "none"
    forget_sentences: bool = False
    use_sentence_keys: bool = False
    pool: Literal["none", "mean"] = "none"

    EXCLUSIVE: ClassVar = (("forget_sentences", "use_sentence_keys"),)

    def as_written(self, vectors: np.ndarray) -> np.ndarray:
        """Converts the vectors of a sentence to the array to write, (…, feature) with pooling."""
        if self.pool == "mean":
            vectors = mean_over_tokens(vectors)
        return np.ascontiguousarray(vectors, self.dtype)


def mean_over_tokens(vectors: np.ndarray) -> np.ndarray:
    """Mean over tokens: float (…, token, feature) → (…, feature); zeros without tokens."""
    return vectors.sum(axis=-2) / max(1, vectors.shape[-2])


def unit_vectors(vectors: np.ndarray) -> np.ndarray:
    """Normalizes vectors along the last axis to length 1, float32; zero vectors stay zero."""
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.ascontiguousarray(vectors / np.where(norms > 0, norms, 1), np.float32)


def cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The cosine of each of the n items of `a` and each of the m of `b`, float32 (n, m)."""
    rows = [unit_vectors(items.reshape(len(items), math.prod(items.shape[1:]))) for items in (a, b)]
    sizes = [vectors.shape[1] for vectors in rows]
    if sizes[0] != sizes[1]:
        raise ValueError(
            f"`a` and `b` must have vectors of the same size. Received: {sizes[0]} and {sizes[1]} "
            "numbers per sentence."
        )
    return rows[0] @ rows[1].T


class VectorOutput(abc.ABC):
    """A format of the vectors of sentences.

    A job writes each group of sentences to a shard, a file of its own, and joins the shards at the
    end. A shard is an array of its sentences side by side: float (…, token, feature), or
    (…, sentence, feature) with pooling. If the format does not support an option, the constructor
    raises `ValueError`.
    """

    name: ClassVar[str]
    compressions: ClassVar[tuple[str, ...]]
    suffixes: ClassVar[tuple[str, ...]] = ()  # of the names of further files
    takes_sentence_keys: ClassVar[bool] = False
    shard_suffix: ClassVar[str] = ".npy"
    doubles_size: ClassVar[bool] = True  # while shards are joined

    def __init__(self, options: OutputOptions):
        self.check(options)
        self._options = options
        self._is_pooled = options.pool == "mean"

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

    def write_shard(
        self,
        path: Path,
        first: int,
        sentences: Iterable[FileSentence],
        arrays: Iterable[np.ndarray],
    ) -> None:
        """Writes the vectors of consecutive sentences to a shard.

        `first` is the index of the first sentence; `arrays` are float32 (…, token, feature).
        """
        written = [self._options.as_written(vectors) for vectors in arrays]
        if self._is_pooled:
            written = [vectors[..., np.newaxis, :] for vectors in written]
        num_rows = sum(vectors.shape[-2] for vectors in written)
        *others, _, dim = written[0].shape if written else (0, 0)
        with open(path, "wb") as file:
            file.write(npy_header((*others, num_rows, dim), np.dtype(self._options.dtype)))
            # As `np.concatenate`, but without another copy in memory.
            for place in np.ndindex(*others):
                for vectors in written:
                    file.write(np.ascontiguousarray(vectors[place]))

    @abc.abstractmethod
    def join(self, shards: Shards, folder: Path) -> dict[str, Path]:
        """Makes the files of the output, in a folder, from all shards with their sentences.

        Returns the path of each file, by the suffix to be added to the name of the output.
        """

    def _arrays(self, shards: Shards) -> Iterator[tuple[int, FileSentence, np.ndarray]]:
        """Yields the index of each sentence, the sentence, and its array."""
        index = 0
        for path, sentences in shards:
            rows, end = np.load(path, mmap_mode="r"), 0
            for sentence in sentences:
                start, end = end, end + (1 if self._is_pooled else len(sentence.tokens))
                yield index, sentence, rows[..., start if self._is_pooled else slice(start, end), :]
                index += 1


def npy_header(shape: tuple[int, ...], dtype: np.dtype) -> bytes:
    """The header of a .npy file. Its size does not depend on the first axis."""
    buffer = io.BytesIO()
    fields = {"descr": dtype.str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, fields)
    return buffer.getvalue()
