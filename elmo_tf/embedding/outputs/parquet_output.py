"""Vectors ─► Parquet: a folder of shards, as in Spark and Beam."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from elmo_tf.embedding.outputs.growing_files import GrowingFiles
from elmo_tf.embedding.outputs.vector_output import OutputOptions, VectorOutput
from elmo_tf.extras import require_extra
from elmo_tf.files import refuse_directory, sync_to_disk
from elmo_tf.text.sentence_files import FileSentence
from elmo_tf.text.sentences import encode

# Bytes of vectors per shard, and per row group, which writers and readers keep in memory.
_SHARD = 2**28
ROW_GROUP = 2**24


def parquet_schema(dtype: str, with_sentences: bool, with_file: bool = False) -> Any:
    """Returns the schema of a shard.

    Columns: `file`, string, the text file, if there are several; `line`, int64, the number of the
    sentence from 0; `text`, string, and `tokens`, list of string, the sentence; `vectors`, list of
    float, its vectors in C order, and `shape`, list of int32, their shape.

    Args:
        dtype: dtype of the vectors, "float32" or "float16".
        with_sentences: whether to include `text` and `tokens`.
        with_file: whether to include `file`.
    """
    import pyarrow as pa

    columns = [("file", pa.string())] if with_file else []
    columns.append(("line", pa.int64()))
    if with_sentences:
        columns += [("text", pa.string()), ("tokens", pa.list_(pa.string()))]
    columns += [
        ("shape", pa.list_(pa.int32())),
        ("vectors", pa.list_(pa.from_numpy_dtype(np.dtype(dtype)))),
    ]
    return pa.schema(columns)


def parquet_row(
    number: int, sentence: FileSentence, vectors: np.ndarray, options: OutputOptions
) -> dict[str, Any]:
    """Returns one row of `parquet_schema`; `pyarrow` ignores columns that are not in the schema.

    Bytes that are not valid UTF-8 become U+FFFD, because Parquet strings must be UTF-8.
    """
    vectors = options.as_written(vectors)
    return {
        "line": number,
        "text": _valid(sentence.text),
        "tokens": list(map(_valid, sentence.tokens)),
        "shape": vectors.shape,
        "vectors": vectors.ravel(),
    }


class ShardWriter:
    """Writes rows to a shard, in row groups.

    Args:
        path: the shard.
        schema: see `parquet_schema`.
        compression: a compression of Parquet.
    """

    def __init__(self, path: Path, schema: Any, compression: str):
        import pyarrow.parquet as pq

        self.num_bytes = 0
        """Size of the vectors that were written."""
        self._schema = schema
        self._file = pq.ParquetWriter(path, schema, compression=compression, use_dictionary=False)
        self._rows: list[dict[str, Any]] = []  # of the next row group
        self._rows_bytes = 0

    def write(self, row: dict[str, Any]) -> None:
        """Writes a row, see `parquet_row`."""
        num_bytes = row["vectors"].nbytes
        self.num_bytes += num_bytes
        self._rows_bytes += num_bytes
        self._rows.append(row)
        if self._rows_bytes >= ROW_GROUP:
            self._write_rows()

    def finish(self, metadata: Mapping[bytes, bytes] | None = None) -> None:
        """Completes the shard, with `metadata` for the file, and closes it."""
        if self._rows:
            self._write_rows()
        if metadata:
            self._file.add_key_value_metadata(metadata)
        self.close()

    def close(self) -> None:
        """Closes the file, also after an error."""
        self._file.close()

    def _write_rows(self) -> None:
        import pyarrow as pa

        self._file.write_table(pa.Table.from_pylist(self._rows, self._schema))
        self._rows, self._rows_bytes = [], 0


class ParquetOutput(VectorOutput):
    """A folder of shards `part-00000.parquet` and so on; see `parquet_schema`.

    A commit takes place only when a shard is complete.
    """

    name = "Parquet"
    compressions = ("snappy", "gzip", "zstd")

    @classmethod
    def _refuse_vectors(cls, path: str | os.PathLike, overwrite: bool) -> None:
        refuse_directory(path, overwrite, known=["part-*.parquet"])

    def __init__(self, folder: str | os.PathLike, options: OutputOptions):
        require_extra("pyarrow", "parquet", "Parquet")
        super().__init__(folder, options)
        self._growing = GrowingFiles(self._folder)
        self._schema = parquet_schema(options.dtype, not options.forget_sentences)
        self._shards = self._folder / "shards"
        self._shards.mkdir(exist_ok=True)
        self.position = self._growing.note
        names = {_shard_name(number) for number in range(self.position.get("num_shards", 0))}
        found = {path.name for path in self._shards.iterdir()}
        if not names <= found:  # shards were already moved to the output
            self.position, names = {}, set()
        for name in found - names:
            (self._shards / name).unlink()
        self._num_shards = len(names)
        self._shard: ShardWriter | None = None

    def write(self, number: int, sentence: FileSentence, vectors: np.ndarray) -> None:
        if self._shard is None:
            self._begin_shard()
        self._shard.write(parquet_row(number, sentence, vectors, self._options))

    def commit(self, position: dict[str, Any]) -> None:
        if self._shard is not None and self._shard.num_bytes >= _SHARD:
            self._end_shard()
            self._growing.commit({**position, "num_shards": self._num_shards})
            self.position = self._growing.note

    def finish(self, sentences: Iterable[FileSentence]) -> list[tuple[Path, str]]:
        if not self._num_shards and self._shard is None:  # no sentences
            self._begin_shard()
        if self._shard is not None:
            self._end_shard()
        return [(self._shards, "")]

    def close(self) -> None:
        if self._shard is not None:
            self._shard.close()

    def _begin_shard(self) -> None:
        path = self._shards / _shard_name(self._num_shards)
        self._shard = ShardWriter(path, self._schema, self._options.compression)

    def _end_shard(self) -> None:
        self._shard.finish()
        sync_to_disk(self._shards / _shard_name(self._num_shards))
        self._shard = None
        self._num_shards += 1


def _shard_name(number: int) -> str:
    return f"part-{number:05d}.parquet"


def _valid(text: str) -> str:
    return encode(text).decode("utf-8", "replace")
