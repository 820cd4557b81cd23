"""The stacked LSTMs of one direction of a biLM."""

from collections.abc import Callable, Sequence
from typing import Any

import keras

from elmo_tf.config import LSTMConfig
from elmo_tf.layers.projected_lstm import ProjectedLSTM
from elmo_tf.layers.weights import set_attributes


class LSTMStack(keras.layers.Layer):
    """Stacked projected LSTMs with skip connections, which read the tokens in the given order.

    With `use_skip_connections`, the input of each layer from the second on is added to its output,
    but not to the recurrent state `h`.

    Args:
        config: the shape of the layers.

    Call arguments:
        inputs: float (batch, token, projection_dim).
        mask: bool (batch, token) or None. True = a real token.
        initial_states: for each layer `[h, c]`.
        dropout_fn, training: see `BiLM.read`. The skip connection adds the input after dropout.

    Returns:
        The outputs of all layers, a list of float (batch, token, projection_dim), zero at masked
        tokens; and for each layer `[h, c]` after the last real token.

    Source: Peters et al. 2018, sections 3.1 and 3.4.
    """

    def __init__(self, config: LSTMConfig, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        shape = config.dim, config.projection_dim, config.cell_clip, config.proj_clip
        settings = {"return_state": True, "dtype": self.dtype_policy}
        self.lstms = [
            ProjectedLSTM(*shape, name=f"lstm_{index}", **settings)
            for index in range(config.num_layers)
        ]
        set_attributes(self, "lstms", self.lstms)

    def build(self, input_shape):
        for lstm in self.lstms:
            lstm.build((None, None, self.config.projection_dim))

    def call(
        self,
        inputs: Any,
        mask: Any,
        initial_states: Sequence[Sequence[Any]],
        dropout_fn: Callable[[Any], Any] | None = None,
        training: bool = False,
    ) -> tuple[list[Any], list[list[Any]]]:
        outputs, states = [], []
        for index, lstm in enumerate(self.lstms):
            if dropout_fn is not None:
                inputs = dropout_fn(inputs)
            initial_state = list(initial_states[index])
            output, *state = lstm(inputs, initial_state=initial_state, mask=mask, training=training)
            # At masked tokens, inputs above the first layer are zero, so the sum stays zero.
            inputs = self._add_skip(index, inputs, output)
            outputs.append(inputs)
            states.append(state)
        return outputs, states

    def read_packed(
        self, inputs: Any, starts: Any, first_states: Any, states: Any, few_rows: bool = False
    ) -> tuple:
        """Reads rows that hold several sentences, one after the other, without boundaries.

        Equals separate calls, and is faster: every step reads the same number of rows, and all
        sentences share the steps of the boundaries. See `ProjectedLSTM.read_packed`; here, the
        states are those of each layer. Layers above those with states are not read.
        """
        outputs, new_states = [], []
        layers = zip(self.lstms, first_states, states, strict=False)
        for index, (lstm, first_state, state) in enumerate(layers):
            output, state = lstm.read_packed(inputs, starts, first_state, state, few_rows)
            inputs = self._add_skip(index, inputs, output)
            outputs.append(inputs)
            new_states.append(state)
        return outputs, new_states

    def _add_skip(self, index: int, inputs: Any, output: Any) -> Any:
        return output + inputs if index > 0 and self.config.use_skip_connections else output

    def compute_mask(self, inputs, mask=None):
        return None
