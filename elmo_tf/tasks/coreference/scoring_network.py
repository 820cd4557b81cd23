"""Parts of a long vector ─► a score: the feed-forward networks of coreference resolution."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from elmo_tf.config_checks import check_int, check_rate


@keras.saving.register_keras_serializable(package="elmo_tf")
class ScoringNetwork(keras.layers.Layer):
    """A score of a concatenation `[p_1; …; p_n]`, from two hidden layers.

    `w · relu(W_2 · relu(W_1 · [p_1; …; p_n] + b_1) + b_2) + b`, with dropout after each ReLU.

    The first product is `sum_i W_1i · p_i`, where `W_1i` are the columns of `W_1` for part i. The
    call takes this sum, and `product` computes its terms, so that a part that many concatenations
    share is multiplied only once. Call `build` with the shapes of the parts first.

    Call arguments:
        products: float (…, units): `W_1 · [p_1; …; p_n]`.
        training: bool. Defaults to False.

    Returns:
        float (…).
    """

    def __init__(self, units: int, dropout: float, **kwargs):
        super().__init__(**kwargs)
        check_int(units, "hidden_units", ge=1)
        check_rate(dropout, "dropout")
        self.units = units
        self.dropout_rate = dropout
        dtype = self.dtype_policy
        self.first_dropout = keras.layers.Dropout(dropout, dtype=dtype, name="first_dropout")
        self.hidden = keras.layers.Dense(units, activation="relu", dtype=dtype, name="hidden")
        self.hidden_dropout = keras.layers.Dropout(dropout, dtype=dtype, name="hidden_dropout")
        self.score = keras.layers.Dense(1, dtype=dtype, name="score")

    def build(self, part_shapes: Sequence[tuple]):
        self.part_dims = [shape[-1] for shape in part_shapes]
        self.kernel = self.add_weight(
            name="kernel", shape=(sum(self.part_dims), self.units), initializer="glorot_uniform"
        )
        self.bias = self.add_weight(name="bias", shape=(self.units,), initializer="zeros")
        self.hidden.build((None, self.units))
        self.score.build((None, self.units))

    def product(self, index: int, part: Any) -> Any:
        """`W_1i · p_i` for part `index`, float (…, feature): float (…, units)."""
        start = sum(self.part_dims[:index])
        return ops.matmul(part, self.kernel[start : start + self.part_dims[index]])

    def call(self, products, training=False):
        hidden = self.first_dropout(ops.relu(products + self.bias), training=training)
        hidden = self.hidden_dropout(self.hidden(hidden), training=training)
        return self.score(hidden)[..., 0]

    def get_config(self):
        return {**super().get_config(), "units": self.units, "dropout": self.dropout_rate}
