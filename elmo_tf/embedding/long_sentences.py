"""Sentences longer than memory allows at once ─► vectors, window by window with carried state.

Exact: the forward direction reads the windows from the beginning, the backward one from the end,
and each goes on from the LSTM state that the window before has left.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from elmo_tf.embedding.layer_choice import LayerChoice
from elmo_tf.embedding.token_table import TokenTable
from elmo_tf.models.bilm import BiLM
from elmo_tf.models.token_rows import BOS_ROW, EOS_ROW, NO_TOKEN_ROW


class WindowReader:
    """Reads sentences of any length through a `BiLM`, in windows of one size.

    Args:
        bilm: reads the windows.
        choice: which vectors come out; a sum of layers, or all of them.
        window: int >= 1. Tokens of a window.
    """

    def __init__(self, bilm: BiLM, choice: LayerChoice, window: int):
        self._bilm = bilm
        self._choice = choice
        self._window = window

    def __call__(self, sentences: Sequence[np.ndarray], table: TokenTable) -> list[np.ndarray]:
        """The vectors of some sentences, which are read side by side.

        Args:
            sentences: of each its tokens' rows in the table, int (token,).
            table: their vectors.

        Returns:
            float32 (…, token, feature) each.
        """
        config = self._bilm.config
        streams = [[BOS_ROW, *rows, EOS_ROW] for rows in sentences]
        streams = [np.array(stream, np.int32) for stream in streams]
        size = self._window
        num_windows = -(-max(map(len, streams)) // size)
        index = np.full((config.num_directions, len(streams), num_windows * size), NO_TOKEN_ROW)
        for row, stream in enumerate(streams):
            for direction in range(config.num_directions):
                index[direction, row, : len(stream)] = stream[:: -1 if direction else 1]
        outputs = [self._empty(len(rows)) for rows in sentences]
        states = self._bilm.initial_states(len(streams))
        for number in range(num_windows):
            part = index[:, :, number * size : (number + 1) * size]
            layers, states = self._read(
                table.vectors(part), tf.constant(part != NO_TOKEN_ROW), states
            )
            self._put(outputs, layers.numpy(), number * size)
        return outputs

    def _empty(self, num_tokens: int) -> np.ndarray:
        config = self._bilm.config
        layers = (config.lstm.num_layers + 1,) if self._choice.name == "all" else ()
        return np.zeros((*layers, num_tokens, config.output_dim), np.float32)

    @tf.function(reduce_retracing=True, autograph=False)
    def _read(self, vectors: tf.Tensor, mask: tf.Tensor, states: Any) -> tuple[tf.Tensor, Any]:
        """One window of each direction.

        Args:
            vectors: float (direction, row, token, feature), in the order in which it is read.
            mask: bool (direction, row, token).
            states: `[h, c]` of each layer of each direction.

        Returns:
            The layers, float32 (direction, row, …, token, feature), and the new states.
        """
        vectors = tf.cast(vectors, self._bilm.compute_dtype)
        found, new_states = [], []
        for direction, stack in enumerate(self._bilm.lstm_stacks):
            tokens = vectors[direction]
            layers, state = stack(tokens, mask=mask[direction], initial_states=states[direction])
            layers = tf.cast(tf.stack([tokens, *layers], axis=1), tf.float32)
            weights = self._choice.weights()
            if weights is not None:
                layers = tf.einsum("bltf,l->btf", layers, weights)
            found.append(layers)
            new_states.append(state)
        return tf.stack(found), new_states

    def _put(self, outputs: list[np.ndarray], layers: np.ndarray, start: int) -> None:
        """Puts a window's vectors where its tokens stand, without the boundaries."""
        width = self._bilm.config.lstm.projection_dim
        for direction, of_direction in enumerate(layers):
            features = slice(direction * width, (direction + 1) * width)
            for output, vectors in zip(outputs, of_direction, strict=True):
                num_tokens = output.shape[-2]
                # The first thing read is a boundary; then come the tokens.
                first, last = max(start - 1, 0), min(start - 1 + self._window, num_tokens)
                if first >= last:
                    continue
                vectors = vectors[..., first + 1 - start : last + 1 - start, :]
                if direction:
                    vectors = vectors[..., ::-1, :]
                    first, last = num_tokens - last, num_tokens - first
                output[..., first:last, features] = vectors
