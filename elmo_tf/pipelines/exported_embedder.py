"""Checkpoint or exported model ─► vectors of many sentences."""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from elmo_tf.embedding.embedder import Embedder
from elmo_tf.embedding.layer_choice import LayerChoice, check_layers
from elmo_tf.saved_models.versions import newest_version, register_operations
from elmo_tf.text.batches import in_batches, rounded_length, rounded_rows
from elmo_tf.text.reading import encode

# Maximum size of a padded batch, in multiples of `batch_tokens`. The LSTMs skip padding: it costs
# only memory.
_POSITIONS_PER_TOKEN = 4


def load_embedder(
    model: Any, layers: str | int = "all", precision: str = "float32", batch_tokens: int = 4096
) -> "Embedder | ExportedEmbedder":
    """Loads a checkpoint or an exported model, to embed sentences.

    `model` is an argument of `load_bilm`, or the folder of an exported model (one version, or all
    versions for the newest), which needs the precision "float32". For the rest see `Embedder`.
    """
    version = None if isinstance(model, tuple | list) else newest_version(model)
    if version is None:
        return Embedder(model, layers, precision, batch_tokens)
    if precision != "float32":
        raise ValueError(
            f"{version} is an exported model, whose precision was chosen at export. "
            f"Received: precision={precision!r}. Omit it, or pass the checkpoint."
        )
    return ExportedEmbedder(version, layers, batch_tokens)


class ExportedEmbedder:
    """Computes vectors of many sentences with an exported model, from the folder of one version.

    Args:
        layers: see `Embedder`. "mix" is the output `elmo` of the model. Defaults to "all".
        batch_tokens: int >= 1. Tokens per batch, sentence boundaries included. Unlike `Embedder`,
            longer sentences are not split into windows. Defaults to 4096.

    Raises:
        ValueError: the SavedModel is not an exported biLM or Elmo, or `layers` is unknown.
    """

    def __init__(self, version: Path, layers: str | int = "all", batch_tokens: int = 4096):
        check_layers(layers)
        register_operations(version)
        self._model = tf.saved_model.load(os.fspath(version))
        signature = getattr(self._model, "signatures", {}).get("tokens")
        outputs = signature.structured_outputs if signature is not None else {}
        missing = {"word_emb", "lstm_outputs1", "elmo"} - outputs.keys()
        if missing:
            raise ValueError(
                f"{version} is not a SavedModel of `elmo-tf export`: it has no signature `tokens` "
                f"with the outputs {', '.join(sorted(missing))}."
            )
        self._signature = signature
        self._num_lstm_layers = sum(name.startswith("lstm_outputs") for name in outputs)
        check_layers(layers, self._num_lstm_layers + 1)
        self._choice = LayerChoice(layers)
        self._batch_tokens = batch_tokens

    def embed(self, sentences: Iterable[Sequence[str | bytes]]) -> Iterator[np.ndarray]:
        """Yields one array per sentence (list of tokens), in input order: float32, see `layers`."""
        return in_batches(
            sentences,
            self._batch_tokens,
            self._embed_batch,
            lambda tokens: len(tokens) + 1,  # and the second boundary
            _POSITIONS_PER_TOKEN,
        )

    def _embed_batch(self, batch: Sequence[Sequence[str | bytes]]) -> Iterator[np.ndarray]:
        vectors = self._padded_vectors(batch)  # (row, …, token, feature)
        for tokens, array in zip(batch, vectors, strict=False):
            yield np.ascontiguousarray(self._choice.arranged(array[..., : len(tokens), :]))

    def _padded_vectors(self, batch: Sequence[Sequence[str | bytes]]) -> np.ndarray:
        # Rounded to few distinct shapes: TensorFlow keeps memory for every shape it has seen.
        shape = rounded_rows(len(batch)), rounded_length(max(map(len, batch)))
        tokens, lengths = np.full(shape, b"", object), np.zeros(shape[0], np.int32)
        for row, sentence in enumerate(batch):
            tokens[row, : len(sentence)] = list(map(encode, sentence))
            lengths[row] = len(sentence)
        outputs = self._signature(tokens=tf.constant(tokens), sequence_len=tf.constant(lengths))
        if self._choice.layers == "mix":
            return outputs["elmo"].numpy()
        indices = range(1, self._num_lstm_layers + 1)
        layers = [outputs[f"lstm_outputs{index}"].numpy() for index in indices]
        words = outputs["word_emb"].numpy()
        words = np.tile(words, layers[0].shape[-1] // words.shape[-1])  # once per direction
        stacked = np.stack([words, *layers], axis=1)  # (batch, layer, token, feature)
        return np.asarray(self._choice(stacked, None))
