"""The base classes of task models: inputs, loss, predictions and saving."""

import abc
import functools
from collections.abc import Callable, Collection, Sequence
from typing import Any, ClassVar

import keras
import tensorflow as tf
from keras import ops

from elmo_tf.models.bilm import BiLM, model_digest
from elmo_tf.models.elmo import Elmo
from elmo_tf.tasks.fitting import TextModel
from elmo_tf.tasks.token_vectors import TokenVectors
from elmo_tf.text.inputs import checked_inputs, count_tokens, is_token, token_batch

NO_TAG = -1  # of padding, in `y` of models that label tokens
SMALLEST = 1e-37  # probability in float32 with a finite logarithm
_LAYERS = "layers"  # name, or suffix, of the input with precomputed layers of the biLM


class TaskModel(TextModel, abc.ABC):
    """The base class of Keras models that read one or more texts.

    A task model has its own loss, so call `compile(optimizer)` without a loss before `fit`.
    `fit`, `evaluate` and `predict` also take lists, arrays and columns (pandas, pyarrow) of texts
    and of targets, and `class_weight` by label. On several devices (`tf.distribute`), they
    preprocess each batch before it is distributed.

    Subclasses set `texts`, the names of their texts; `features`, the shapes and dtypes of their
    other inputs by name; and `listed`, the names of the predictions that `as_lists` needs. Their
    constructors set `settings`, their own arguments, create the layers and end with
    `_create_weights()`.

    Args:
        embeddings, elmo, placement: see `TokenVectors`.

    Call arguments:
        inputs: a batch of texts, as `BiLM` accepts strings: sentences, lists of tokens, or string
            (batch, token) padded with `""`; a tuple of such batches and of `features` if the model
            reads several inputs; or a dict by the names in `texts` and `features`. The dict may
            also hold precomputed layers of a frozen biLM, float (batch, layer, token, feature),
            with the key "layers", or "premise_layers" for the text "premise" of several. The
            result of `preprocess` is accepted too.
        training: bool. Defaults to False.

    Raises:
        ValueError: see `TokenVectors`.
    """

    texts: ClassVar[tuple[str, ...]] = ("tokens",)
    features: ClassVar[dict[str, tf.TensorSpec]] = {}
    listed: ClassVar[tuple[str, ...]]
    labels: tuple[str, ...] = ()
    shared_settings: ClassVar[tuple[str, ...]] = ()  # which members of an ensemble have in common
    _default_save_signature = None  # its inputs are strings

    def __init__(
        self,
        embeddings: Sequence[keras.layers.Layer],
        elmo: Elmo | None,
        placement: str,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.settings: dict[str, Any] = {}
        self.token_vectors = TokenVectors(
            embeddings, elmo, placement, dtype=self.dtype_policy, name="token_vectors"
        )

    @property
    def elmo(self) -> Elmo | None:
        """The `Elmo`, or None."""
        return self.token_vectors.elmo

    @property
    def task_weights(self) -> list[keras.Variable]:
        """The weights without those of the biLM."""
        of_bilm = {weight.value.ref() for weight in self.elmo.bilm.weights} if self.elmo else set()
        return [weight for weight in self.weights if weight.value.ref() not in of_bilm]

    def on_bilm(self, bilm: BiLM) -> "TaskModel":
        """Returns a copy that shares another object for its biLM with other models in memory.

        Args:
            bilm: a biLM with the same weights.
        """
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
        """The predictions, with labels as strings. Works in a graph and eagerly.

        Args:
            inputs: see the call.

        Returns:
            See `decoded`.
        """
        inputs = self.named_inputs(inputs)
        return self.decoded(self(inputs), inputs)

    @abc.abstractmethod
    def decoded(self, outputs: Any, inputs: dict[str, Any]) -> dict[str, tf.Tensor]:
        """The predictions from the outputs of the call.

        Args:
            outputs: see the call. A constant added to all scores of a softmax must not matter.
            inputs: the result of `named_inputs`.
        """

    def probabilities(self, inputs: dict[str, Any]) -> tf.Tensor:
        """What an `Ensemble` averages over its members: the softmax of the outputs.

        Args:
            inputs: the result of `named_inputs`.
        """
        return tf.nn.softmax(tf.cast(self(inputs), tf.float32))

    def decoded_average(self, average: tf.Tensor, inputs: dict[str, Any]) -> dict[str, tf.Tensor]:
        """The predictions of an `Ensemble`; see `decoded`.

        Args:
            average: that of the `probabilities` of the members.
            inputs: the result of `named_inputs`.
        """
        return self.decoded(tf.math.log(tf.maximum(average, SMALLEST)), inputs)

    def joint_predictions(
        self, members: Sequence["TaskModel"], inputs: dict[str, Any]
    ) -> dict[str, tf.Tensor]:
        """The predictions of an `Ensemble`, for models that average more than probabilities.

        Args, Returns: see `decoded`; `members` are models with its labels, one of them this model.
        """
        average = tf.add_n([member.probabilities(inputs) for member in members]) / len(members)
        return self.decoded_average(average, inputs)

    @tf.autograph.experimental.do_not_convert
    def preprocess(self, x: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Converts a batch to integers, for `dataset.map(model.preprocess)`.

        With `cache()` after it, each text is converted once, and not in each epoch.

        Args:
            x: the inputs of a call.
            y, sample_weight: see `fit`.

        Returns:
            The inputs by name: int32 (batch, token, id) for each text, and the other inputs, int32
            instead of strings. With `y`, a tuple `(x, y)` or `(x, y, sample_weight)`.

        Raises:
            TypeError: an embedding has no method `preprocess`, see `TokenVectors`.
        """
        inputs = self.named_inputs(x)
        for text in self.texts:
            if inputs[text].dtype == tf.string:
                inputs[text] = self.token_vectors.preprocess(inputs[text])
        if y is not None:
            y = self.targets(y)
        if isinstance(y, tf.RaggedTensor):
            y = y.to_tensor(NO_TAG)
        return keras.utils.pack_x_y_sample_weight(inputs, y, sample_weight)

    def targets(self, y: Any) -> Any:
        """The targets as numbers; labels become their indices."""
        return y

    @functools.cached_property
    def compiled_predictions(self) -> Callable[[Any], dict[str, tf.Tensor]]:
        """`predictions` as a graph that is traced once for all shapes."""
        return self.as_graph(self.predictions)

    def predict_lists(self, inputs: Any) -> list[Any]:
        """The predictions as lists: a label, tags, or an answer for each example.

        Args:
            inputs: see the call.
        """
        return self.as_lists(self._compiled_lists(inputs))

    @functools.cached_property
    def _compiled_lists(self) -> Callable[[Any], dict[str, tf.Tensor]]:
        return self.as_graph(self.predictions, self.listed)

    @abc.abstractmethod
    def as_lists(self, predictions: dict[str, tf.Tensor]) -> list[Any]:
        """The `predictions` with the names in `listed`, as lists."""

    def as_graph(
        self,
        function: Callable[[Any], dict[str, tf.Tensor]],
        names: Collection[str] | None = None,
    ) -> Callable[[Any], dict[str, tf.Tensor]]:
        """A function of the inputs as a graph that is traced once for all shapes.

        Args:
            function: a function of inputs by name.
            names: the results to compute, which may take less time than all; None computes all.
        """

        def named(inputs):
            return {key: x for key, x in function(inputs).items() if names is None or key in names}

        traced = tf.function(named, autograph=False)

        def call(inputs):
            inputs = self.named_inputs(inputs)
            specs = {name: self._spec(name, value) for name, value in inputs.items()}
            return traced.get_concrete_function(specs)(inputs)

        return call

    def _spec(self, name: str, value: Any) -> tf.TensorSpec:
        if name in self.features:
            return tf.TensorSpec(self.features[name].shape, value.dtype)
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
        named, needed = self._by_name(inputs), (*self.texts, *self.features)
        allowed = {*needed, *map(self.layers_name, self.texts)}
        if not set(needed) <= set(named) <= allowed:
            raise ValueError(
                f"The inputs must have the keys {', '.join(needed)}, and may have "
                f"{', '.join(sorted(allowed - set(needed)))}. Received: {', '.join(named)}."
            )
        for name in self.texts:
            named[name] = self._tokens(named[name])
        for name, spec in self.features.items():
            named[name] = _feature(name, named[name], spec)
        sizes = {named[text].shape[0] for text in self.texts} - {None}
        if len(sizes) > 1:
            raise ValueError(
                f"The inputs {' and '.join(self.texts)} must have the same batch size. "
                f"Received: {' and '.join(str(named[text].shape[0]) for text in self.texts)}."
            )
        return named

    def _by_name(self, inputs: Any) -> dict[str, Any]:
        if isinstance(inputs, dict):
            return dict(inputs)
        needed = (*self.texts, *self.features)
        if len(needed) == 1:
            return {needed[0]: inputs}
        if not isinstance(inputs, tuple | list) or len(inputs) != len(needed):
            raise ValueError(
                f"The inputs must be {len(needed)} batches: {', '.join(needed)}. "
                f"Received: {inputs!r:.80}."
            )
        return dict(zip(needed, inputs, strict=True))

    def _tokens(self, inputs: Any) -> Any:
        """A text as string (batch, token), or as `preprocess` returns it."""
        if isinstance(inputs, keras.KerasTensor):
            if len(inputs.shape) != (2 if inputs.dtype == "string" else 3):
                raise ValueError(
                    "A symbolic input must be tokens, keras.Input((None,), dtype='string'), or the "
                    "result of `preprocess`. "
                    f"Received: {inputs.dtype} of shape {tuple(inputs.shape)}."
                )
            return inputs
        inputs, _ = checked_inputs(inputs, None)
        if inputs.dtype == tf.string:
            return token_batch(inputs, None)[0]
        shape = (None, None, self.token_vectors.num_ids)
        if not tf.TensorShape(shape).is_compatible_with(inputs.shape):
            raise TypeError(
                "The inputs of a task model must be strings: sentences or tokens; or the result of "
                f"its `preprocess`, int32 (batch, token, {shape[-1]}). "
                f"Received: {tf.as_dtype(inputs.dtype).name} of shape {tuple(inputs.shape)}."
            )
        return inputs

    def with_layers(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """The result of `named_inputs` with the layers of the biLM for all texts, if there is one.

        Raises:
            TypeError: a text is not a string.
        """
        inputs = dict(inputs)
        for text in self.texts:
            name = self.layers_name(text)
            if inputs[text].dtype != tf.string:
                raise TypeError(
                    "Models that predict together read strings: each has its own words. "
                    f"Received: {inputs[text].dtype.name}."
                )
            if self.elmo is not None and name not in inputs:
                lengths = count_tokens(is_token(inputs[text]))
                inputs[name] = self.elmo.bilm(inputs[text], lengths=lengths)["layers"]
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


def _feature(name: str, value: Any, spec: tf.TensorSpec) -> Any:
    if isinstance(value, keras.KerasTensor):
        return value
    value = tf.convert_to_tensor(value, dtype_hint=spec.dtype)  # for an empty list
    if value.dtype.is_integer:  # of strings after `preprocess`
        value = tf.cast(value, tf.int32)
    if value.dtype not in (spec.dtype, tf.int32) or not spec.shape.is_compatible_with(value.shape):
        raise ValueError(
            f"The input {name} must be {spec.dtype.name} of shape {tuple(spec.shape)}. "
            f"Received: {value.dtype.name} of shape {tuple(value.shape)}."
        )
    return value
