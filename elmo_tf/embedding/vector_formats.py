"""The output formats: HDF5, NumPy and Parquet files of vectors."""

import itertools
import json
import os
import re
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from elmo_tf.embedding.vector_output import OutputOptions, Shards, VectorOutput, npy_header
from elmo_tf.extras import require_extra
from elmo_tf.files import refuse_directory
from elmo_tf.text.reading import encode
from elmo_tf.text.sentence_files import FileSentence, SentenceCount, is_utf_8

SENTENCES = "sentence_to_index"
# Names of datasets whose sentences are not valid names. A sentence of this form is not one either.
_FALLBACK_KEY = re.compile(r"line [0-9]+")


class HDF5Output(VectorOutput):
    """One dataset per sentence, named by its number from 0, and `sentence_to_index` in JSON.

    With `use_sentence_keys`, a dataset is named by its sentence, so that `file[sentence]` finds it,
    and has its number in the attribute `line`. A sequence of FASTA is always named by its
    identifier in the same way. A `/` creates a group, as in every HDF5 path. A
    repeated sentence shares the first dataset, since the vectors are the same. A sentence that is
    not a valid name is named `line 7` by its number: an empty one, one that HDF5 would shorten
    (`a//b`), or one that needs a group where there is a dataset, or the reverse.
    """

    name = "HDF5"
    compressions = ("gzip", "lzf")
    takes_sentence_keys = True

    def join(self, shards: Shards, folder: Path) -> dict[str, Path]:
        path = folder / "vectors.hdf5"
        keys: dict[str, str] = {}
        has_index = not (self._options.forget_sentences or self._options.use_sentence_keys)
        with h5py.File(path, "w") as file:
            for index, sentence, vectors in self._arrays(shards):
                if self._options.use_sentence_keys or sentence.identifier is not None:
                    self._write_by_sentence(file, index, sentence, vectors)
                    has_index = False
                    continue
                file.create_dataset(str(index), data=vectors, **self._filters(vectors))
                if has_index:
                    keys[_text(sentence)] = str(index)
            if has_index:
                text = h5py.string_dtype()
                file.create_dataset(SENTENCES, data=[json.dumps(keys)], dtype=text)
        return {"": path}

    def _filters(self, vectors: np.ndarray) -> dict[str, str]:
        # HDF5 compresses only chunked datasets, and empty datasets cannot be chunked.
        compression = self._options.compression
        return {} if compression == "none" or not vectors.size else {"compression": compression}

    def _write_by_sentence(
        self, file: h5py.File, number: int, sentence: FileSentence, vectors: np.ndarray
    ) -> None:
        key, fallback = _text(sentence), f"line {number}"
        if not _is_valid_key(key):
            key = fallback
        elif isinstance(_found(file, key), h5py.Dataset):
            return
        filters = self._filters(vectors)
        try:
            dataset = file.create_dataset(key, data=vectors, **filters)
        except (ValueError, TypeError, KeyError, OSError):
            dataset = file.create_dataset(fallback, data=vectors, **filters)
        dataset.attrs["line"] = number


def _found(file: h5py.File, key: str) -> Any:
    try:
        return file[key]
    except (ValueError, TypeError, KeyError, OSError):
        return None


def _text(sentence: FileSentence) -> str:
    """The key of a sentence; of raw text, its tokens, as in tokenized text."""
    if sentence.identifier is not None:
        return sentence.identifier
    return sentence.text if sentence.offsets is None else " ".join(sentence.tokens)


def _is_valid_key(key: str) -> bool:
    """Whether HDF5 uses a key unchanged: it drops parts `` and `.`, and ends a key at NUL."""
    is_unchanged = all(part not in ("", ".") for part in key.split("/")) and "\0" not in key
    return is_unchanged and not _FALLBACK_KEY.fullmatch(key)


# Added to the name of the array for the file of sentence offsets.
OFFSETS = ".offsets.npy"


class NpzOutput(VectorOutput):
    """An archive with one array per sentence, named by its number: `numpy.load(path)["0"]`.

    A sequence of FASTA is named by its identifier, or `line 7` by its number if the identifier has
    invalid UTF-8 or NUL, which would not keep different names apart.
    """

    name = "An .npz archive"
    compressions = ("gzip",)

    def join(self, shards: Shards, folder: Path) -> dict[str, Path]:
        path = folder / "vectors.npz"
        is_plain = self._options.compression == "none"
        method = zipfile.ZIP_STORED if is_plain else zipfile.ZIP_DEFLATED
        with zipfile.ZipFile(path, "w", method) as archive:
            for number, sentence, vectors in self._arrays(shards):
                name = number if sentence.identifier is None else sentence.identifier
                if sentence.identifier and ("\0" in name or not is_utf_8(name)):
                    name = f"line {number}"
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.ascontiguousarray(vectors))
        return {"": path}


class NpyOutput(VectorOutput):
    """One array of all tokens, for memory mapping.

    `NAME.npy` is (token, …, feature), and `NAME.npy.offsets.npy` is int64 (sentence + 1,): sentence
    k is `vectors[offsets[k] : offsets[k + 1]]`. With pooling, `NAME.npy` is (sentence, …, feature),
    and there are no offsets.
    """

    name = "An .npy array"
    compressions = ()
    suffixes = (OFFSETS,)

    def join(self, shards: Shards, folder: Path) -> dict[str, Path]:
        path = folder / "vectors.npy"
        ends, rows = [0], np.zeros(0, self._options.dtype)
        with open(path, "wb") as file:
            for _, _, vectors in self._arrays(shards):
                # (token, …, feature), or (1, …, feature) with pooling
                rows = vectors[np.newaxis] if self._is_pooled else np.moveaxis(vectors, -2, 0)
                if len(ends) == 1:
                    file.write(npy_header(rows.shape, rows.dtype))
                file.write(np.ascontiguousarray(rows))
                ends.append(ends[-1] + len(rows))
            file.seek(0)
            file.write(npy_header((ends[-1], *rows.shape[1:]), rows.dtype))
        if self._is_pooled:
            return {"": path}
        offsets = folder / OFFSETS[1:]
        np.save(offsets, np.array(ends))
        return {OFFSETS: offsets, "": path}


# Bytes of vectors per row group, which writers and readers keep in memory.
_ROW_GROUP = 2**24
_COUNT = b"elmo_tf"  # key of the `SentenceCount` in a shard's metadata


class ParquetOutput(VectorOutput):
    """A folder of shards `part-00000.parquet` and so on, a row per sentence.

    Columns: `file`, string, the text file (only of a job on many machines); `line`, int64, the
    number of the sentence from 0; `identifier`, string (only of FASTA); `text`, string, and
    `tokens`, list of string, the sentence; `shape`, list of int32, and `vectors`, list of float,
    its vectors in C order. Bytes that are not valid UTF-8 become U+FFFD, because Parquet strings
    must be UTF-8.
    """

    name = "Parquet"
    compressions = ("snappy", "gzip", "zstd")
    shard_suffix = ".parquet"
    doubles_size = False

    def __init__(self, options: OutputOptions):
        require_extra("pyarrow", "parquet", "Parquet")
        super().__init__(options)

    @classmethod
    def _refuse_vectors(cls, path: str | os.PathLike, overwrite: bool) -> None:
        refuse_directory(path, overwrite, known=["part-*.parquet"])

    def write_shard(
        self,
        path: Path,
        first: int,
        sentences: Iterable[FileSentence],
        arrays: Iterable[np.ndarray],
        file: str | None = None,
        count: SentenceCount | None = None,
    ) -> None:
        """Writes the vectors of consecutive sentences, which are not kept in memory.

        Besides the arguments of `VectorOutput.write_shard`: the text file, for the column `file`,
        and the size of the text, to be stored with the shard.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        sentences = iter(sentences)
        head = list(itertools.islice(sentences, 1))
        is_fasta = bool(head) and head[0].identifier is not None
        schema = self._schema(with_file=file is not None, with_identifier=is_fasta)
        compression = self._options.compression
        with pq.ParquetWriter(path, schema, compression=compression, use_dictionary=False) as shard:
            rows: list[dict[str, Any]] = []  # of the next row group
            num_bytes = 0
            pairs = zip(itertools.chain(head, sentences), arrays, strict=True)
            for line, (sentence, vectors) in enumerate(pairs, first):
                vectors = self._options.as_written(vectors)
                # `pyarrow` ignores columns that are not in the schema.
                row = {"file": file, "line": line, "text": _valid(sentence.text)}
                row["tokens"] = list(map(_valid, sentence.tokens))
                row["identifier"] = _valid(sentence.identifier or "")
                rows.append({**row, "shape": vectors.shape, "vectors": vectors.ravel()})
                num_bytes += vectors.nbytes
                if num_bytes >= _ROW_GROUP:
                    shard.write_table(pa.Table.from_pylist(rows, schema))
                    rows, num_bytes = [], 0
            if rows:
                shard.write_table(pa.Table.from_pylist(rows, schema))
            if count is not None:
                shard.add_key_value_metadata({_COUNT: json.dumps(count._asdict()).encode()})

    def _schema(self, with_file: bool, with_identifier: bool) -> Any:
        import pyarrow as pa

        columns = [("file", pa.string())] if with_file else []
        columns.append(("line", pa.int64()))
        if with_identifier:
            columns.append(("identifier", pa.string()))
        if not self._options.forget_sentences:
            columns += [("text", pa.string()), ("tokens", pa.list_(pa.string()))]
        number = pa.from_numpy_dtype(np.dtype(self._options.dtype))
        columns += [("shape", pa.list_(pa.int32())), ("vectors", pa.list_(number))]
        return pa.schema(columns)

    def join(self, shards: Shards, folder: Path) -> dict[str, Path]:
        return {"": next(iter(shards))[0].parent}


def count_of_shard(path: Path) -> SentenceCount:
    """The `count` of `ParquetOutput.write_shard`."""
    import pyarrow.parquet as pq

    return SentenceCount(**json.loads(pq.read_metadata(path).metadata[_COUNT]))


def _valid(text: str) -> str:
    return encode(text).decode("utf-8", "replace")


_BY_SUFFIX: dict[str, type[VectorOutput]] = {
    ".hdf5": HDF5Output,
    ".h5": HDF5Output,
    ".parquet": ParquetOutput,
    ".npz": NpzOutput,
    ".npy": NpyOutput,
}


def output_format(path: str | os.PathLike) -> type[VectorOutput]:
    """Returns the class that writes an output, chosen by its suffix.

    Raises:
        ValueError: the suffix is unknown.
    """
    path = os.fspath(path)
    kind = _BY_SUFFIX.get(os.path.splitext(path)[1].lower())
    if kind is None:
        raise ValueError(
            f"The name of an output must end in {', '.join(_BY_SUFFIX)}. Received: {path!r}"
        )
    return kind
