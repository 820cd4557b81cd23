"""biLM + text ─► an index of all tokens in context: a folder that is whole by itself."""

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import elmo_tf
from elmo_tf.config_checks import check_int
from elmo_tf.embedding import Embedder
from elmo_tf.evaluation.occurrence_index.corpus_store import StoredCorpus, write_corpus
from elmo_tf.evaluation.occurrence_index.layer_index import (
    LayerWriter,
    sample_size,
    unit_vectors,
)
from elmo_tf.extras import require_extra
from elmo_tf.files import atomic_directory
from elmo_tf.progress import progress, progress_over

META, TYPE_VECTORS = "index.json", "types.f16"
FORMAT = 1

# Tokens whose vectors are added together, and types that are encoded together.
_TOKENS_AT_ONCE = 8_192
_TYPES_AT_ONCE = 4_096


def build_occurrence_index(
    embedder: Embedder,
    files: Sequence[str | os.PathLike],
    directory: str | os.PathLike,
    max_tokens: int | None = None,
    model: str | None = None,
) -> None:
    """Writes an index of all tokens of some text, for `OccurrenceIndex`.

    Equal sentences are taken once. Vectors are in memory only for a while, however long the text.

    Args:
        embedder: an `Embedder` with `layers="all"`.
        files: one tokenised sentence a line; `.gz` is unpacked.
        directory: appears when it is complete.
        max_tokens: int >= 1 or None. Of the text, as many sentences as reach them.
        model: what `load_bilm` takes to load the same biLM, so that it need not be named again.

    Raises:
        ValueError: there is no token in the files, or `embedder` gives no layers.
        FileExistsError: `directory` exists and is not an empty folder.
        MissingExtraError: faiss is not installed.
    """
    if embedder.layers != "all":
        raise ValueError(
            f'`embedder` must give all layers (layers="all"). Received: {embedder.layers!r}'
        )
    if max_tokens is not None:
        check_int(max_tokens, "max_tokens", least=1)
    require_extra("faiss", "analysis", "An index of occurrences")
    names = [os.path.abspath(file) for file in files]
    with atomic_directory(directory) as folder:
        write_corpus(files, folder, max_tokens)
        corpus = StoredCorpus(folder, names)
        parts = _write_layers(embedder, corpus, folder)
        _write_types(embedder, corpus.types, folder)
        content = {
            "format": FORMAT,
            "elmo_tf": elmo_tf.__version__,
            "model": model,
            "digest": embedder.settings()["model"],
            "precision": embedder.precision,
            "dim": embedder.dim,
            "files": [[name, os.path.getsize(name)] for name in names],
            "max_tokens": max_tokens,
            "sentences": corpus.num_sentences,
            "tokens": corpus.num_tokens,
            "types": len(corpus.types),
            "layers": parts,
            "bytes": {file.name: file.stat().st_size for file in sorted(folder.iterdir())},
        }
        (folder / META).write_text(json.dumps(content, indent=1) + "\n", "utf-8")


def _write_layers(embedder: Embedder, corpus: StoredCorpus, folder: Path) -> dict[str, Any]:
    """Writes the vectors of every layer above the first, that of types; gives its files."""
    num_layers = embedder.bilm.config.lstm.num_layers
    samples = _sample(embedder, corpus, num_layers)
    numbers = range(1, num_layers + 1)
    writers = [
        LayerWriter(folder, layer, embedder.dim, corpus.num_tokens, samples[layer - 1])
        for layer in progress_over(numbers, num_layers, "learning centres", "layers")
    ]
    del samples
    sentences = map(corpus.tokens, range(corpus.num_sentences))
    with progress(corpus.num_tokens, "embedding", "tokens") as meter:
        for vectors in _blocks(embedder, sentences):
            for writer, of_layer in zip(writers, vectors, strict=True):
                writer.add(of_layer)
            meter.update(vectors.shape[1])
    for writer in writers:
        writer.close()
    return {str(layer): writer.parts for layer, writer in zip(numbers, writers, strict=True)}


def _sample(embedder: Embedder, corpus: StoredCorpus, num_layers: int) -> np.ndarray:
    """Unit vectors of the tokens of random sentences, float32 (layer, token, feature)."""
    size = sample_size(corpus.num_tokens)
    sample = np.empty((num_layers, size, embedder.dim), np.float32)
    order = np.random.default_rng(0).permutation(corpus.num_sentences) if size else []
    filled = 0
    with progress(size, "embedding a sample", "tokens") as meter:
        for vectors in _blocks(embedder, map(corpus.tokens, order)):
            count = min(vectors.shape[1], size - filled)
            sample[:, filled : filled + count] = vectors[:, :count]
            filled += count
            meter.update(count)
            if filled == size:
                break
    return sample


def _blocks(embedder: Embedder, sentences: Iterator[list[str]]) -> Iterator[np.ndarray]:
    """Unit vectors of tokens one after the other, some thousands at once, without layer 0."""
    arrays: list[np.ndarray] = []
    waiting = 0
    for vectors in embedder.embed(sentences):
        arrays.append(vectors[1:])
        waiting += vectors.shape[1]
        if waiting >= _TOKENS_AT_ONCE:
            yield unit_vectors(np.concatenate(arrays, axis=1))  # (layer, token, feature)
            arrays, waiting = [], 0
    if arrays:
        yield unit_vectors(np.concatenate(arrays, axis=1))


def _write_types(embedder: Embedder, types: Sequence[str], folder: Path) -> None:
    """Writes the vector that the biLM has of each type without context, float16."""
    with (
        open(folder / TYPE_VECTORS, "wb") as file,
        progress(len(types), "encoding types", "types") as meter,
    ):
        for start in range(0, len(types), _TYPES_AT_ONCE):
            part = list(types[start : start + _TYPES_AT_ONCE])
            vectors = tf.cast(embedder.bilm.token_embeddings(part), tf.float32)
            file.write(unit_vectors(vectors.numpy()).astype(np.float16).tobytes())
            meter.update(len(part))
