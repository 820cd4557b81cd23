"""Task models: labels, predictions and saving; and ensembles, which average predictions."""

import abc
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import keras
import tensorflow as tf
from keras import ops

from elmo_tf.models.bilm import BiLM
from elmo_tf.models.copies import model_digest
from elmo_tf.models.elmo import Elmo
from elmo_tf.tasks.text_model import NO_TAG, TextModel
from elmo_tf.tasks.token_vectors import TokenVectors
from elmo_tf.text.inputs import checked
from elmo_tf.text.reading import is_utf_8
from elmo_tf.text.vocabulary import StringTable

SMALLEST = 1e-37  # probability in float32 with a finite logarithm
_UNKNOWN = -2  # a label that the model does not have


class TaskModel(TextModel):
    """The base class of Keras models that read one or more texts.

    A task model has its own loss, so call `compile(optimizer)` without a loss before `fit`.
    `fit`, `evaluate` and `predict` also take lists, arrays and columns (pandas, pyarrow) of texts
    and of targets, and `class_weight` by label, or "balanced".

    Subclasses set `texts`, the names of their texts; `features`, the shapes and dtypes of their
    other inputs by name; and `listed`, the names of the predictions that `as_lists` needs. Their
    constructors set `settings`, their own arguments, create the layers and end with
    `_create_weights()`.

    Args:
        embeddings, elmo, placement: see `TokenVectors`.
        tokenizer: the code of a tokenizer that splits raw texts, such as "en", or "model", that of
            the biLM: strings then are raw texts, except in a graph. In a model that labels tokens,
            strings are split at whitespace, and the layers of a word are the mean over its tokens;
            `fit`, `evaluate` and `predict` compute them for all texts at once, so long data need
            `train_task`. None splits at whitespace. Defaults to None.

    Call arguments:
        inputs: a batch of texts, as `BiLM` accepts strings: sentences, lists of tokens, or string
            (batch, token) padded with `""`; a tuple of such batches and of `features` if the model
            reads several inputs; or a dict by the names in `texts` and `features`. The dict may
            also hold precomputed layers of a frozen biLM, float (batch, layer, token, feature),
            with the key "layers", or "premise_layers" for the text "premise" of several.
        training: bool. Defaults to False.

    Raises:
        ValueError: see `TokenVectors`.
    """

    listed: ClassVar[tuple[str, ...]]
    labels: tuple[str, ...] = ()
    settings: dict[str, Any]
    shared_settings: ClassVar[tuple[str, ...]] = ()  # which members of an ensemble have in common

    @property
    def output_labels(self) -> Sequence[str]:
        """The labels of predictions, in the order of their probabilities."""
        return self.labels

    @property
    def task_weights(self) -> list[keras.Variable]:
        """The weights without those of the biLM."""
        of_bilm = {weight.value.ref() for weight in self.elmo.bilm.weights} if self.elmo else set()
        return [weight for weight in self.weights if weight.value.ref() not in of_bilm]

    def on_bilm(self, bilm: BiLM) -> "TaskModel":
        """A copy that shares `bilm`, which has the same weights, with other models in memory."""
        of_elmo = {**self.elmo.get_config(), "bilm": bilm}
        settings = {"embeddings": self.token_vectors.embeddings, "elmo": Elmo(**of_elmo)}
        model = type(self)(**{**self.get_config(), **settings})
        for weight, value in zip(model.task_weights, self.task_weights, strict=True):
            weight.assign(value)
        return model

    @property
    def bilm_digest(self) -> str:
        """A digest of the configuration and weights of the biLM; "none" without one."""
        return "none" if self.elmo is None else model_digest(self.elmo.bilm)[:12]

    def predictions(self, inputs: Any) -> dict[str, tf.Tensor]:
        """See `decoded`. Works in a graph and eagerly; for `inputs` see the call."""
        inputs = self.named_inputs(inputs)
        return self.decoded(self(inputs), inputs)

    @abc.abstractmethod
    def decoded(self, outputs: Any, inputs: dict[str, Any]) -> dict[str, tf.Tensor]:
        """The predictions, with labels as strings, from the outputs of the call.

        A constant added to all scores of a softmax must not matter. In this method and the next
        ones, `inputs` are the result of `named_inputs`.
        """

    def probabilities(self, inputs: dict[str, Any]) -> tf.Tensor:
        """What an `Ensemble` averages over its members: the softmax of the outputs."""
        return tf.nn.softmax(tf.cast(self(inputs), tf.float32))

    def decoded_average(self, average: tf.Tensor, inputs: dict[str, Any]) -> dict[str, tf.Tensor]:
        """The predictions from the average of the members' `probabilities`, see `decoded`."""
        return self.decoded(tf.math.log(tf.maximum(average, SMALLEST)), inputs)

    def joint_predictions(
        self, members: Sequence["TaskModel"], inputs: dict[str, Any]
    ) -> dict[str, tf.Tensor]:
        """The predictions of an `Ensemble` of `members`, one of them this model; see `decoded`."""
        average = tf.add_n([member.probabilities(inputs) for member in members]) / len(members)
        return self.decoded_average(average, inputs)

    def predict_lists(self, inputs: Any) -> list[Any]:
        """The predictions as lists: a label, tags, or an answer for each example."""
        parts = self.in_parts(inputs)
        return [one for part in parts for one in self.as_lists(self.listed_predictions(part))]

    @functools.cached_property
    def listed_predictions(self) -> Callable[[Any], dict[str, tf.Tensor]]:
        """The function from inputs to the predictions with the names in `listed`, as a graph."""

        def listed(inputs: dict[str, Any]) -> dict[str, tf.Tensor]:
            predictions = self.predictions(inputs)
            return {name: predictions[name] for name in self.listed}

        return self.as_graph(listed)  # which does not compute the others

    @abc.abstractmethod
    def as_lists(self, predictions: dict[str, tf.Tensor]) -> list[Any]:
        """The `predictions` with the names in `listed`, as lists."""

    def _create_weights(self) -> None:
        """Creates all weights by a call with precomputed layers; the last step of a constructor."""
        inputs = {}
        for text in self.texts:
            inputs[text] = tf.constant([["a"]])
            if self.elmo is not None:
                inputs[self.layers_name(text)] = tf.zeros(
                    (1, self.elmo.num_layers, 1, self.elmo.dim)
                )
        for name, spec in self.features.items():
            inputs[name] = tf.zeros([size or 1 for size in spec.shape], spec.dtype)
        self.built = True  # otherwise Keras traces the call an additional time
        self(inputs)
        self.build(None)  # locks the model: no weights can be added

    # The constructor creates the weights, so input shapes need not be saved.
    def get_build_config(self):
        return None

    def get_config(self):
        token_vectors = self.token_vectors.get_config()
        return {
            **super().get_config(),
            **self.settings,
            "tokenizer": self.tokenizer,
            **{name: token_vectors[name] for name in ("embeddings", "elmo", "placement")},
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        return cls(**TokenVectors.restored(config))


class LabelModel(TaskModel):
    """The base class of task models that predict labels.

    Args:
        labels: distinct strings, valid UTF-8. The predicted labels, in the order of the outputs.
        embeddings, elmo, placement: see `TokenVectors`.
    """

    lowest_target: ClassVar[int] = 0  # or -1 for padding

    def __init__(
        self,
        labels: Sequence[str],
        embeddings: Sequence[keras.layers.Layer],
        elmo: Elmo | None,
        placement: str,
        **kwargs,
    ):
        super().__init__(embeddings, elmo, placement, **kwargs)
        if isinstance(labels, str):
            raise TypeError(f"`labels` must be a list of strings. Received: {labels!r}")
        self.labels = tuple(labels)
        check_distinct(self.labels, "label")
        self._label_ids = {label: index for index, label in enumerate(self.labels)}
        self._label_table = StringTable(self.labels, default=_UNKNOWN)

    def label_ids(self, labels: Iterable[str]) -> list[int]:
        """The indices of labels in `labels`."""
        try:
            return [self._label_ids[label] for label in labels]
        except KeyError as error:
            raise ValueError(
                f"The model has no label {error.args[0]!r}. Labels: {', '.join(self.labels)}."
            ) from None

    def targets(self, y):
        """The indices of labels in `labels`, int32. Indices stay, and `""` becomes -1."""
        if isinstance(y, tf.RaggedTensor):
            return y.with_flat_values(LabelModel.targets(self, y.flat_values))
        ids = y = tf.convert_to_tensor(y)
        if y.dtype == tf.string:
            ids = self._label_table.table.lookup(y)
            ids = tf.where((ids == _UNKNOWN) & (y == ""), tf.cast(NO_TAG, ids.dtype), ids)
        ids, first, last = tf.cast(ids, tf.int32), self.lowest_target, len(self.labels) - 1
        is_wrong = (ids < first) | (ids > last)
        if y.dtype.is_floating:
            is_wrong |= tf.cast(ids, y.dtype) != y
        wrong = tf.boolean_mask(y, is_wrong)[:1]
        message = f"`y` must be labels, or indices {first} to {last}, of {', '.join(self.labels)}"
        message += ". Received"
        return checked(ids, tf.size(wrong) == 0, message, wrong)

    def get_config(self):
        return {**super().get_config(), "labels": list(self.labels)}


class Ensemble:
    """Task models of one task that predict together: their probabilities are averaged.

    | members | average |
    | --- | --- |
    | `BCN`, `BiLSTMClassifier`, `ESIM` | probabilities of the labels |
    | `BiDAF` | probabilities of each token as the first and as the last one of the answer |
    | `SRLTagger` | probabilities of the tags of each token, before decoding |
    | `CRFTagger` | marginals of the tags; the prediction is the sequence with the highest product |
    | `CoreferenceModel` | mention scores, which select the spans, and then antecedent scores |

    It has the methods `predictions` and `predict_lists` of its members. Inputs must be strings. The
    biLM is computed once for all members. Predicted tags follow the scheme. The tags with the
    highest marginals can differ from the most probable sequence, which a `CRFTagger` alone
    predicts, even if all members are equal.

    Args:
        members: trained task models, with the same labels and the same biLM.
        names: the names of the members in messages. None numbers them. Defaults to None.

    Raises:
        ValueError: two members differ in their task, labels, biLM, or in a setting of their
            predictions, such as the length of an answer.

    Source: Peters et al. 2018, section 4; Lee et al. 2017 for coreference.
    """

    predict_lists = TaskModel.predict_lists
    listed_predictions = TaskModel.listed_predictions

    def __init__(self, members: Sequence[TaskModel], names: Sequence[str] | None = None):
        self.members = tuple(members)
        names = names or [f"member {index}" for index in range(len(self.members))]
        first = self.members[0]
        self.texts, self.features, self.labels = first.texts, first.features, first.labels
        self.listed, self.bilm_digest = first.listed, first.bilm_digest
        self.tokenizer, self.labels_words = first.tokenizer, first.labels_words
        self.named_inputs, self.with_layers = first.named_inputs, first.with_layers
        self.in_parts = first.in_parts
        self.as_graph, self.as_lists = first.as_graph, first.as_lists
        of_first = _common(first)
        for name, member in zip(names, self.members, strict=True):
            for what, value in _common(member).items():
                if value != of_first[what]:
                    raise ValueError(
                        f"The members of an ensemble must have the same {what}. Received: "
                        f"{of_first[what]!s:.200} ({names[0]}) and {value!s:.200} ({name})."
                    )

    @property
    def weights(self) -> list[keras.Variable]:
        """The weights of the members, and those of the biLM once."""
        first, *others = self.members
        return [*first.weights, *(weight for other in others for weight in other.task_weights)]

    @property
    def task_weights(self) -> list[keras.Variable]:
        """The weights of the members without those of the biLM."""
        return [weight for member in self.members for weight in member.task_weights]

    def predictions(self, inputs: Any) -> dict[str, tf.Tensor]:
        """See `TaskModel`."""
        inputs = self.with_layers(self.named_inputs(inputs))
        return self.members[0].joint_predictions(self.members, inputs)


def _common(member: TaskModel) -> dict[str, Any]:
    """What the members of an ensemble have in common, such as the length of an answer."""
    return {
        "inputs": (*member.texts, *member.features, member.tokenizer),
        "predictions": member.listed,
        "labels": member.labels,
        "biLM": member.bilm_digest,
        "settings": {name: member.settings[name] for name in member.shared_settings},
    }


def with_elmo(hidden: Any, vectors: dict[str, Any]) -> Any:
    """Concatenates the output of an LSTM with ELMo, if `TokenVectors` places it there."""
    return ops.concatenate([hidden, vectors["output"]], axis=-1) if "output" in vectors else hidden


def check_distinct(names: Sequence[str], kind: str) -> None:
    """Checks that names are distinct and valid UTF-8."""
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"`{kind}s` must be strings. Received: {name!r}")
        if not is_utf_8(name):
            raise ValueError(f"A {kind} is not valid UTF-8: {name!r}.")
    if len(set(names)) < len(names):
        raise ValueError(f"`{kind}s` has duplicates: {', '.join(names)}.")
