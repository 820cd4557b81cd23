"""Rows of vectors ─► Parquet shards, and the check that shards hold every sentence once."""

import contextlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from elmo_tf.embedding.outputs.parquet_output import ShardWriter
from elmo_tf.extras import require_extra
from elmo_tf.files import atomic_file
from elmo_tf.text.sentence_files import SentenceCount

pa = require_extra("pyarrow", "parquet", "A pipeline")
pq = require_extra("pyarrow.parquet", "parquet", "A pipeline")

_NOTE = b"elmo_tf"  # key of the note in a shard's metadata


def totals(counts: Iterable[SentenceCount]) -> dict[str, int]:
    """Adds up counts: sentences, tokens, sentences without tokens, and with invalid UTF-8."""
    counts = list(counts)
    return {
        "sentences": sum(count.sentences for count in counts),
        "tokens": sum(count.tokens for count in counts),
        "empty": sum(count.empty + count.blank for count in counts),
        "invalid": sum(count.invalid for count in counts),
    }


def write_shard(
    path: Path,
    rows: Iterable[dict[str, Any]],
    schema: Any,
    compression: str,
    count: SentenceCount,
) -> None:
    """Writes a shard, which appears when it is complete.

    Args:
        path: the shard; replaced if it exists.
        rows: see `parquet_row`. They are not kept in memory.
        schema: see `parquet_schema`.
        compression: a compression of Parquet.
        count: the size of the text, stored in the metadata of the shard.

    Raises:
        OSError: the file cannot be written.
    """
    with atomic_file(path) as part:
        shard = ShardWriter(part, schema, compression)
        with contextlib.closing(shard):
            for row in rows:
                shard.write(row)
            shard.finish({_NOTE: json.dumps(count._asdict()).encode()})


def count_of(path: Path) -> SentenceCount | None:
    """The size of the text of a complete shard, or None."""
    try:
        return SentenceCount(**json.loads(pq.read_metadata(path).metadata[_NOTE]))
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
