"""Vectors ─► Parquet: a folder of shards, as in Spark."""

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from elmo_tf.embedding.outputs.vector_output import OutputOptions, VectorOutput
from elmo_tf.extras import require_extra
from elmo_tf.files import refuse_directory
from elmo_tf.text.sentence_files import FileSentence, SentenceCount
from elmo_tf.text.sentences import encode

# Bytes of vectors per row group, which writers and readers keep in memory.
_ROW_GROUP = 2**24
_COUNT = b"elmo_tf"  # key of the `SentenceCount` in a shard's metadata


class ParquetOutput(VectorOutput):
    """A folder of shards `part-00000.parquet` and so on, a row per sentence.

    Columns: `file`, string, the text file (only of a job on many machines); `line`, int64, the
    number of the sentence from 0; `text`, string, and `tokens`, list of string, the sentence;
    `shape`, list of int32, and `vectors`, list of float, its vectors in C order. Bytes that are not
    valid UTF-8 become U+FFFD, because Parquet strings must be UTF-8.
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

        schema = self._schema(with_file=file is not None)
        compression = self._options.compression
        with pq.ParquetWriter(path, schema, compression=compression, use_dictionary=False) as shard:
            rows: list[dict[str, Any]] = []  # of the next row group
            num_bytes = 0
            for line, (sentence, vectors) in enumerate(zip(sentences, arrays, strict=True), first):
                vectors = self._options.as_written(vectors)
                # `pyarrow` ignores columns that are not in the schema.
                row = {"file": file, "line": line, "text": _valid(sentence.text)}
                row["tokens"] = list(map(_valid, sentence.tokens))
                rows.append({**row, "shape": vectors.shape, "vectors": vectors.ravel()})
                num_bytes += vectors.nbytes
                if num_bytes >= _ROW_GROUP:
                    shard.write_table(pa.Table.from_pylist(rows, schema))
                    rows, num_bytes = [], 0
            if rows:
                shard.write_table(pa.Table.from_pylist(rows, schema))
            if count is not None:
                shard.add_key_value_metadata({_COUNT: json.dumps(count._asdict()).encode()})

    def _schema(self, with_file: bool) -> Any:
        import pyarrow as pa

        columns = [("file", pa.string())] if with_file else []
        columns.append(("line", pa.int64()))
        if not self._options.forget_sentences:
            columns += [("text", pa.string()), ("tokens", pa.list_(pa.string()))]
        number = pa.from_numpy_dtype(np.dtype(self._options.dtype))
        columns += [("shape", pa.list_(pa.int32())), ("vectors", pa.list_(number))]
        return pa.schema(columns)

    def join(
        self, shards: Iterable[tuple[Path, Sequence[FileSentence]]], folder: Path
    ) -> dict[str, Path]:
        return {"": next(iter(shards))[0].parent}


def count_of_shard(path: Path) -> SentenceCount:
    """The `count` of `ParquetOutput.write_shard`."""
    import pyarrow.parquet as pq

    return SentenceCount(**json.loads(pq.read_metadata(path).metadata[_COUNT]))


def _valid(text: str) -> str:
    return encode(text).decode("utf-8", "replace")
