"""Rows of vectors ─► Parquet shards, and the check that shards hold every sentence once."""

import contextlib
import json
import os
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from elmo_tf.embedding.outputs.parquet_output import ROW_GROUP
from elmo_tf.extras import require_extra
from elmo_tf.files import synchronise
from elmo_tf.text.data_warnings import is_utf_8
from elmo_tf.text.sentence_files import Sentence

pa = require_extra("pyarrow", "parquet", "A pipeline")
pq = require_extra("pyarrow.parquet", "parquet", "A pipeline")

COUNTS = ("sentences", "tokens", "empty", "invalid")

_NOTE = b"elmo_tf"  # key of the note in a shard's metadata


def new_counts() -> Counter[str]:
    """Zeros for `COUNTS`: sentences, tokens, sentences without tokens, and with invalid UTF-8."""
    return Counter(dict.fromkeys(COUNTS, 0))


def count_into(counts: Counter[str], sentence: Sentence) -> None:
    """Adds a sentence to counts."""
    counts["sentences"] += 1
    counts["tokens"] += len(sentence.tokens)
    counts["empty"] += not sentence.tokens
    counts["invalid"] += not is_utf_8(sentence.text)


def write_shard(
    path: Path,
    rows: Iterable[dict[str, Any]],
    schema: Any,
    compression: str,
    note: Mapping[str, Any],
) -> None:
    """Writes a shard, which appears when it is complete.

    Args:
        path: the shard; replaced if it exists.
        rows: see `parquet_row`. They are not kept in memory.
        schema: see `parquet_schema`.
        compression: a compression of Parquet.
        note: stored in the metadata of the shard. It may change until the rows have ended.

    Raises:
        OSError: the file cannot be written.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with pq.ParquetWriter(part, schema, compression=compression, use_dictionary=False) as file:
            for group in _groups(rows):
                file.write_table(pa.Table.from_pylist(group, schema))
            file.add_key_value_metadata({_NOTE: json.dumps(note).encode()})
        synchronise(part)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _groups(rows: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    group: list[dict[str, Any]] = []
    num_bytes = 0
    for row in rows:
        group.append(row)
        num_bytes += row["vectors"].nbytes
        if num_bytes >= ROW_GROUP:
            yield group
            group, num_bytes = [], 0
    if group:
        yield group


def note_of(path: Path) -> dict[str, Any] | None:
    """The note of a complete shard and its number of rows ("rows"), or None."""
    try:
        metadata = pq.read_metadata(path)
        return {**json.loads(metadata.metadata[_NOTE]), "rows": metadata.num_rows}
    except (FileNotFoundError, pa.ArrowInvalid, KeyError, TypeError, ValueError):
        return None


def check_shards(shards: Iterable[str | BinaryIO], expected: Mapping[str, int]) -> None:
    """Checks that shards have every sentence of some files exactly once.

    Reads the columns `file` and `line` alone.

    Args:
        shards: paths or open files.
        expected: the number of sentences of each file.

    Raises:
        RuntimeError: sentences are missing, occur twice, or are of another file. The message names
            the files.
    """
    seen = {file: np.zeros(number, bool) for file, number in expected.items()}
    problems = []
    for shard in shards:
        with contextlib.closing(pq.ParquetFile(shard)) as reader:
            for batch in reader.iter_batches(columns=["file", "line"]):
                problems += _mark(batch, seen)
    for file, marks in seen.items():
        if not marks.all():
            missing = np.flatnonzero(~marks)
            problems.append(
                f"{file} lacks {len(missing):,} of {len(marks):,} sentences, the first at line "
                f"{missing[0]} (from 0)"
            )
    if problems:
        more = f"; and {len(problems) - 5:,} more problems" if len(problems) > 5 else ""
        raise RuntimeError(
            f"The output does not have every sentence exactly once: {'; '.join(problems[:5])}"
            f"{more}."
        )


def _mark(batch: Any, seen: Mapping[str, np.ndarray]) -> list[str]:
    """Marks the sentences of a batch as seen, and returns what is wrong with them."""
    problems = []
    files = batch.column("file").dictionary_encode()
    numbers, lines = files.indices.to_numpy(), batch.column("line").to_numpy()
    for index, file in enumerate(files.dictionary.to_pylist()):
        marks = seen.get(file)
        mine = lines[numbers == index]
        if marks is None:
            problems.append(f"there are {len(mine):,} rows of {file}, which is not an input")
        elif mine.max() >= len(marks) or mine.min() < 0:
            problems.append(f"{file} has lines beyond its {len(marks):,} sentences")
        else:
            num_before = np.count_nonzero(marks)
            marks[mine] = True
            num_twice = len(mine) - (np.count_nonzero(marks) - num_before)
            if num_twice:
                problems.append(f"{file} has {num_twice:,} sentences more than once")
    return problems
