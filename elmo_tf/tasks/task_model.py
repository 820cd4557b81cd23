"""The base classes of task models: inputs, loss, predictions and saving."""

import abc
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import keras
import tensorflow as tf
from keras import ops

from elmo_tf.layers.weights import TrackedParts
from elmo_tf.models.elmo import LayerMixes
from elmo_tf.tasks.embeddings import TokenVectors
from elmo_tf.text.inputs import checked, checked_inputs, token_batch
from elmo_tf.text.sentence_files import is_utf_8

NO_TAG = -1  # of padding, in `y` of models that label tokens
_LAYERS = "layers"  # name, or suffix, of the input with precomputed layers of the biLM


class TaskModel(TrackedParts, keras.Model, abc.ABC):
    """The base class of Keras models that read one or more texts.

    A task model has its own loss, so call `compile(optimizer)` without a loss before `fit`.
    Subclasses set `texts`, the names of their texts, and `features`, the shapes and dtypes of their
    other inputs by name. Their constructors set `settings`, their own arguments, create the layers
    and end with `_create_weights()`.

    Args:
        embeddings, elmo, placement: see `TokenVectors`.

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

    texts: ClassVar[tuple[str, ...]] = ("tokens",)
    features: ClassVar[dict[str, tf.TensorSpec]] = {}
    labels: tuple[str, ...] = ()
    _default_save_signature = None  # its inputs are strings
    has_one_label: ClassVar[bool] = False  # per example, an index into `labels`

    def __init__(
        self,
        embeddings: Sequence[keras.layers.Layer],
        elmo: LayerMixes | None,
        placement: str,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.settings: dict[str, Any] = {}
        self.token_vectors = TokenVectors(
            embeddings, elmo, placement, dtype=self.dtype_policy, name="token_vectors"
        )

    @property
    def elmo(self) -> LayerMixes | None:
        """The `Elmo` or `VectorMix`, or None."""
        return self.token_vectors.elmo

    @abc.abstractmethod
    def predictions(self, inputs: Any) -> dict[str, tf.Tensor]:
        """The predictions, with labels as strings. Works in a graph and eagerly.

        Args:
            inputs: see the call.
        """

    @functools.cached_property
    def compiled_predictions(self) -> Callable[[Any], dict[str, tf.Tensor]]:
        """`predictions` as a graph that is traced once for all shapes."""
        return self._traced(self.predictions)

    def _traced(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        traced = tf.function(function, autograph=False)

        def call(inputs):
            inputs = self.named_inputs(inputs)
            specs = {name: self._spec(name, value) for name, value in inputs.items()}
            return traced.get_concrete_function(specs)(inputs)

        return call

    def _spec(self, name: str, value: Any) -> tf.TensorSpec:
        if name in self.features:
            return self.features[name]
        free = (0, 1) if name in self.texts else (0, 2)  # batch and token
        shape = [None if axis in free else size for axis, size in enumerate(value.shape)]
        return tf.TensorSpec(shape, value.dtype)

    @abc.abstractmethod
    def per_example_loss(self, y: Any, outputs: Any, inputs: Any = None) -> Any:
        """The loss of each example, float (batch,).

        Args:
            y: the targets, as `fit` takes them.
            outputs: the outputs of the call.
            inputs: the inputs of the call, to check `y` against them; None skips that check.
        """

    def __call__(self, inputs, training=False, **kwargs):
        return super().__call__(self.named_inputs(inputs), training=training, **kwargs)

    def named_inputs(self, inputs: Any) -> dict[str, Any]:
        """The inputs as a dict by name, with strings as (batch, token). Raises as a call does."""
        needed = (*self.texts, *self.features)
        if not isinstance(inputs, dict):
            inputs = dict(zip(needed, self._split_inputs(inputs, needed), strict=True))
        allowed = {*needed, *map(self.layers_name, self.texts)}
        if not set(needed) <= set(inputs) <= allowed:
            raise ValueError(
                f"The inputs must have the keys {', '.join(needed)}, and may have "
                f"{', '.join(sorted(allowed - set(needed)))}. Received: {', '.join(inputs)}."
            )
        named = dict(inputs)
        for name in self.texts:
            named[name] = _tokens(inputs[name])
        for name, spec in self.features.items():
            named[name] = _feature(name, inputs[name], spec)
        sizes = {named[text].shape[0] for text in self.texts} - {None}
        if len(sizes) > 1:
            raise ValueError(
                f"The inputs {' and '.join(self.texts)} must have the same batch size. "
                f"Received: {' and '.join(str(named[text].shape[0]) for text in self.texts)}."
            )
        return named

    def _split_inputs(self, inputs: Any, needed: Sequence[str]) -> Sequence[Any]:
        if len(needed) == 1:
            return (inputs,)
        if not isinstance(inputs, tuple | list) or len(inputs) != len(needed):
            raise ValueError(
                f"The inputs must be {len(needed)} batches: {', '.join(needed)}. "
                f"Received: {inputs!r:.80}."
            )
        return inputs

    def _vectors(self, inputs: dict[str, Any], text: str, training: bool) -> dict[str, Any]:
        """The output of `TokenVectors` for one of the texts."""
        tokens, layers = inputs[text], inputs.get(self.layers_name(text))
        if layers is not None:  # tokens have at least one column, layers may have none
            self._check_layers(layers)
            missing = tf.shape(tokens)[1] - tf.shape(layers)[2]
            layers = tf.pad(layers, [[0, 0], [0, 0], [0, missing], [0, 0]])
        return self.token_vectors(tokens, layers=layers, training=training)

    def _check_layers(self, layers: Any) -> None:
        if self.elmo is None:
            raise ValueError("The inputs have `layers`, but the model has no `elmo` to mix them.")
        wanted = (None, self.elmo.num_layers, None, self.elmo.dim)
        if not tf.TensorShape(wanted).is_compatible_with(layers.shape):
            raise ValueError(
                f"`layers` must have shape (batch, {wanted[1]}, token, {wanted[3]}). Received: "
                f"shape {tuple(layers.shape)}"
            )

    def layers_name(self, text: str) -> str:
        """The key of the input with the precomputed layers of a text."""
        return _LAYERS if len(self.texts) == 1 else f"{text}_{_LAYERS}"

    def _create_weights(self) -> None:
        """Creates all weights by a call with precomputed layers; the last step of a constructor."""
        inputs = {}
        for text in self.texts:
            inputs[text] = tf.constant([["a"]])
            if self.elmo is not None:
                inputs[self.layers_name(text)] = tf.zeros(
                    (1, self.elmo.num_layers, 1, self.elmo.dim)
                )
                if not self.elmo.built:
                    self.elmo.build()
                    self.elmo.built = True
        for name, spec in self.features.items():
            inputs[name] = tf.zeros([size or 1 for size in spec.shape], spec.dtype)
        self.built = True  # otherwise Keras traces the call an additional time
        self(inputs)
        self.build(None)  # locks the model: no weights can be added

    def fit(self, *args, class_weight=None, **kwargs):
        # Keras takes the weight of the class `argmax(y[i])` if an example has several targets.
        if class_weight is not None and not self.has_one_label:
            raise ValueError("`class_weight` needs a model with one label per example.")
        return super().fit(*args, class_weight=class_weight, **kwargs)

    def make_train_function(self, force=False):
        # If the optimizer is built in the first step, the step is traced twice.
        if self.optimizer is not None and not self.optimizer.built:
            with self.distribute_strategy.scope():
                self.optimizer.build(self.trainable_variables)
        super().make_train_function(force)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        if self.loss is not None:  # passed to `compile`
            return super().compute_loss(x, y, y_pred, sample_weight, training)
        losses = self.per_example_loss(y, y_pred, x)
        if sample_weight is not None:
            weights = tf.reshape(tf.cast(sample_weight, losses.dtype), (-1,))
            sizes = tf.size(weights), tf.size(losses)
            message = "`sample_weight` must have one weight per example. Weights and examples"
            losses *= checked(weights, sizes[0] == sizes[1], message, *sizes)
        penalties = [tf.cast(penalty, losses.dtype) for penalty in self.losses]
        return tf.add_n([tf.reduce_mean(losses), *penalties])

    # The constructor creates the weights, so input shapes need not be saved.
    def get_build_config(self):
        return None

    def get_config(self):
        token_vectors = self.token_vectors.get_config()
        return {
            **super().get_config(),
            **self.settings,
            **{name: token_vectors[name] for name in ("embeddings", "elmo", "placement")},
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        return cls(**TokenVectors.restored(config))


def with_elmo(hidden: Any, vectors: dict[str, Any]) -> Any:
    """Concatenates the output of an LSTM with ELMo, if `TokenVectors` places it there."""
    return ops.concatenate([hidden, vectors["output"]], axis=-1) if "output" in vectors else hidden


def check_distinct(names: Sequence[str], kind: str) -> None:
    """Checks that names are distinct and valid UTF-8."""
    for name in names:
        if not is_utf_8(name):
            raise ValueError(f"A {kind} is not valid UTF-8: {name!r}.")
    if len(set(names)) < len(names):
        raise ValueError(f"`{kind}s` has duplicates: {', '.join(names)}.")


def label_indices(y: Any) -> tf.Tensor:
    """The targets `y` of `fit` as int32.

    Raises:
        TypeError: `y` holds labels instead of their indices.
    """
    y = tf.convert_to_tensor(y)
    if y.dtype == tf.string:
        raise TypeError("`y` must be indices into `labels`, not labels. Use `label_ids`.")
    return tf.cast(y, tf.int32)


class LabelModel(TaskModel):
    """The base class of task models that predict labels.

    Args:
        labels: distinct strings. The predicted labels, in the order of the outputs.
        embeddings, elmo, placement: see `TokenVectors`.

    Raises:
        ValueError: `labels` is empty or has duplicates or invalid UTF-8, or see `TokenVectors`.
    """

    def __init__(
        self,
        labels: Sequence[str],
        embeddings: Sequence[keras.layers.Layer],
        elmo: LayerMixes | None,
        placement: str,
        **kwargs,
    ):
        super().__init__(embeddings, elmo, placement, **kwargs)
        if isinstance(labels, str):
            raise TypeError(f"`labels` must be a list of strings. Received: {labels!r}")
        self.labels = tuple(labels)
        if not self.labels:
            raise ValueError("`labels` is empty. Pass at least one label.")
        check_distinct(self.labels, "label")
        self._label_ids = {label: index for index, label in enumerate(self.labels)}

    def label_ids(self, labels: Iterable[str]) -> list[int]:
        """The indices of labels in `labels`.

        Raises:
            ValueError: a label is unknown.
        """
        try:
            return [self._label_ids[label] for label in labels]
        except KeyError as error:
            raise ValueError(
                f"The model has no label {error.args[0]!r}. Labels: {', '.join(self.labels)}."
            ) from None

    def get_config(self):
        return {**super().get_config(), "labels": list(self.labels)}


class Classifier(LabelModel):
    """The base class of task models that predict one label per example.

    Call arguments: see `TaskModel`.

    Returns:
        float (batch, label): scores before the softmax.
    """

    has_one_label = True

    def per_example_loss(self, y, outputs, inputs=None):
        y = label_indices(y)
        in_range = tf.reduce_all(tf.logical_and(y >= 0, y < len(self.labels)))
        message = f"`y` must be indices into `labels`, 0 to {len(self.labels) - 1}. Received"
        y = checked(y, in_range, message, y)
        scores = tf.cast(outputs, tf.float32)
        return keras.losses.sparse_categorical_crossentropy(y, scores, from_logits=True)

    def predictions(self, inputs):
        """See `TaskModel`.

        Returns:
            A dict: "label", string (batch,); "probabilities", float (batch, label).
        """
        probabilities = tf.nn.softmax(tf.cast(self(inputs), tf.float32), axis=-1)
        names = tf.constant(self.labels)
        return {
            "label": tf.gather(names, tf.argmax(probabilities, axis=-1)),
            "probabilities": probabilities,
        }

    def classify(self, inputs: Any) -> list[str]:
        """Predicts the label of each example; see the call for `inputs`."""
        labels = self.compiled_predictions(inputs)["label"].numpy()
        return [label.decode("utf-8") for label in labels]


def _feature(name: str, value: Any, spec: tf.TensorSpec) -> Any:
    if isinstance(value, keras.KerasTensor):
        return value
    value = tf.convert_to_tensor(value, dtype_hint=spec.dtype)  # for an empty list
    if value.dtype.is_integer and spec.dtype.is_integer:
        value = tf.cast(value, spec.dtype)
    if value.dtype != spec.dtype or not spec.shape.is_compatible_with(value.shape):
        raise ValueError(
            f"The input {name} must be {spec.dtype.name} of shape {tuple(spec.shape)}. "
            f"Received: {value.dtype.name} of shape {tuple(value.shape)}."
        )
    return value


def _tokens(inputs: Any) -> tf.Tensor:
    """Any supported string input as string (batch, token)."""
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
            "The inputs of a task model must be strings: sentences or tokens. "
            f"Received: {tf.as_dtype(inputs.dtype).name} of shape {tuple(inputs.shape)}."
        )
    return token_batch(inputs, None)[0]
