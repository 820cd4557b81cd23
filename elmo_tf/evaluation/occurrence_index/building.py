"""Builds the directory of an occurrence index from a biLM and text files."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import elmo_tf
from elmo_tf.config_checks import check_int
from elmo_tf.embedding import Embedder
from elmo_tf.embedding.distillation import token_vectors
from elmo_tf.embedding.layer_choice import check_all_layers
from elmo_tf.evaluation.layer_vectors import unit_vectors
from elmo_tf.evaluation.occurrence_index.corpus_store import StoredCorpus, write_corpus
from elmo_tf.evaluation.occurrence_index.description import DESCRIPTION_FILE, FORMAT
from elmo_tf.evaluation.occurrence_index.layer_index import LayerWriter, sample_size
from elmo_tf.extras import require_extra
from elmo_tf.files import atomic_directory, write_json
from elmo_tf.progress import progress, progress_over

TYPE_VECTORS = "types.f16"

_TOKENS_PER_BLOCK = 8_192


def build_occurrence_index(
    embedder: Embedder,
    files: Sequence[str | os.PathLike],
    directory: str | os.PathLike,
    max_tokens: int | None = None,
    model: str | None = None,
) -> None:
    """Builds an index of all tokens of a text, for `OccurrenceIndex`, in bounded memory.

    Equal sentences are indexed once.

    Args:
        embedder: an `Embedder` with `layers="all"`.
        files: text files, one tokenized sentence per line, also as `.gz`.
        directory: the index, which appears when it is complete.
        max_tokens: int >= 1 or None. Reading stops after the sentence that reaches this number.
        model: the biLM's path or name for `load_bilm`, stored as the default of `OccurrenceIndex`.

    Raises:
        ValueError: the files hold no token, or `embedder` does not return all layers.
        FileExistsError: `directory` exists and is not an empty directory.
        MissingExtraError: faiss is not installed.
    """
    check_all_layers(embedder)
    if max_tokens is not None:
        check_int(max_tokens, "max_tokens", ge=1)
    require_extra("faiss", "analysis", "An index of occurrences")
    names = [os.path.abspath(file) for file in files]
    with atomic_directory(directory) as folder:
        write_corpus(files, folder, max_tokens)
        corpus = StoredCorpus(folder, names)
        parts = _write_layers(embedder, corpus, folder)
        _write_types(embedder, corpus.types, folder)
        description = {
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
        write_json(folder / DESCRIPTION_FILE, description)


def _write_layers(embedder: Embedder, corpus: StoredCorpus, folder: Path) -> dict[str, Any]:
    """Writes the vectors of all layers but layer 0, and returns their files."""
    num_layers = embedder.bilm.config.lstm.num_layers
    samples = _sample(embedder, corpus, num_layers)
    numbers = range(1, num_layers + 1)
    writers = [
        LayerWriter(folder, layer, embedder.dim, corpus.num_tokens, samples[layer - 1])
        for layer in progress_over(numbers, num_layers, "clustering", "layers")
    ]
    del samples
    sentences = map(corpus.tokens, range(corpus.num_sentences))
    with progress(corpus.num_tokens, "embedding", "tokens") as meter:
        for vectors in _blocks(embedder, sentences):
            for writer, layer_vectors in zip(writers, vectors, strict=True):
                writer.add(layer_vectors)
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
    """Yields unit vectors of consecutive tokens without layer 0, (layer, token, feature)."""
    arrays: list[np.ndarray] = []
    num_tokens = 0
    for vectors in embedder.embed(sentences):
        arrays.append(vectors[1:])
        num_tokens += vectors.shape[1]
        if num_tokens >= _TOKENS_PER_BLOCK:
            yield unit_vectors(np.concatenate(arrays, axis=1))
            arrays, num_tokens = [], 0
    if arrays:
        yield unit_vectors(np.concatenate(arrays, axis=1))


def _write_types(embedder: Embedder, types: Sequence[str], folder: Path) -> None:
    """Writes the biLM's context-independent vector of each type, float16."""
    vectors = token_vectors(embedder.bilm, types)
    with open(folder / TYPE_VECTORS, "wb") as file:
        for vector in progress_over(vectors, len(types), "encoding types", "types"):
            file.write(unit_vectors(vector).astype(np.float16).tobytes())
