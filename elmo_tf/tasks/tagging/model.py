"""CRFTagger: labels tokens, for example with parts of speech or named entities.

`Tagger` is the base class of models that label tokens.
"""

import abc
from collections.abc import Sequence
from typing import Any, ClassVar

import keras
import tensorflow as tf
from keras import layers, ops

from elmo_tf.layers.weights import set_attributes
from elmo_tf.models.elmo import Elmo
from elmo_tf.tasks.layers import BiRNN
from elmo_tf.tasks.tag_schemes import constraints_of
from elmo_tf.tasks.tagging.crf import (
    CRF,
    CRFWeights,
    best_tags,
    constrained,
    tag_marginals,
    zero_weights,
)
from elmo_tf.tasks.task_model import SMALLEST, LabelModel, with_elmo
from elmo_tf.tasks.text_model import NO_TAG
from elmo_tf.text.inputs import checked, is_token


class BiLSTM(BiRNN):
    """A `BiRNN` whose class has the name that files of version 0.3 have for layers in lists."""


class Tagger(LabelModel):
    """The base class of task models that label tokens.

    Call arguments:
        inputs, training: see `TaskModel`. In `fit`, `y` are labels, or int (batch, token), their
            indices in `labels`; padded with `""` or -1, or lists or ragged.

    Returns:
        float (batch, token, label): the emissions, see `CRF`.
    """

    listed = ("tags", "sequence_len")

    @abc.abstractmethod
    def sequence_weights(self) -> CRFWeights:
        """The scores of tag sequences, in addition to the emissions, that predictions use."""

    def _checked_tags(self, y: Any, emissions: tf.Tensor, inputs: Any) -> tf.Tensor:
        """`y` as int32 (batch, token), checked in the graph against the tokens and the labels."""
        tags = self.targets(y)
        if isinstance(tags, tf.RaggedTensor):
            tags = tags.to_tensor(NO_TAG)
        if tags.shape.rank != 2:
            raise ValueError(
                "`y` must be a label for each token, (batch, token). "
                f"Received: shape {tuple(tags.shape)}."
            )
        num_tokens = tf.shape(emissions)[1]
        message = "`y` has tags after the last token. Width of the padded tokens, and tags"
        are_tokens = tf.reduce_all(tags[:, num_tokens:] == NO_TAG)
        tags = checked(tags, are_tokens, message, num_tokens, tags)
        # `y` may have less or more padding.
        tags = tf.pad(tags, [[0, 0], [0, num_tokens]], constant_values=NO_TAG)[:, :num_tokens]
        in_range = tf.logical_and(tags >= NO_TAG, tags < len(self.labels))
        message = f"`y` must be indices into `labels`, 0 to {len(self.labels) - 1}, or -1. Received"
        tags = checked(tags, tf.reduce_all(in_range), message, tags)
        if inputs is None:
            return tags
        has_tag, mask = tags != NO_TAG, is_token(self.named_inputs(inputs)["tokens"])
        message = "`y` must be -1 for padding only. Tokens and tags per sentence"
        counts = (tf.math.count_nonzero(each, axis=1) for each in (mask, has_tag))
        return checked(tags, tf.reduce_all(has_tag == mask), message, *counts)

    def decoded(self, outputs, inputs):
        """See `TaskModel`.

        Returns:
            "tags", string (batch, token), `""` for padding; "probabilities", float (batch, token,
            label), over the allowed sequences, zeros for padding; "sequence_len", int32 (batch,).
        """
        mask = is_token(inputs["tokens"])
        weights = self.sequence_weights()
        probabilities = tag_marginals(outputs, weights, mask)
        return {**self._best_tags(outputs, mask, weights), "probabilities": probabilities}

    def _best_tags(
        self, emissions: Any, mask: tf.Tensor, weights: CRFWeights
    ) -> dict[str, tf.Tensor]:
        tags = tf.gather(tf.constant(self.labels), best_tags(emissions, weights, mask))
        lengths = tf.reduce_sum(tf.cast(mask, tf.int32), axis=1)
        return {"tags": tf.where(mask, tags, ""), "sequence_len": lengths}

    def as_lists(self, predictions):
        lengths = predictions["sequence_len"].numpy()
        return [
            [tag.decode("utf-8") for tag in row[:length]]
            for row, length in zip(predictions["tags"].numpy(), lengths, strict=True)
        ]

    def tag(self, inputs: Any) -> list[list[str]]:
        """Predicts the label of each token: a list of labels per sentence.

        Args:
            inputs: see the call.
        """
        return self.predict_lists(inputs)


@keras.saving.register_keras_serializable(package="elmo_tf")
class CRFTagger(Tagger):
    """Labels tokens: two biLSTMs and a linear-chain CRF.

    `[embeddings; ELMo] ─► biLSTM ─► biLSTM ─► [; ELMo] ─► scores ─► CRF`, with dropout before each
    biLSTM and before the scores. A dropout mask is the same for all tokens of a sentence.

    Args:
        labels: the tags.
        embeddings, elmo, placement: see `TokenVectors`.
        units: width of each direction, for each biLSTM. Defaults to the published (200, 100).
        dropout: float, 0 to below 1. Dropout rate. Defaults to 0.5.
        scheme: "BIO", "IOB1" or "BIOUL": predicted tags then always follow this scheme. None (such
            as for parts of speech) allows every sequence. See `tasks.tag_schemes`. Defaults to
            None.

    Call arguments, Returns: see `Tagger`.

    Raises:
        ValueError: an argument is out of its range, a label is not a tag of the scheme, or see
            `TaskModel`.

    Example:
        >>> elmo = elmo_tf.Elmo.from_pretrained("small-en")
        >>> tagger = elmo_tf.tasks.CRFTagger(["O", "B-PER", "I-PER"], elmo=elmo, scheme="BIO")
        >>> tagger.compile("adam")
        >>> history = tagger.fit(["Anna sings", "It is"], [["B-PER", "O"], ["O", "O"]], verbose=0)
        >>> [len(tags) for tags in tagger.tag(["Anna sings"])]
        [2]

    Source: Peters et al. 2018, section 4 and supplement; Lample et al. 2016.
    """

    shared_settings: ClassVar[tuple[str, ...]] = ("scheme",)

    def __init__(
        self,
        labels: Sequence[str],
        embeddings: Sequence[layers.Layer] = (),
        elmo: Elmo | None = None,
        placement: str = "input",
        units: Sequence[int] = (200, 100),
        dropout: float = 0.5,
        scheme: str | None = None,
        **kwargs,
    ):
        super().__init__(labels, embeddings, elmo, placement, **kwargs)
        self.settings = {"units": list(units), "dropout": dropout, "scheme": scheme}
        dtype = self.dtype_policy
        self.lstms = [
            BiLSTM(each, dtype=dtype, name=f"bilstm_{index}") for index, each in enumerate(units)
        ]
        self.dropouts = [
            layers.SpatialDropout1D(dropout, dtype=dtype) for _ in range(len(units) + 1)
        ]
        set_attributes(self, "lstms", self.lstms)
        set_attributes(self, "dropouts", self.dropouts)
        self.emissions = layers.Dense(len(self.labels), dtype=dtype, name="emissions")
        constraints = None if scheme is None else constraints_of(self.labels, scheme)
        self.crf = CRF(len(self.labels), constraints, dtype=dtype, name="crf")
        self.crf.build((None, None, len(self.labels)))
        self._create_weights()

    def call(self, inputs, training=False):
        vectors = self._vectors(inputs, "tokens", training)
        hidden, mask = vectors["input"], vectors["mask"]
        for lstm, dropout in zip(self.lstms, self.dropouts, strict=False):
            hidden = lstm(dropout(hidden, training=training), mask=mask, training=training)
        hidden = with_elmo(hidden, vectors)
        return self.emissions(self.dropouts[-1](hidden, training=training))

    def per_example_loss(self, y, outputs, inputs=None):
        tags = self._checked_tags(y, outputs, inputs)
        return -self.crf.log_likelihood(outputs, ops.maximum(tags, 0), ops.not_equal(tags, NO_TAG))

    def sequence_weights(self):
        return self.crf.allowed_weights()

    def probabilities(self, inputs):
        """See `TaskModel`: the marginals."""
        return tf.cast(self.crf.marginals(self(inputs), is_token(inputs["tokens"])), tf.float32)

    def decoded_average(self, average, inputs):
        """See `TaskModel`: the allowed sequence with the highest product of average marginals."""
        weights = constrained(zero_weights(len(self.labels)), self.crf.constraints)
        logs = tf.math.log(tf.maximum(average, SMALLEST))
        predicted = self._best_tags(logs, is_token(inputs["tokens"]), weights)
        return {**predicted, "probabilities": average}
