"""A sentence too long for one batch ─► vectors, window by window with carried state.

The vectors equal those of a single pass: the forward direction reads the windows from the first to
the last, the backward direction from the last to the first, and each window starts from the LSTM
state after the previous one.
"""

from typing import Any

import numpy as np
import tensorflow as tf

from elmo_tf.embedding.layer_choice import LayerChoice
from elmo_tf.models.bilm import BiLM


class WindowReader:
    """Embeds sentences of any length in windows.

    Args:
        bilm: a `BiLM`.
        choice: the vectors to return; `choice.is_local` must be True.
        window: int >= 1. Tokens per window.
    """

    def __init__(self, bilm: BiLM, choice: LayerChoice, window: int):
        self._bilm = bilm
        self._choice = choice
        self._window = window

    def __call__(self, vectors: np.ndarray) -> np.ndarray:
        """Embeds one sentence.

        Args:
            vectors: float32 (token + 2, projection_dim), token vectors with both boundaries.

        Returns:
            float32 (…, token, feature).
        """
        num_tokens, width = vectors.shape
        num_windows = -(-num_tokens // self._window)
        windows = np.zeros((num_windows, self._window, width), np.float32)
        windows.reshape(-1, width)[:num_tokens] = vectors
        masks = (np.arange(num_windows * self._window) < num_tokens).reshape(num_windows, -1)
        outputs: Any = None  # (…, window, token in window, feature)
        states = self._bilm.initial_states(1)
        for first in range(num_windows):
            # The window of each direction, and the step that puts its tokens in reading order.
            order = [(first, 1), (num_windows - 1 - first, -1)][: self._bilm.config.num_directions]
            layers, states = self._read(
                tf.constant(np.stack([windows[number, ::step] for number, step in order])),
                tf.constant(np.stack([masks[number, ::step] for number, step in order])),
                states,
            )
            layers = layers.numpy()  # (direction, …, token, feature)
            if outputs is None:
                shape = (*layers.shape[1:-2], *windows.shape[:2], len(order) * width)
                outputs = np.empty(shape, np.float32)
            for direction, (number, step) in enumerate(order):
                features = slice(direction * width, (direction + 1) * width)
                outputs[..., number, :, features] = layers[direction, ..., ::step, :]
        outputs = outputs.reshape(*outputs.shape[:-3], -1, outputs.shape[-1])
        return outputs[..., 1 : num_tokens - 1, :]  # without the boundaries

    @tf.function(reduce_retracing=True, autograph=False)
    def _read(self, vectors: tf.Tensor, masks: tf.Tensor, states: Any) -> tuple[tf.Tensor, Any]:
        """Reads one window per direction.

        Args:
            vectors: float (direction, token, projection_dim), in reading order.
            masks: bool (direction, token).
            states: `[h, c]` of each layer of each direction.

        Returns:
            The layers, float32 (direction, …, token, feature), and the new states.
        """
        vectors = tf.cast(vectors, self._bilm.compute_dtype)[:, tf.newaxis]
        directions, states = self._bilm.read(
            tf.unstack(vectors), tf.unstack(masks[:, tf.newaxis]), states
        )
        layers = [
            tf.cast(tf.stack([inputs, *outputs], axis=1), tf.float32)
            for inputs, outputs in zip(tf.unstack(vectors), directions, strict=True)
        ]
        layers = tf.stack(layers)[:, 0]  # (direction, layer, token, feature)
        return self._choice(layers, masks), states
