"""Text ─► the directory of an index of all its tokens in context; see `occurrences`."""

import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from elmo_tf.config_checks import check_int
from elmo_tf.embedding import Embedder
from elmo_tf.embedding.layer_choice import check_all_layers
from elmo_tf.evaluation.occurrences import CONTEXTS, METADATA, optional
from elmo_tf.evaluation.stored_vectors import unit_vectors
from elmo_tf.files import atomic_directory, json_text
from elmo_tf.progress import progress
from elmo_tf.text.batches import read_ahead
from elmo_tf.text.corpus import MAX_SENTENCE_TOKENS, reported_lines
from elmo_tf.text.sentences import encode

_TOKENS_PER_BLOCK = 8_192


def build_occurrence_index(
    embedder: Embedder,
    files: Sequence[str | os.PathLike],
    directory: str | os.PathLike,
    max_tokens: int | None = None,
    model: str | None = None,
) -> None:
    """Builds an index of all tokens of a text, for `OccurrenceIndex`.

    Equal sentences are indexed once. Memory holds the text, and one byte per number of the vectors.

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
    pa, parquet, _ = map(optional, ("pyarrow", "pyarrow.parquet", "faiss"))
    names = [os.path.abspath(file) for file in files]
    settings = {
        "model": model,
        "digest": embedder.settings()["model"],
        "precision": embedder.precision,
        "files": [[name, os.path.getsize(name)] for name in names],
        "max_tokens": max_tokens,
        "layers": embedder.num_layers,
    }
    # Not strings: a text may have bytes that are not valid UTF-8.
    fields = [("sentence", pa.binary()), ("file", pa.int32()), ("line", pa.int64())]
    schema = pa.schema(fields, {METADATA: json_text(settings)})
    with atomic_directory(directory) as folder:
        sentences = _distinct_sentences(names, max_tokens or math.inf)
        columns = [list(map(encode, sentences)), *zip(*sentences.values(), strict=True)]
        parquet.write_table(pa.table(columns, schema=schema), folder / CONTEXTS)
        _write_vectors(embedder, sentences, folder)


def _distinct_sentences(files: Sequence[str], left: float) -> dict[str, tuple[int, int]]:
    """The first sentences, of up to `left` tokens, joined by spaces: their files and lines."""
    sentences: dict[str, tuple[int, int]] = {}
    with progress(None, "reading the corpus", "tokens") as meter:
        for file, path in enumerate(files):
            for line, text in enumerate(reported_lines([path]), start=1):
                tokens = text.split()
                for start in range(0, len(tokens), MAX_SENTENCE_TOKENS):
                    part = tokens[start : start + MAX_SENTENCE_TOKENS]
                    sentence = " ".join(part)
                    if sentence not in sentences and left > 0:
                        sentences[sentence] = file, line
                        left -= len(part)
                        meter.update(len(part))
                if left <= 0:
                    return sentences
    if not sentences:
        raise ValueError(f"There is no token in {files[0]}, ….")
    return sentences


def _write_vectors(embedder: Embedder, sentences: Iterable[str], folder: Path) -> None:
    """Writes the unit vectors of each layer but layer 0, one byte per number."""
    faiss = optional("faiss")
    settings = embedder.dim, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT
    indices = [faiss.IndexScalarQuantizer(*settings) for _ in range(1, embedder.num_layers)]
    num_tokens = sum(sentence.count(" ") + 1 for sentence in sentences)
    arrays = iter(embedder.embed(sentence.split(" ") for sentence in sentences))
    with progress(num_tokens, "embedding", "tokens") as meter:
        while block := read_ahead(arrays, _TOKENS_PER_BLOCK, lambda array: array.shape[1]):
            vectors = unit_vectors(np.concatenate(block, axis=1)[1:])
            for index, layer in zip(indices, vectors, strict=True):
                if not index.is_trained:
                    index.sq.rangestat_arg = 0.2  # later numbers may exceed the range of these
                    index.train(layer)
                index.add(layer)
            meter.update(vectors.shape[1])
    for layer, index in enumerate(indices, start=1):
        faiss.write_index(index, str(folder / f"layer_{layer}.faiss"))
