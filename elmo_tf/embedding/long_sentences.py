"""Long sentences ─► vectors, window by window with carried state, several sentences side by side.

The vectors equal those of a single pass: the forward direction reads the windows from the first to
the last, the backward direction from the last to the first, and each window starts from the LSTM
state after the previous one.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from elmo_tf.embedding.layer_choice import LayerChoice
from elmo_tf.models.bilm import BiLM

# Tokens per window. Sizes are multiples of the least one: TensorFlow keeps memory for every shape.
MIN_WINDOW, MAX_WINDOW = 32, 512


class WindowReader:
    """Embeds sentences of any length in windows.

    Args:
        bilm: a `BiLM`.
        choice: the vectors to return; `choice.is_local` must be True.
        batch_tokens: int >= 1. Tokens that are read at once: the windows of all sentences.
    """

    def __init__(self, bilm: BiLM, choice: LayerChoice, batch_tokens: int):
        self._bilm = bilm
        self._choice = choice
        self._batch_tokens = batch_tokens

    def __call__(self, sentences: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Embeds sentences.

        Args:
            sentences: float32 (token + 2, projection_dim) each, token vectors with both boundaries;
                the longest first.

        Returns:
            For each sentence float32 (…, token, feature).
        """
        lengths = [len(vectors) for vectors in sentences]
        size = self._batch_tokens // len(lengths) // MIN_WINDOW * MIN_WINDOW
        size = min(max(size, MIN_WINDOW), MAX_WINDOW)
        # The backward direction begins at the end of each sentence.
        steps = (1, -1)[: self._bilm.config.num_directions]
        states = self._bilm.initial_states(len(sentences))
        arrays: list[Any] = [None] * len(sentences)
        for start in range(0, lengths[0], size):
            num_rows = sum(length > start for length in lengths)  # the shortest ones have ended
            states = tf.nest.map_structure(lambda state, rows=num_rows: state[:rows], states)
            windows = np.zeros((len(steps), num_rows, size, sentences[0].shape[-1]), np.float32)
            for direction, row in np.ndindex(windows.shape[:2]):
                part = sentences[row][:: steps[direction]][start : start + size]
                windows[direction, row, : len(part)] = part
            layers, states = self._read(tf.constant(windows), states)
            layers = layers.numpy()  # (direction, row, …, token, feature)
            for direction, row in np.ndindex(windows.shape[:2]):
                *others, _, width = layers.shape[2:]
                if arrays[row] is None:
                    shape = (*others, lengths[row], len(steps) * width)
                    arrays[row] = np.empty(shape, np.float32)
                features = slice(direction * width, (direction + 1) * width)
                target = arrays[row][..., :: steps[direction], features]
                target = target[..., start : start + size, :]
                target[:] = layers[direction, row, ..., : target.shape[-2], :]
        return [array[..., 1:-1, :] for array in arrays]  # without the boundaries

    @functools.cached_property
    def _read(self) -> Callable[..., tuple[tf.Tensor, Any]]:
        """The graph of `_read_windows`, traced once for all shapes."""
        lstm, dtype = self._bilm.config.lstm, self._bilm.compute_dtype
        num_directions = self._bilm.config.num_directions
        state = [tf.TensorSpec((None, size), dtype) for size in lstm.state_sizes]
        return tf.function(self._read_windows, autograph=False).get_concrete_function(
            tf.TensorSpec((num_directions, None, None, lstm.projection_dim), tf.float32),
            [[state] * lstm.num_layers] * num_directions,
        )

    def _read_windows(self, windows: tf.Tensor, states: Any) -> tuple[tf.Tensor, Any]:
        """Reads one window of each sentence in each direction.

        Args:
            windows: float32 (direction, sentence, token, projection_dim), in reading order. Only
                the end of a sentence may be followed by padding.
            states: `[h, c]` of each layer of each direction.

        Returns:
            The layers, float32 (direction, sentence, …, token, feature), and the new states.
        """
        windows = tf.unstack(tf.cast(windows, self._bilm.compute_dtype))
        directions, states = self._bilm.read(windows, [None] * len(windows), states)
        mask = tf.ones(tf.shape(windows[0])[:2], tf.bool)
        layers = [
            self._choice(tf.cast(tf.stack([inputs, *outputs], axis=1), tf.float32), mask)
            for inputs, outputs in zip(windows, directions, strict=True)
        ]
        return tf.stack(layers), states
