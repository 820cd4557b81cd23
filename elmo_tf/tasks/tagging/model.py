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
from elmo_tf.tasks.tag_schemes import TagConstraints, constraints_of, renamed
from elmo_tf.tasks.tagging.crf import (
    CRF,
    CRFWeights,
    are_allowed,
    best_tags,
    tag_marginals,
    zero_weights,
)
from elmo_tf.tasks.task_model import SMALLEST, LabelModel, with_elmo
from elmo_tf.tasks.text_model import NO_TAG
from elmo_tf.text.inputs import checked, count_tokens, is_token


class BiLSTM(BiRNN):
    """A `BiRNN` whose class has the name that files of version 0.3 have for layers in lists."""


class Tagger(LabelModel):
    """The base class of task models that label tokens.

    Call arguments:
        inputs, training: see `TaskModel`. In `fit`, `y` are labels, or int (batch, token), their
            indices in `labels`; padded with `""` or -1, or lists or ragged. Metrics compare each
            token with the decoded tags, one-hot.

    Returns:
        float (batch, token, label): the emissions, see `CRF`.
    """

    listed = ("tags", "sequence_len")
    labels_words = True
    lowest_target = NO_TAG
    constraints: TagConstraints | None = None

    @property
    def tag_names(self) -> list[str]:
        """The tag that predictions have for each of `labels`, see `output_scheme`."""
        scheme = self.settings.get("output_scheme")
        labels = list(self.labels)
        return renamed(labels, self.settings["scheme"], scheme) if scheme else labels

    @property
    def output_labels(self) -> list[str]:
        """The distinct `tag_names`, in the order of the predicted probabilities."""
        return list(dict.fromkeys(self.tag_names))

    @abc.abstractmethod
    def sequence_weights(self) -> CRFWeights:
        """The scores of tag sequences, in addition to the emissions, that predictions use."""

    def targets(self, y):
        """See `LabelModel`; int32 (batch, token), with -1 for padding."""
        tags = super().targets(y)
        if isinstance(tags, tf.RaggedTensor):
            tags = tags.to_tensor(NO_TAG)
        if tags.shape.rank != 2:
            raise ValueError(
                "`y` must be a label for each token, (batch, token). "
                f"Received: shape {tuple(tags.shape)}."
            )
        if self.constraints is None:
            return tags
        has_tag, ids = tags != NO_TAG, tf.maximum(tags, 0)
        allowed = are_allowed(ids, has_tag, self.constraints)
        names = tf.where(has_tag, tf.gather(tf.constant(self.labels), ids), "")
        wrong = tf.strings.reduce_join(names[~allowed][:1], axis=-1, separator=" ")
        wrong = tf.strings.strip(wrong)
        scheme = self.settings.get("scheme", "BIO")
        message = f"`y` must have tag sequences that {scheme} allows. Received"
        return checked(tags, tf.reduce_all(allowed), message, wrong)

    def _checked_tags(self, y: Any, emissions: tf.Tensor, inputs: Any) -> tf.Tensor:
        """The `targets`, checked against the tokens, with the same padding as the emissions."""
        tags = self.targets(y)
        num_tokens = tf.shape(emissions)[1]
        message = "`y` has tags after the last token. Width of the padded tokens, and tags"
        are_tokens = tf.reduce_all(tags[:, num_tokens:] == NO_TAG)
        tags = checked(tags, are_tokens, message, num_tokens, tags)
        # `y` may have less or more padding.
        tags = tf.pad(tags, [[0, 0], [0, num_tokens]], constant_values=NO_TAG)[:, :num_tokens]
        if inputs is None:
            return tags
        has_tag, mask = tags != NO_TAG, is_token(self.named_inputs(inputs)["tokens"])
        message = "`y` must be -1 for padding only. Tokens and tags per sentence"
        counts = (tf.math.count_nonzero(each, axis=1) for each in (mask, has_tag))
        return checked(tags, tf.reduce_all(has_tag == mask), message, *counts)

    def for_metrics(self, y, outputs, sample_weight):
        tags = self._checked_tags(y, outputs, None)
        mask = tags != NO_TAG
        predicted = tf.boolean_mask(best_tags(outputs, self.sequence_weights(), mask), mask)
        if sample_weight is not None:
            sample_weight = tf.repeat(tf.reshape(sample_weight, (-1,)), count_tokens(mask))
        return tags[mask], tf.one_hot(predicted, len(self.labels)), sample_weight

    def decoded(self, outputs, inputs):
        """See `TaskModel`.

        Returns:
            "tags", string (batch, token), `""` for padding; "probabilities", float (batch, token,
            output label), over the allowed sequences, zeros for padding, see `output_labels`;
            "sequence_len", int32 (batch,).
        """
        mask = is_token(inputs["tokens"])
        weights = self.sequence_weights()
        probabilities = tag_marginals(outputs, weights, mask)
        return self._named(best_tags(outputs, weights, mask), probabilities, mask)

    def _named(
        self, tags: tf.Tensor, probabilities: tf.Tensor, mask: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """The predictions, with `tag_names` in place of the indices of labels."""
        names, outputs = self.tag_names, self.output_labels
        if len(outputs) < len(names):  # several labels have one name
            merged = tf.one_hot([*map(outputs.index, names)], len(outputs))
            probabilities = probabilities @ tf.cast(merged, probabilities.dtype)
        return {
            "tags": tf.where(mask, tf.gather(tf.constant(names), tags), ""),
            "probabilities": probabilities,
            "sequence_len": count_tokens(mask),
        }

    def as_lists(self, predictions):
        lengths = predictions["sequence_len"].numpy()
        return [
            [tag.decode("utf-8") for tag in row[:length]]
            for row, length in zip(predictions["tags"].numpy(), lengths, strict=True)
        ]

    def tag(self, inputs: Any) -> list[list[str]]:
        """Predicts the label of each token: a list of labels per sentence."""
        return self.predict_lists(inputs)


@keras.saving.register_keras_serializable(package="elmo_tf")
class CRFTagger(Tagger):
    """Labels tokens: two biLSTMs and a linear-chain CRF.

    `[embeddings; ELMo] ─► biLSTM ─► biLSTM ─► [; ELMo] ─► scores ─► CRF`, with dropout before each
    biLSTM and before the scores. A dropout mask is the same for all tokens of a sentence.

    Args:
        labels: the tags.
        embeddings, elmo, placement: see `TokenVectors`.
        units: width of each direction, for each biLSTM; an int for one biLSTM. Defaults to the
            published (200, 100).
        dropout: float, 0 to below 1. Dropout rate. Defaults to 0.5.
        scheme: "BIO", "IOB1", "BIOUL", "BILUO" or "BIOES": predicted tags then always follow this
            scheme, and those of `fit` must. None (such as for parts of speech) allows every
            sequence. See `tasks.tag_schemes`. Defaults to None.
        output_scheme: the scheme that predictions are converted to, such as "BIO". None keeps
            `scheme`. Defaults to None.

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
        units: int | Sequence[int] = (200, 100),
        dropout: float = 0.5,
        scheme: str | None = None,
        output_scheme: str | None = None,
        **kwargs,
    ):
        super().__init__(labels, embeddings, elmo, placement, **kwargs)
        units = [units] if isinstance(units, int) else list(units)
        self.settings = {
            "units": units,
            "dropout": dropout,
            "scheme": scheme,
            "output_scheme": output_scheme,
        }
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
        if output_scheme is not None:
            renamed(self.labels, scheme, output_scheme)  # checks it
        self.constraints = None if scheme is None else constraints_of(self.labels, scheme)
        self.crf = CRF(len(self.labels), self.constraints, dtype=dtype, name="crf")
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
        mask = is_token(inputs["tokens"])
        return tf.cast(tag_marginals(self(inputs), self.sequence_weights(), mask), tf.float32)

    def decoded_average(self, average, inputs):
        """See `TaskModel`: the allowed sequence with the highest product of average marginals."""
        weights = zero_weights(len(self.labels), self.constraints)
        logs, mask = tf.math.log(tf.maximum(average, SMALLEST)), is_token(inputs["tokens"])
        return self._named(best_tags(logs, weights, mask), average, mask)
