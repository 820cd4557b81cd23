"""The signatures and outputs of an exported task model."""

from types import SimpleNamespace
from typing import Any

import tensorflow as tf

from elmo_tf.saved_models.exporting.signatures import SENTENCES, SEQUENCE_LEN, TOKENS
from elmo_tf.tasks import TaskModel
from elmo_tf.text.inputs import checked, is_token, row_lengths

PAIR_SEPARATOR = "\t"


class ExportedTask(tf.train.Checkpoint):
    """A task model as functions and raw variables that TensorFlow can save.

    `serving_default` and `default` take `strings` (batch,), sentences that are split like
    `str.split()`. A model of two texts takes both in one string, separated by a tab, or separately
    by the signature `pair`, such as `premise` and `hypothesis`. `tokens` takes `tokens`
    (batch, token) padded with `""`, and `sequence_len` (batch,). The outputs are those of
    `TaskModel.predictions`.

    Args:
        model: a `TaskModel`.

    Raises:
        TypeError: `model` is not a `TaskModel`.
    """

    def __init__(self, model: TaskModel):
        super().__init__()
        if not isinstance(model, TaskModel):
            raise TypeError(
                "A task model can be exported, such as a CRFTagger or a BCN. "
                f"Received: {model!r} (of type {type(model).__name__})."
            )
        values = {weight.value.ref(): weight.value for weight in model.weights}
        self.variables = list(values.values())
        self.tables = _tables(model)
        # Hidden from TensorFlow's tracking, which would save Keras weights a second time.
        self._untracked = SimpleNamespace(model=model)
        self._untracked.signatures = self._signatures()

    @property
    def model(self) -> TaskModel:
        """The task model."""
        return self._untracked.model

    @property
    def signatures(self) -> dict[str, Any]:
        """The functions by signature name."""
        return self._untracked.signatures

    def _signatures(self) -> dict[str, Any]:
        of_strings = tf.function(self._of_strings, [SENTENCES], autograph=False)
        signatures = {"default": of_strings, "serving_default": of_strings}
        if len(self.model.texts) == 1:
            return {
                **signatures,
                "tokens": tf.function(self._of_tokens, [TOKENS, SEQUENCE_LEN], autograph=False),
            }
        of_pair = tf.function(lambda **texts: self.model.predictions(texts), autograph=False)
        specs = {name: tf.TensorSpec((None,), tf.string, name=name) for name in self.model.texts}
        return {**signatures, "pair": of_pair.get_concrete_function(**specs)}

    def _of_strings(self, strings: tf.Tensor) -> dict[str, tf.Tensor]:
        names = self.model.texts
        if len(names) == 1:
            return self.model.predictions(strings)
        texts = tf.strings.split(strings, PAIR_SEPARATOR)
        are_pairs = tf.reduce_all(texts.row_lengths() == len(names))
        message = f"Each string must be a {' and a '.join(names)} with one tab between them, not"
        checked_texts = checked(texts.flat_values, are_pairs, message, strings)
        columns = tf.unstack(tf.reshape(checked_texts, (-1, len(names))), axis=1)
        return self.model.predictions(tuple(columns))

    def _of_tokens(self, tokens: tf.Tensor, sequence_len: tf.Tensor) -> dict[str, tf.Tensor]:
        lengths = row_lengths(is_token(tokens), sequence_len)
        real = tf.sequence_mask(lengths, tf.shape(tokens)[1])
        return self.model.predictions(tf.where(real, tokens, ""))


def _tables(model: TaskModel) -> list[Any]:
    """Returns the lookup tables of all layers."""
    found = (getattr(layer, "lookup_table", None) for layer in model._flatten_layers())
    tables = [table for table in found if table is not None]
    if model.elmo is not None and model.elmo.bilm.vocabulary is not None:
        tables.append(model.elmo.bilm.vocabulary.table)
    return tables
