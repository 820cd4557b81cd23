"""What all task models share: texts in, labels out, their own loss, and saving."""

import abc
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf

from elmo_tf.models.elmo import Elmo
from elmo_tf.tasks.token_vectors import TokenVectors
from elmo_tf.text.data_warnings import is_utf_8
from elmo_tf.text.inputs import checked, checked_inputs, token_batch

_LAYERS = "layers"  # behind the name of a text: its layers of the biLM, if they are known


class TaskModel(keras.Model, abc.ABC):
    """A Keras model over the tokens of one or two texts.

    It knows its own loss, so that `compile(optimizer)` is enough before `fit`.

    Args:
        labels: distinct strings: what it predicts, in the order of its outputs.
        embeddings, elmo, placement: see `TokenVectors`.

    Call arguments:
        inputs: a batch of texts; each as `BiLM` takes strings: sentences, lists of tokens, or
            string (batch, token) padded with `""`. Of a model of two texts a pair of these. Or a
            dict of them by the names in `texts`, with which the layers of a biLM that is not
            trained may come, float (batch, layer, token, feature), as `layers` of the only text,
            or `premise_layers` of the text `premise`.
        training: bool.

    Raises:
        ValueError: no labels, one that stands twice or is no valid UTF-8, or see `TokenVectors`.
    """

    texts: ClassVar[tuple[str, ...]] = ("tokens",)

    def __init__(
        self,
        labels: Sequence[str],
        embeddings: Sequence[keras.layers.Layer],
        elmo: Elmo | None,
        placement: str,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.labels = tuple(labels)
        if not self.labels:
            raise ValueError("`labels` is empty: there is nothing to predict.")
        for label in self.labels:
            if not is_utf_8(label):
                raise ValueError(f"A label is no valid UTF-8: {label!r}.")
        self._label_ids = {label: index for index, label in enumerate(self.labels)}
        if len(self._label_ids) < len(self.labels):
            raise ValueError(f"A label stands twice in `labels`: {', '.join(self.labels)}.")
        self.token_vectors = TokenVectors(
            embeddings, elmo, placement, dtype=self.dtype_policy, name="token_vectors"
        )

    @property
    def elmo(self) -> Elmo | None:
        """The `Elmo` that it reads, if there is one."""
        return self.token_vectors.elmo

    def label_ids(self, labels: Iterable[str]) -> list[int]:
        """The places of labels among `labels`.

        Raises:
            ValueError: a label is not known.
        """
        try:
            return [self._label_ids[label] for label in labels]
        except KeyError as error:
            raise ValueError(
                f"The label {error.args[0]!r} is not known to the model. Known: "
                f"{', '.join(self.labels)}."
            ) from None

    @abc.abstractmethod
    def predictions(self, inputs: Any) -> dict[str, tf.Tensor]:
        """What is predicted, in words, in a graph or eagerly.

        Args:
            inputs: see the call.
        """

    @functools.cached_property
    def compiled_predictions(self) -> Callable[[Any], dict[str, tf.Tensor]]:
        """`predictions`, traced once for all shapes."""
        return self._traced(self.predictions)

    def _traced(self, of_inputs: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """A function of inputs, traced once for all shapes, and once for those with layers."""
        traced = tf.function(of_inputs, autograph=False)

        def call(inputs):
            inputs = self.named_inputs(inputs)
            specs = {name: self._spec(name, value) for name, value in inputs.items()}
            return traced.get_concrete_function(specs)(inputs)

        return call

    def _spec(self, name: str, value: Any) -> tf.TensorSpec:
        free = (0, 1) if name in self.texts else (0, 2)  # batch and token
        shape = [None if axis in free else size for axis, size in enumerate(value.shape)]
        return tf.TensorSpec(shape, value.dtype)

    @abc.abstractmethod
    def per_example_loss(self, y: Any, outputs: Any, inputs: Any = None) -> Any:
        """The loss of each example.

        Args:
            y: what is true, as `fit` takes it.
            outputs: of the call.
            inputs: of the call, to see whether `y` suits them; None leaves that out.

        Returns:
            float (batch,).
        """

    def __call__(self, inputs, training=False, **kwargs):
        return super().__call__(self.named_inputs(inputs), training=training, **kwargs)

    def named_inputs(self, inputs: Any) -> dict[str, Any]:
        """The inputs by their names, strings as (batch, token). Raises as a call does."""
        if not isinstance(inputs, dict):
            inputs = dict(zip(self.texts, self._split_texts(inputs), strict=True))
        allowed = {*self.texts, *map(self.layers_name, self.texts)}
        if not set(self.texts) <= set(inputs) <= allowed:
            raise ValueError(
                f"The inputs must have the names {', '.join(self.texts)}, and may have "
                f"{', '.join(sorted(allowed - set(self.texts)))}. Received: {', '.join(inputs)}."
            )
        named = {
            name: _tokens(value) if name in self.texts else value for name, value in inputs.items()
        }
        sizes = {named[text].shape[0] for text in self.texts} - {None}
        if len(sizes) > 1:
            raise ValueError(
                f"There must be as many texts of each kind, {' and '.join(self.texts)}. "
                f"Received: {' and '.join(str(named[text].shape[0]) for text in self.texts)}."
            )
        return named

    def _split_texts(self, inputs: Any) -> Sequence[Any]:
        if len(self.texts) == 1:
            return (inputs,)
        if not isinstance(inputs, tuple | list) or len(inputs) != len(self.texts):
            raise ValueError(
                f"The inputs must be {len(self.texts)} batches of texts: {', '.join(self.texts)}. "
                f"Received: {inputs!r:.80}."
            )
        return inputs

    def _vectors(self, inputs: dict[str, Any], text: str, training: bool) -> dict[str, Any]:
        """What `TokenVectors` gives for one of the texts."""
        tokens, layers = inputs[text], inputs.get(self.layers_name(text))
        if layers is not None:  # of a batch without any token there are none
            self._check_layers(layers)
            missing = tf.shape(tokens)[1] - tf.shape(layers)[2]
            layers = tf.pad(layers, [[0, 0], [0, 0], [0, missing], [0, 0]])
        return self.token_vectors(tokens, layers=layers, training=training)

    def _check_layers(self, layers: Any) -> None:
        if self.elmo is None:
            raise ValueError("There are `layers`, but the model has no `elmo` to mix them.")
        config = self.elmo.bilm.config
        wanted = (None, config.lstm.num_layers + 1, None, config.output_dim)
        if not tf.TensorShape(wanted).is_compatible_with(layers.shape):
            raise ValueError(
                f"The layers must have shape (batch, {wanted[1]}, token, {wanted[3]}). Received: "
                f"shape {tuple(layers.shape)}"
            )

    def layers_name(self, text: str) -> str:
        """The name under which the layers of a text may come."""
        return _LAYERS if len(self.texts) == 1 else f"{text}_{_LAYERS}"

    def _create_weights(self) -> None:
        """Makes all weights, by a call that leaves the biLM out; at the end of the constructor."""
        inputs = {}
        for text in self.texts:
            inputs[text] = tf.constant([["a"]])
            if self.elmo is not None:
                config = self.elmo.bilm.config
                shape = (1, config.lstm.num_layers + 1, 1, config.output_dim)
                inputs[self.layers_name(text)] = tf.zeros(shape)
                if not self.elmo.built:
                    self.elmo.build()
                    self.elmo.built = True
        self.built = True  # or Keras traces the call to build it, before it makes it
        self(inputs)
        self.build(None)  # which ends it: no weights can come any more

    def make_train_function(self, force=False):
        # An optimizer that is built in the first step has the whole step traced twice.
        if self.optimizer is not None and not self.optimizer.built:
            with self.distribute_strategy.scope():
                self.optimizer.build(self.trainable_variables)
        super().make_train_function(force)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        if self.loss is not None:  # that of `compile`
            return super().compute_loss(x, y, y_pred, sample_weight, training)
        losses = self.per_example_loss(y, y_pred, x)
        if sample_weight is not None:
            losses = losses * _example_weights(sample_weight, losses)
        penalties = [tf.cast(penalty, losses.dtype) for penalty in self.losses]
        return tf.add_n([tf.reduce_mean(losses), *penalties])

    # Weights are made by the constructor, and need no shapes of inputs.
    def get_build_config(self):
        return None

    def build_from_config(self, config):
        pass

    def get_config(self):
        of_tokens = self.token_vectors.get_config()
        return {
            **super().get_config(),
            "labels": list(self.labels),
            **{name: of_tokens[name] for name in ("embeddings", "elmo", "placement")},
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        return cls(**TokenVectors.restored(config))


def _example_weights(sample_weight: Any, losses: tf.Tensor) -> tf.Tensor:
    weights = tf.reshape(tf.cast(sample_weight, losses.dtype), (-1,))
    is_one_each = tf.size(weights) == tf.size(losses)
    message = "`sample_weight` must be one for each example; weights and examples are"
    return checked(weights, is_one_each, message, tf.size(weights), tf.size(losses))


def label_indices(y: Any) -> tf.Tensor:
    """What `fit` is given as `y`, as int32.

    Raises:
        TypeError: they are labels, and not their places.
    """
    y = tf.convert_to_tensor(y)
    if y.dtype == tf.string:
        raise TypeError("`y` must hold places in `labels`, not labels: `label_ids` tells them.")
    return tf.cast(y, tf.int32)


class Classifier(TaskModel):
    """A task model that gives each example one label.

    Call arguments: see `TaskModel`.

    Returns:
        float (batch, label): scores before the softmax.
    """

    def per_example_loss(self, y, outputs, inputs=None):
        y = label_indices(y)
        is_place = tf.reduce_all(tf.logical_and(y >= 0, y < len(self.labels)))
        message = f"`y` must hold places in `labels`, 0 to {len(self.labels) - 1}; it holds"
        y = checked(y, is_place, message, y)
        scores = tf.cast(outputs, tf.float32)
        return keras.losses.sparse_categorical_crossentropy(y, scores, from_logits=True)

    def predictions(self, inputs):
        """See `TaskModel`.

        Returns:
            "label", string (batch,), and "probabilities", float (batch, label).
        """
        probabilities = tf.nn.softmax(tf.cast(self(inputs), tf.float32), axis=-1)
        names = tf.constant(self.labels)
        return {
            "label": tf.gather(names, tf.argmax(probabilities, axis=-1)),
            "probabilities": probabilities,
        }

    def classify(self, inputs: Any) -> list[str]:
        """The label of each example; see the call."""
        labels = self.compiled_predictions(inputs)["label"].numpy()
        return [label.decode("utf-8") for label in np.asarray(labels, object)]


def _tokens(inputs: Any) -> tf.Tensor:
    """Strings (batch, token) of whatever strings may come as."""
    if isinstance(inputs, keras.KerasTensor):
        if len(inputs.shape) != 2:
            raise ValueError(
                "A symbolic input must be tokens, keras.Input((None,), dtype='string'). "
                f"Received: shape {tuple(inputs.shape)}."
            )
        return inputs
    inputs, _ = checked_inputs(inputs, None)
    if inputs.dtype != tf.string:
        raise TypeError(
            "A task model reads strings: sentences, or tokens. "
            f"Received: {tf.as_dtype(inputs.dtype).name} of shape {tuple(inputs.shape)}."
        )
    tokens = token_batch(inputs, None)[0]
    # At least one place: there is nothing to be computed of none.
    return tf.pad(tokens, [[0, 0], [0, tf.maximum(1 - tf.shape(tokens)[1], 0)]], constant_values="")
