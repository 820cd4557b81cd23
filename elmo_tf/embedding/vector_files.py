"""The vectors of a file of sentences ─► HDF5, Parquet or NumPy.

A job (`file_jobs`) writes each group of sentences to a shard, a file of its own, and joins the
shards to the output at the end.
"""

import abc
import json
import math
import os
import re
import shutil
import string
import urllib.parse
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import h5py
import numpy as np

from elmo_tf.embedding.vectors import mean_over_tokens
from elmo_tf.files import refuse_directory, refuse_file
from elmo_tf.lazy import require_extra
from elmo_tf.settings import checked_dataclass
from elmo_tf.text.reading import encode
from elmo_tf.text.sentence_files import FileSentence

# The file of each shard, and its sentences.
Shards = Iterable[tuple[Path, Sequence[FileSentence]]]

# The dataset of HDF5 with the number of each sentence, in JSON.
SENTENCES = "sentence_to_index"
# Names of datasets whose sentences are not valid names. A sentence of this form is not one either.
_FALLBACK_KEY = re.compile(rf"line [0-9]+|{SENTENCES}")
# Punctuation that is kept in an identifier.
_SAFE = string.punctuation.replace("%", "").replace("/", "")
# Bytes of vectors per row group of Parquet, which writers and readers keep in memory.
_ROW_GROUP = 2**24
_COUNT = b"elmo_tf"  # key of the size of the text in the metadata of a Parquet shard


@checked_dataclass
class OutputOptions:
    """Options of an output.

    Args:
        dtype: "float32", or "float16" for half the size and three significant digits. Defaults to
            "float32".
        forget_sentences: whether to write only vectors, without the sentences. Defaults to False.
        use_sentence_keys: HDF5 only. Whether to name datasets by their sentences instead of their
            numbers. FASTA's sequences always have their identifiers as names. Defaults to False.
        pool: "none" for one vector per token, or "mean" for one vector per sentence, the mean over
            its tokens (zeros without tokens). Defaults to "none".

    Raises:
        ValueError: an unknown value, or both `forget_sentences` and `use_sentence_keys` are True.
    """

    dtype: Literal["float32", "float16"] = "float32"
    forget_sentences: bool = False
    use_sentence_keys: bool = False
    pool: Literal["none", "mean"] = "none"

    def __post_init__(self):
        if self.forget_sentences and self.use_sentence_keys:
            raise ValueError("`forget_sentences` and `use_sentence_keys` exclude each other.")

    def as_written(self, vectors: np.ndarray) -> np.ndarray:
        """Converts the vectors of a sentence to the array to write, (…, feature) with pooling."""
        if self.pool == "mean":
            vectors = mean_over_tokens(vectors)
        return np.ascontiguousarray(vectors, self.dtype)


class VectorFile(abc.ABC):
    """A format of the vectors of sentences. A shard holds the numbers of all arrays in a row."""

    name: ClassVar[str]
    shard_suffix: ClassVar[str] = ".raw"

    def __init__(self, options: OutputOptions):
        if options.use_sentence_keys and self.name != "HDF5":
            raise ValueError(f"{self.name} does not support use_sentence_keys.")
        self._options = options

    @classmethod
    def refuse(cls, path: str | os.PathLike, overwrite: bool) -> None:
        """Raises `FileExistsError` if the output exists and may not be replaced."""
        refuse_file(path, overwrite)

    def write_shard(
        self,
        path: Path,
        first: int,
        sentences: Iterable[FileSentence],
        arrays: Iterable[np.ndarray],
    ) -> None:
        """Writes the vectors of consecutive sentences, which are not kept in memory, to a shard.

        `first` is the index of the first sentence; `arrays` are float32 (…, token, feature).
        """
        with open(path, "wb") as file:
            for vectors in arrays:
                file.write(self._options.as_written(vectors))

    @abc.abstractmethod
    def join(self, shards: Shards, shape: tuple[int | None, ...], folder: Path) -> Path:
        """Makes the output, in a folder, from all shards with their sentences.

        `shape` is that of an array, with None for the number of tokens.
        """

    def _arrays(
        self, shards: Shards, shape: tuple[int | None, ...]
    ) -> Iterator[tuple[FileSentence, np.ndarray]]:
        """Yields each sentence and its array."""
        for path, sentences in shards:
            with open(path, "rb") as file:
                for sentence in sentences:
                    sizes = [len(sentence.tokens) if size is None else size for size in shape]
                    numbers = np.fromfile(file, self._options.dtype, math.prod(sizes))
                    yield sentence, numbers.reshape(sizes)


class HDF5File(VectorFile):
    """One dataset per sentence, named by its number from 0, and `sentence_to_index` in JSON.

    With `use_sentence_keys`, a dataset is named by its sentence, so that `file[sentence]` finds it,
    and has its number in the attribute `line`. A `/` creates a group. A repeated sentence shares
    the first dataset. A sentence that is not a valid name is named `line 7` by its number: an empty
    one, one that HDF5 would shorten (`a//b`), or one that needs a group where there is a dataset,
    or the reverse.

    A sequence of FASTA is always named by its identifier, with `%2F` for `/`, and bytes beyond
    ASCII escaped in the same way (`urllib.parse.unquote` restores it). The attribute `original_id`
    is the identifier itself, `line` the number of the record.
    """

    name = "HDF5"

    def join(self, shards: Shards, shape: tuple[int | None, ...], folder: Path) -> Path:
        path = folder / "vectors.hdf5"
        keys: dict[str, str] = {}
        has_index = not (self._options.forget_sentences or self._options.use_sentence_keys)
        with h5py.File(path, "w") as file:
            for index, (sentence, vectors) in enumerate(self._arrays(shards, shape)):
                if sentence.identifier is not None:
                    _write_by_identifier(file, index, sentence.identifier, vectors)
                    has_index = False
                elif self._options.use_sentence_keys:
                    _write_by_sentence(file, index, _text(sentence), vectors)
                else:
                    file.create_dataset(str(index), data=vectors)
                    keys[_text(sentence)] = str(index)
            if has_index:
                text = h5py.string_dtype()
                file.create_dataset(SENTENCES, data=[json.dumps(keys)], dtype=text)
        return path


def _write_by_identifier(
    file: h5py.File, number: int, identifier: str, vectors: np.ndarray
) -> None:
    name = urllib.parse.quote(encode(identifier), safe=_SAFE)
    name = "%2E" if name == "." else name  # the group itself
    dataset = file.create_dataset(name, data=vectors)
    dataset.attrs.update(line=number, original_id=_valid(identifier))


def _write_by_sentence(file: h5py.File, number: int, key: str, vectors: np.ndarray) -> None:
    # HDF5 drops the parts `` and `.` of a name, and ends it at NUL.
    is_changed = "\0" in key or not {"", "."}.isdisjoint(key.split("/"))
    fallback = f"line {number}"
    name = fallback if is_changed or _FALLBACK_KEY.fullmatch(key) else key
    try:
        if isinstance(file.get(name), h5py.Dataset):
            return
        dataset = file.create_dataset(name, data=vectors)
    except (ValueError, TypeError, KeyError, OSError):  # a dataset where a group is needed
        dataset = file.create_dataset(fallback, data=vectors)
    dataset.attrs["line"] = number


def _text(sentence: FileSentence) -> str:
    """The key of a sentence; of raw text, its tokens, as in tokenized text."""
    return sentence.text if sentence.offsets is None else " ".join(sentence.tokens)


class NpyFile(VectorFile):
    """One array of the means of all sentences, (sentence, …, feature): only with pooling."""

    name = "NumPy (.npy)"

    def __init__(self, options: OutputOptions):
        if options.pool != "mean":
            raise ValueError('NumPy (.npy) requires pool="mean" (--pool mean).')
        super().__init__(options)

    def join(self, shards: Shards, shape: tuple[int | None, ...], folder: Path) -> Path:
        path = folder / "vectors.npy"
        sizes = {shard: len(sentences) for shard, sentences in shards}
        shape = (sum(sizes.values()), *shape)
        header = {"descr": np.dtype(self._options.dtype).str, "fortran_order": False}
        with open(path, "wb") as file:
            np.lib.format.write_array_header_1_0(file, {**header, "shape": shape})
            for shard in sizes:
                with open(shard, "rb") as part:
                    shutil.copyfileobj(part, file)
        return path


class ParquetFile(VectorFile):
    """A folder of shards `part-00000.parquet` and so on, a row per sentence.

    Columns: `file`, string, the text file (only of a job on many machines); `line`, int64, the
    number of the sentence from 0; `identifier`, string (only of FASTA); `text`, string, and
    `tokens`, list of string, the sentence; `shape`, list of int32, and `vectors`, list of float,
    its vectors in C order. Bytes that are not valid UTF-8 become U+FFFD, because Parquet strings
    must be UTF-8.
    """

    name = "Parquet"
    shard_suffix = ".parquet"

    def __init__(self, options: OutputOptions):
        require_extra("pyarrow", "parquet", "Parquet")
        super().__init__(options)

    @classmethod
    def refuse(cls, path: str | os.PathLike, overwrite: bool) -> None:
        refuse_directory(path, overwrite, known=["part-*.parquet"])

    def write_shard(
        self,
        path: Path,
        first: int,
        sentences: Iterable[FileSentence],
        arrays: Iterable[np.ndarray],
        file: str | None = None,
        count: dict[str, int] | None = None,
    ) -> None:
        """See `VectorFile.write_shard`.

        `file` is the text file, for the column `file`; `count` is stored with the shard.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        sentences = list(sentences)
        columns = [("file", pa.string())] if file is not None else []
        columns.append(("line", pa.int64()))
        if sentences and sentences[0].identifier is not None:
            columns.append(("identifier", pa.string()))
        if not self._options.forget_sentences:
            columns += [("text", pa.string()), ("tokens", pa.list_(pa.string()))]
        number = pa.from_numpy_dtype(np.dtype(self._options.dtype))
        columns += [("shape", pa.list_(pa.int32())), ("vectors", pa.list_(number))]
        schema = pa.schema(columns)
        with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as shard:
            rows: list[dict[str, Any]] = []  # of the next row group
            num_bytes = 0
            for line, (sentence, vectors) in enumerate(zip(sentences, arrays, strict=True), first):
                vectors = self._options.as_written(vectors)
                # `pyarrow` ignores columns that are not in the schema.
                row = {"file": file, "line": line, "text": _valid(sentence.text)}
                row["tokens"] = list(map(_valid, sentence.tokens))
                row["identifier"] = _valid(sentence.identifier or "")
                rows.append({**row, "shape": vectors.shape, "vectors": vectors.ravel()})
                num_bytes += vectors.nbytes
                if num_bytes >= _ROW_GROUP or line == first + len(sentences) - 1:
                    shard.write_table(pa.Table.from_pylist(rows, schema))
                    rows, num_bytes = [], 0
            if count is not None:
                shard.add_key_value_metadata({_COUNT: json.dumps(count).encode()})

    def join(self, shards: Shards, shape: tuple[int | None, ...], folder: Path) -> Path:
        return next(iter(shards))[0].parent


def count_of_shard(path: Path) -> dict[str, int]:
    """The `count` of `ParquetFile.write_shard`."""
    import pyarrow.parquet as pq

    return json.loads(pq.read_metadata(path).metadata[_COUNT])


def _valid(text: str) -> str:
    return encode(text).decode("utf-8", "replace")


# The formats of an output, by its suffix.
FORMATS = {".hdf5": HDF5File, ".h5": HDF5File, ".parquet": ParquetFile, ".npy": NpyFile}
