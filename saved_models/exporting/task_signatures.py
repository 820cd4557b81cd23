"""The signatures and outputs of an exported task model."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import tensorflow as tf

from elmo_tf.models.elmo import Elmo
from elmo_tf.models.layer_mixes import VectorMix
from elmo_tf.saved_models.exporting.signatures import SENTENCES, SEQUENCE_LEN, TOKENS
from elmo_tf.tasks import CoreferenceModel, SRLTagger, TaskModel
from elmo_tf.text.inputs import checked, is_token, row_lengths
from elmo_tf.text.sentences import split_tokens

PAIR_SEPARATOR = "\t"
MENTION_OUTPUTS = ("mention_start", "mention_end", "entity")
_INDEX = r"\d{1,9}"


class ExportedTask(tf.train.Checkpoint):
    """A task model as functions and raw variables that TensorFlow can save.

    `serving_default` and `default` take `strings` (batch,), sentences that are split like
    `str.split()`. `tokens` takes `tokens` (batch, token) padded with `""`, and `sequence_len`
    (batch,). A model of two texts takes both in one string, separated by a tab, or separately by
    the signature `pair`, such as `premise` and `hypothesis`. A string for an `SRLTagger` begins
    with the index of the predicate, from 0; the signature `roles` takes it separately. A string for
    a `CoreferenceModel` is a document with one sentence per line. The outputs are those of
    `TaskModel.predictions`; outputs of documents are padded with -1.

    Args:
        model: a `TaskModel`.

    Raises:
        TypeError: `model` is not a `TaskModel`.
        ValueError: `model` reads vectors of a file.
    """

    def __init__(self, model: TaskModel):
        super().__init__()
        if not isinstance(model, TaskModel):
            raise TypeError(
                "A task model can be exported, such as a CRFTagger or a BCN. "
                f"Received: {model!r} (of type {type(model).__name__})."
            )
        if isinstance(model.elmo, VectorMix):
            raise ValueError(
                "This model reads vectors of a file, which it cannot compute from strings: it "
                "cannot be exported. Train it with `elmo` instead of `vectors`."
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
        predictions = self.model.predictions
        if isinstance(self.model, CoreferenceModel):
            return signatures
        if isinstance(self.model, SRLTagger):
            of_roles = tf.function(
                lambda strings, predicate: predictions((strings, predicate)),
                [SENTENCES, tf.TensorSpec((None,), tf.int32, name="predicate")],
                autograph=False,
            )
            return {**signatures, "roles": of_roles}
        if len(self.model.texts) == 1:
            of_tokens = tf.function(self._of_tokens, [TOKENS, SEQUENCE_LEN], autograph=False)
            return {**signatures, "tokens": of_tokens}
        of_pair = tf.function(lambda **texts: predictions(texts), autograph=False)
        specs = {name: tf.TensorSpec((None,), tf.string, name=name) for name in self.model.texts}
        return {**signatures, "pair": of_pair.get_concrete_function(**specs)}

    def _of_strings(self, strings: tf.Tensor) -> dict[str, tf.Tensor]:
        model = self.model
        if isinstance(model, CoreferenceModel):
            return _of_documents(model, strings)
        if isinstance(model, SRLTagger):
            return model.predictions(_split_predicates(strings))
        if len(model.texts) > 1:
            return model.predictions(_split_texts(strings, model.texts))
        return model.predictions(strings)

    def _of_tokens(self, tokens: tf.Tensor, sequence_len: tf.Tensor) -> dict[str, tf.Tensor]:
        lengths = row_lengths(is_token(tokens), sequence_len)
        real = tf.sequence_mask(lengths, tf.shape(tokens)[1])
        return self.model.predictions(tf.where(real, tokens, ""))


def _split_texts(strings: tf.Tensor, names: Sequence[str]) -> tuple[tf.Tensor, ...]:
    texts = tf.strings.split(strings, PAIR_SEPARATOR)
    are_complete = tf.reduce_all(texts.row_lengths() == len(names))
    message = f"Each string must be a {' and a '.join(names)} with one tab between them, not"
    checked_texts = checked(texts.flat_values, are_complete, message, strings)
    return tuple(tf.unstack(tf.reshape(checked_texts, (-1, len(names))), axis=1))


def _split_predicates(strings: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Splits "2 My cats love hats ." into the tokens of the sentence and 2."""
    tokens = split_tokens(strings)
    indices = tokens[:, :1].to_tensor("", shape=(None, 1))[:, 0]
    are_complete = tf.reduce_all(tf.strings.regex_full_match(indices, _INDEX))
    message = "Each string must be the index of a token, from 0, and a sentence, not"
    indices = checked(indices, are_complete, message, strings)
    return tokens[:, 1:].to_tensor(""), tf.strings.to_number(indices, tf.int32)


def _of_documents(model: CoreferenceModel, documents: tf.Tensor) -> dict[str, tf.Tensor]:
    """The predictions for documents, each on its own, padded with -1."""
    of_mentions = tf.RaggedTensorSpec((None,), tf.int32, ragged_rank=0)
    found = tf.map_fn(
        lambda document: model.predictions(tf.strings.split(document, "\n")),
        documents,
        fn_output_signature={name: of_mentions for name in MENTION_OUTPUTS},
    )
    return {name: values.to_tensor(-1) for name, values in found.items()}


def _tables(model: TaskModel) -> list[Any]:
    """Returns the lookup tables of all layers."""
    found = (getattr(layer, "lookup_table", None) for layer in model._flatten_layers())
    tables = [table for table in found if table is not None]
    if isinstance(model.elmo, Elmo) and model.elmo.bilm.lookup_table is not None:
        tables.append(model.elmo.bilm.lookup_table)
    return tables
