"""Exported model ─► vectors of many sentences, as `Embedder` gives them for a checkpoint."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from elmo_tf.config_checks import check_choice
from elmo_tf.embedding.layer_choice import LAYERS
from elmo_tf.saved_models.folders import versions_in
from elmo_tf.saved_models.operations import register_operations
from elmo_tf.text.batches import rounded_length, rounded_rows, sentence_batches
from elmo_tf.text.sentences import encode


def exported_version(path: str | os.PathLike) -> Path | None:
    """The folder of an exported model, or of the newest version in it; None if it is none."""
    path = Path(path)
    if (path / "saved_model.pb").is_file():
        return path
    versions = versions_in(path)
    return versions[max(versions)] if versions else None


class ExportedEmbedder:
    """Vectors of many sentences by an exported model.

    Args:
        version: the folder of one version.
        layers: "all", (L + 1, T, dim); "top", "average" or "mix", the model's output `elmo`:
            (T, dim). See `Embedder`.
        batch_tokens: int >= 1. Tokens in a batch, with the boundaries of its sentences. Unlike
            `Embedder`, a longer sentence is read in one piece.

    Raises:
        ValueError: it is a SavedModel of another kind, or an unknown choice of layers.
    """

    def __init__(self, version: Path, layers: str = "all", batch_tokens: int = 4096):
        check_choice(layers, "layers", LAYERS)
        register_operations(version)
        self._model = tf.saved_model.load(os.fspath(version))
        signature = getattr(self._model, "signatures", {}).get("tokens")
        outputs = signature.structured_outputs if signature is not None else {}
        missing = {"word_emb", "lstm_outputs1", "elmo"} - outputs.keys()
        if missing:
            raise ValueError(
                f"{version} is a SavedModel of another kind: it has no signature tokens with "
                f"{', '.join(sorted(missing))}."
            )
        self._signature = signature
        self._num_lstm_layers = sum(name.startswith("lstm_outputs") for name in outputs)
        self._layers = layers
        self._batch_tokens = batch_tokens

    def embed(self, sentences: Sequence[Sequence[str | bytes]]) -> list[np.ndarray]:
        """Gives one array a sentence, in the order of the input.

        Args:
            sentences: each its tokens.

        Returns:
            float32, see `layers` above.
        """
        arrays: list[np.ndarray] = [np.zeros(0)] * len(sentences)
        for places in sentence_batches(map(len, sentences), self._batch_tokens):
            batch = [sentences[place] for place in places]
            vectors = self._batch_vectors(batch)  # (batch, …, token, feature)
            for place, tokens, found in zip(places, batch, vectors, strict=False):
                arrays[place] = np.ascontiguousarray(found[..., : len(tokens), :])
        return arrays

    def _batch_vectors(self, batch: Sequence[Sequence[str | bytes]]) -> np.ndarray:
        # Few shapes: TensorFlow keeps memory for each that it has seen.
        shape = rounded_rows(len(batch)), rounded_length(max(map(len, batch)))
        tokens, lengths = np.full(shape, b"", object), np.zeros(shape[0], np.int32)
        for row, sentence in enumerate(batch):
            tokens[row, : len(sentence)] = list(map(encode, sentence))
            lengths[row] = len(sentence)
        outputs = self._signature(tokens=tf.constant(tokens), sequence_len=tf.constant(lengths))
        if self._layers == "mix":
            return outputs["elmo"].numpy()
        if self._layers == "top":
            return outputs[f"lstm_outputs{self._num_lstm_layers}"].numpy()
        numbers = range(1, self._num_lstm_layers + 1)
        layers = [outputs[f"lstm_outputs{number}"].numpy() for number in numbers]
        words = outputs["word_emb"].numpy()
        # Beside itself for two directions.
        words = np.tile(words, layers[0].shape[-1] // words.shape[-1])
        stacked = np.stack([words, *layers], axis=1)  # (batch, layer, token, feature)
        return stacked.mean(axis=1) if self._layers == "average" else stacked
