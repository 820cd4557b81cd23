"""Text ─► the directory of an index of all its tokens in context; see `occurrences`."""

import hashlib
import itertools
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from elmo_tf.config_checks import check_int
from elmo_tf.embedding import Embedder
from elmo_tf.embedding.layer_choice import check_all_layers
from elmo_tf.evaluation.occurrences import CONTEXTS, METADATA, optional, tokens_of_row
from elmo_tf.evaluation.stored_vectors import unit_vectors
from elmo_tf.files import atomic_directory, json_text
from elmo_tf.progress import progress
from elmo_tf.text.corpus import MAX_SENTENCE_TOKENS, reported_lines
from elmo_tf.text.sentences import encode

_ROWS_PER_GROUP, _TOKENS_PER_BLOCK = 16_384, 8_192


def build_occurrence_index(
    embedder: Embedder,
    files: Sequence[str | os.PathLike],
    directory: str | os.PathLike,
    max_tokens: int | None = None,
    model: str | None = None,
) -> None:
    """Builds an index of all tokens of a text, for `OccurrenceIndex`.

    Equal sentences are indexed once. Memory holds one byte per number of the vectors, and about 70
    bytes per sentence.

    Args:
        embedder: an `Embedder` with `layers="all"`.
        files: text files, one tokenized sentence per line. A line of over 10,000 tokens is split.
        directory: the index, which appears when it is complete.
        max_tokens: int >= 1 or None. Reading stops after the sentence that reaches this number.
        model: the biLM's path or name for `load_bilm`, stored as the default of `OccurrenceIndex`.

    Raises:
        ValueError: the files hold no token, or `embedder` does not return all layers.
        FileExistsError: `directory` exists and is not an empty directory.
        MissingExtraError: faiss or pyarrow is not installed.
    """
    check_all_layers(embedder)
    check_int(1 if max_tokens is None else max_tokens, "max_tokens", ge=1)
    optional("faiss")
    names = [os.path.abspath(file) for file in files]
    settings = {
        "model": model,
        "digest": embedder.settings()["model"],
        "precision": embedder.precision,
        "files": [[name, os.path.getsize(name)] for name in names],
        "max_tokens": max_tokens,
        "layers": embedder.num_layers,
    }
    with atomic_directory(directory) as folder:
        num_tokens = _write_contexts(folder / CONTEXTS, settings, max_tokens or math.inf)
        _write_vectors(embedder, folder, num_tokens)


def _write_contexts(path: Path, settings: dict[str, Any], max_tokens: float) -> int:
    """Writes the distinct sentences, and returns the number of their tokens."""
    import pyarrow as pa

    # Not strings: a text may have bytes that are not valid UTF-8.
    fields = [("sentence", pa.binary()), ("file", pa.int32()), ("line", pa.int64())]
    schema = pa.schema(fields, {METADATA: json_text(settings)})
    rows = _distinct_sentences([name for name, _ in settings["files"]], max_tokens)
    with (
        optional("pyarrow.parquet").ParquetWriter(path, schema) as writer,
        progress(None, "reading the corpus", "tokens") as meter,
    ):
        while group := list(itertools.islice(rows, _ROWS_PER_GROUP)):
            writer.write_table(pa.table(list(zip(*group, strict=True)), schema=schema))
            meter.update(sum(sentence.count(b" ") + 1 for sentence, *_ in group))
        if not meter.n:
            raise ValueError(f"There is no token in {settings['files'][0][0]}, ….")
    return meter.n


def _distinct_sentences(files: Sequence[str], left: float) -> Iterator[tuple[bytes, int, int]]:
    """Yields sentences of up to `left` tokens, joined by spaces, and their files and lines."""
    seen: set[bytes] = set()
    for file, path in enumerate(files):
        for line, text in enumerate(reported_lines([path]), start=1):
            tokens = text.split()
            for start in range(0, len(tokens), MAX_SENTENCE_TOKENS):
                part = tokens[start : start + MAX_SENTENCE_TOKENS]
                sentence = encode(" ".join(part))
                # Any two of 100 million sentences share a digest with a probability of 0.03 %.
                digest = hashlib.blake2b(sentence, digest_size=8).digest()
                if digest not in seen and left > 0:
                    seen.add(digest)
                    yield sentence, file, line
                    left -= len(part)
            if left <= 0:
                return


def _write_vectors(embedder: Embedder, folder: Path, num_tokens: int) -> None:
    """Writes the unit vectors of each layer but layer 0, one byte per number."""
    faiss, contexts = optional("faiss"), optional("pyarrow.parquet").ParquetFile(folder / CONTEXTS)
    batches = contexts.iter_batches(columns=["sentence"])
    sentences = (tokens_of_row(row) for batch in batches for row in batch.column(0))
    settings = embedder.dim, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT
    indices = [faiss.IndexScalarQuantizer(*settings) for _ in range(1, embedder.num_layers)]
    block: list[np.ndarray] = []
    with progress(num_tokens, "embedding", "tokens") as meter:
        for vectors in embedder.embed(sentences):
            block.append(unit_vectors(vectors[1:]))
            meter.update(vectors.shape[1])
            if sum(v.shape[1] for v in block) < _TOKENS_PER_BLOCK and meter.n < num_tokens:
                continue
            for index, layer in zip(indices, np.concatenate(block, axis=1), strict=True):
                if not index.is_trained:
                    index.sq.rangestat_arg = 0.2  # later numbers may exceed the range of these
                    index.train(layer)
                index.add(layer)
            block = []
    for layer, index in enumerate(indices, start=1):
        faiss.write_index(index, str(folder / f"layer_{layer}.faiss"))
