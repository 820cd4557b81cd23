"""SRLTagger: labels tokens with the semantic roles that they have for a predicate."""

import functools
from collections.abc import Sequence
from typing import Any, ClassVar

import keras
import tensorflow as tf
from keras import layers, ops

from elmo_tf.config_checks import check_int
from elmo_tf.layers.cell_rnn import CellRNN
from elmo_tf.models.elmo import Elmo
from elmo_tf.models.layer_mixes import LayerMixes
from elmo_tf.tasks.semantic_roles.predicates import PREDICATE, Proposition
from elmo_tf.tasks.tag_schemes import constraints_of
from elmo_tf.tasks.tagging.crf import check_constraints, constrained, zero_weights
from elmo_tf.tasks.tagging.model import Tagger
from elmo_tf.tasks.task_model import NO_TAG, with_elmo
from elmo_tf.text.inputs import checked, count_tokens, is_token
from elmo_tf.text.reading import decode

_STDDEV = 0.01  # of the initial predicate embedding and output weights


@keras.saving.register_keras_serializable(package="elmo_tf")
class SRLTagger(Tagger):
    """Labels tokens with semantic roles: highway LSTMs of alternating directions, and a softmax.

    `x_t = [embeddings_t; ELMo_t; e(t = predicate)]`, `h^0 = x`, `h^l = highway_lstm(h^(l-1))`,
    `p_t = softmax(W · [h^L_t; ELMo_t] + b)`. The LSTMs l = 1, 3, … read forward, l = 2, 4, …
    backward; `placement` determines where ELMo is used. An example is a sentence and one predicate:
    a sentence with several predicates gives several examples. With a predicate tagger, the method
    `propositions` finds the predicates of plain sentences.

    The loss of an example is `-sum_t log p_t(y_t)`. The prediction is the BIO sequence with
    the highest `sum_t log p_t(y_t)`. The published decoder also allows `I-X` as the first tag, and
    reads it as `B-X`; here a role always begins with `B-X`.

    Args:
        labels: BIO tags of the roles and of the predicate, such as `B-A0`, `I-A0`, `B-V` and `O`.
        embeddings, elmo, placement: see `TokenVectors`; "output" is the output of the last LSTM.
        units: int >= 1. Width of each LSTM. Defaults to the published 300.
        num_layers: int >= 1. Number of LSTMs. Defaults to the published 8.
        dropout: float, 0 to below 1. Rate of the recurrent dropout, see `CellRNN`. Defaults to the
            published 0.1.
        predicate_dim: int >= 1. Width of `e`, which has one vector for the predicate's token and
            one for all others. Defaults to the published 100.

    Call arguments:
        inputs: a pair of batches (sentences, predicates), or a dict with the keys "tokens" and
            "predicate"; see `TaskModel`. Predicates are int (batch,), the index of the predicate's
            token in its sentence; 0 for a sentence without tokens. For `y` in `fit`, see `Tagger`.
        training: bool. Defaults to False.

    Returns:
        float (batch, token, label): scores before the softmax.

    Raises:
        ValueError: an argument is out of its range, a label is no BIO tag, a predicate is no token
            of its sentence (in a graph, `tf.errors.InvalidArgumentError` when it runs), or see
            `TaskModel`.

    Source: He et al. 2017, sections 2 and 3.
    """

    predicate_tagger: Tagger | None = None  # not part of the saved model
    features: ClassVar[dict[str, tf.TensorSpec]] = {"predicate": tf.TensorSpec((None,), tf.int32)}

    def __init__(
        self,
        labels: Sequence[str],
        embeddings: Sequence[layers.Layer] = (),
        elmo: LayerMixes | None = None,
        placement: str = "input",
        units: int = 300,
        num_layers: int = 8,
        dropout: float = 0.1,
        predicate_dim: int = 100,
        **kwargs,
    ):
        super().__init__(labels, embeddings, elmo, placement, **kwargs)
        check_int(num_layers, "num_layers", ge=1)
        check_int(predicate_dim, "predicate_dim", ge=1)
        self.settings = {
            "units": units,
            "num_layers": num_layers,
            "dropout": dropout,
            "predicate_dim": predicate_dim,
        }
        self.constraints = constraints_of(self.labels, "BIO")
        check_constraints(self.constraints, len(self.labels))
        dtype = self.dtype_policy
        # Not an `Embedding`: optimizers square each of its sparse gradients before adding those of
        # the same row, and all tokens have one of two rows.
        self.predicate_embedding = layers.Dense(
            predicate_dim,
            use_bias=False,
            kernel_initializer=_small_normal(),
            dtype=dtype,
            name="predicate_embedding",
        )
        self.lstms = [
            CellRNN(
                *(units, "highway_lstm", dropout),
                go_backwards=index % 2 == 1,
                dtype=dtype,
                name=f"lstm_{index}",
            )
            for index in range(num_layers)
        ]
        self.scores = layers.Dense(
            len(self.labels), kernel_initializer=_small_normal(), dtype=dtype, name="scores"
        )
        self._create_weights()

    def call(self, inputs, training=False):
        vectors = self._vectors(inputs, "tokens", training)
        mask = vectors["mask"]
        flags = _predicate_flags(inputs["predicate"], mask)
        parts = [vectors["input"], self.predicate_embedding(flags)]
        hidden = ops.concatenate(parts, axis=-1)
        for lstm in self.lstms:
            hidden = lstm(hidden, mask=mask, training=training)
        hidden = with_elmo(hidden, vectors)
        return self.scores(hidden)

    def per_example_loss(self, y, outputs, inputs=None):
        tags = self._checked_tags(y, outputs, inputs)
        losses = keras.losses.sparse_categorical_crossentropy(
            ops.maximum(tags, 0), tf.cast(outputs, tf.float32), from_logits=True
        )  # (batch, token)
        return tf.reduce_sum(tf.where(tags == NO_TAG, 0.0, losses), axis=1)

    def sequence_weights(self):
        # Scores and `log p` rank sequences alike: they differ by a constant for each token.
        weights = zero_weights(len(self.labels), self.compute_dtype)
        return constrained(weights, self.constraints)

    def set_predicate_tagger(self, tagger: Tagger) -> None:
        """Sets the tagger for plain sentences, which `load_task` does.

        It is not saved with this model, and its weights are not this model's.

        Args:
            tagger: a tagger whose label `V` marks the predicates, with the same biLM or none.

        Raises:
            ValueError: the tagger has no label `V`.
        """
        if PREDICATE not in tagger.labels:
            raise ValueError(
                f"A tagger of predicates must have the label {PREDICATE}. "
                f"Labels: {', '.join(tagger.labels)}."
            )
        have_bilms = all(isinstance(each.elmo, Elmo) for each in (self, tagger))
        if have_bilms and not self.elmo.trainable_bilm:
            tagger.elmo.share_bilm(self.elmo)
        vars(self)["predicate_tagger"] = tagger  # Keras would track its weights

    def propositions(self, inputs: Any) -> list[list[Proposition]]:
        """Finds the predicates of plain sentences, and labels the roles of each.

        Args:
            inputs: a batch of sentences or lists of tokens, see `TaskModel`.

        Returns:
            One list of propositions per sentence, in the order of their predicates.

        Raises:
            ValueError: the model has no tagger of predicates, see `set_predicate_tagger`.
        """
        tagger = tagger_of(self)
        tagger = getattr(tagger, "members", (tagger,))[0]
        if "_compiled_propositions" not in vars(self):  # of a model or an ensemble
            function = functools.partial(found_propositions, self)
            vars(self)["_compiled_propositions"] = tagger._traced(function)
        inputs = tagger.named_inputs(inputs)
        found = vars(self)["_compiled_propositions"](inputs)
        columns = (inputs["tokens"], found["predicate"], found["roles"])
        propositions = []
        for row, predicates, roles in zip(*(each.numpy() for each in columns), strict=True):
            tokens = [decode(token) for token in row if token]
            pairs = [pair for pair in zip(predicates.tolist(), roles, strict=True) if pair[1]]
            propositions.append(
                [Proposition(tokens, place, decode(tags).split(" "), "") for place, tags in pairs]
            )
        return propositions


def tagger_of(model: Any) -> Any:
    """The predicate tagger of an `SRLTagger` or `Ensemble`, or a `ValueError` without one."""
    if model.predicate_tagger is None:
        raise ValueError(
            "This model labels the roles of given predicates only: it has no tagger that finds "
            "predicates in plain sentences. Repeat `elmo-tf task train` of its work directory with "
            "--resume, which trains the missing tagger, or pass predicates: the index of the "
            "predicate's token, from 0, before each sentence."
        )
    return model.predicate_tagger


def found_propositions(model: Any, inputs: Any) -> dict[str, tf.Tensor]:
    """The propositions of plain sentences. Works in a graph and eagerly.

    The biLM is computed once for the predicates and their roles, unless each has its own.

    Args:
        model: an `SRLTagger` or an `Ensemble`, with a predicate tagger.
        inputs: a batch of sentences as a dict, see `TaskModel.named_inputs`.

    Returns:
        "predicate", int32 (batch, proposition), the index of the predicate's token, padded with -1;
        "roles", string (batch, proposition), the BIO tags of the tokens, joined by spaces, padded
        with `""`.

    Raises:
        TypeError: the sentences are not strings.
        ValueError: there is no predicate tagger.
    """
    tagger, inputs, tokens = tagger_of(model), dict(inputs), inputs["tokens"]
    if tokens.dtype != tf.string:
        raise TypeError(
            "Plain sentences must be strings: the two models have their own words. "
            f"Received: {tokens.dtype.name}."
        )
    bilms = [getattr(each.elmo, "bilm", None) for each in (model, tagger)]
    if bilms[0] is bilms[1] is not None and "layers" not in inputs:
        lengths = count_tokens(is_token(tokens))
        inputs["layers"] = bilms[0](tokens, lengths=lengths)["layers"]
    is_predicate = tagger.predictions(inputs)["tags"] == PREDICATE
    rows, predicates = tf.unstack(tf.cast(tf.where(is_predicate), tf.int32), axis=1)
    of_rows = {name: tf.gather(values, rows) for name, values in inputs.items()}
    tags = model.predictions({**of_rows, "predicate": predicates})["tags"]  # (proposition, token)
    joined = tf.strings.strip(tf.strings.reduce_join(tags, axis=1, separator=" "))
    ragged = tf.RaggedTensor.from_value_rowids(predicates, rows, tf.shape(tokens)[0])
    return {
        "predicate": ragged.to_tensor(-1),
        "roles": ragged.with_values(joined).to_tensor(""),
    }


def _small_normal() -> keras.initializers.Initializer:
    return keras.initializers.RandomNormal(stddev=_STDDEV)


def _predicate_flags(predicates: Any, mask: tf.Tensor) -> tf.Tensor:
    """Whether a token is the predicate, one-hot: float (batch, token, 2); checks the predicates."""
    num_rows, num_tokens = tf.unstack(tf.shape(mask))
    message = "There must be one predicate for each sentence. Predicates and sentences"
    num_predicates = tf.size(predicates)
    predicates = checked(predicates, num_predicates == num_rows, message, num_predicates, num_rows)
    lengths = count_tokens(mask)
    is_in_sentence = (predicates >= 0) & (predicates < tf.maximum(lengths, 1))
    message = "A predicate must be the index of a token of its sentence. Predicates and lengths"
    predicates = checked(predicates, tf.reduce_all(is_in_sentence), message, predicates, lengths)
    is_predicate = predicates[:, None] == tf.range(num_tokens)  # (batch, token)
    return ops.one_hot(ops.cast(is_predicate, "int32"), 2)
