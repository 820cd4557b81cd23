"""Texts ─► inputs of task models, and `fit`, `evaluate` and `predict`."""

import abc
import functools
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf

from elmo_tf.embedding.embedder import Embedder
from elmo_tf.embedding.word_means import WordMeans
from elmo_tf.models.elmo import Elmo
from elmo_tf.tasks.token_vectors import TokenVectors
from elmo_tf.text.batches import rounded_length
from elmo_tf.text.characters import string_tensor
from elmo_tf.text.inputs import (
    TO_LIST,
    checked,
    checked_inputs,
    column_of_table,
    count_tokens,
    is_token,
    list_of_column,
    token_batch,
    token_lists,
)
from elmo_tf.text.tokenizers import token_sentences, tokenizer_code, tokenizer_of

NO_TAG = -1  # of padding, in `y` of models that label tokens
_LAYERS = "layers"  # name, or suffix, of the input with precomputed layers of the biLM
_ROWS = 64  # that `predict_lists` computes together


class TextModel(keras.Model, abc.ABC):
    """The inputs of a `TaskModel`, and its `fit`, `evaluate` and `predict`.

    These are those of Keras, which does not accept lists of strings: they become tensors.
    """

    texts: ClassVar[tuple[str, ...]] = ("tokens",)
    features: ClassVar[dict[str, tf.TensorSpec]] = {}
    # Whether the model labels words, which keep their place: a word's layers are those of its
    # tokens, averaged. Other texts are replaced by their tokens.
    labels_words: ClassVar[bool] = False

    def __init__(
        self,
        embeddings: Sequence[keras.layers.Layer],
        elmo: Elmo | None,
        placement: str,
        tokenizer: str | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.token_vectors = TokenVectors(
            embeddings, elmo, placement, dtype=self.dtype_policy, name="token_vectors"
        )
        self.tokenizer = tokenizer
        vars(self)["_ranks"] = {}  # of the texts, for each function of Keras; not tracked

    @property
    def elmo(self) -> Elmo | None:
        """The `Elmo`, or None."""
        return self.token_vectors.elmo

    @property
    def tokenizer(self) -> str | None:
        """The code of the tokenizer of raw text. May be set; "model" is that of the biLM."""
        return self._tokenizer

    @tokenizer.setter
    def tokenizer(self, code: str | None) -> None:
        code = tokenizer_code(code, self.elmo and self.elmo.bilm.config.tokenizer)
        if self.labels_words and self.elmo is None:
            code = None  # nothing is tokenized
        if self.labels_words and code is not None and self.elmo.trainable_bilm:
            raise ValueError("A model that labels words and has a `tokenizer` needs a frozen biLM.")
        self._tokenizer, self._word_means = code, None

    @abc.abstractmethod
    def per_example_loss(self, y: Any, outputs: Any, inputs: Any = None) -> Any:
        """The loss of each example, float (batch,).

        Args:
            y: the targets, as `fit` takes them.
            outputs: the outputs of the call.
            inputs: the inputs of the call, to check `y` against them; None skips that check.
        """

    def targets(self, y: Any) -> Any:
        """The targets as numbers; labels become their indices."""
        return y

    def __call__(self, inputs, training=False, **kwargs):
        return super().__call__(self.named_inputs(inputs), training=training, **kwargs)

    def named_inputs(self, inputs: Any) -> dict[str, Any]:
        """The inputs as a dict by name, with strings as (batch, token). Raises as a call does."""
        named = self._without_layers(inputs)
        self._add_layers(named)
        return named

    def in_parts(self, inputs: Any) -> Iterable[Any]:
        """Parts of inputs, at least one, that are predicted one after the other."""
        named = self._by_name(inputs)
        is_raw = all(isinstance(values, list | tuple) for values in named.values())
        named = named if is_raw else self._without_layers(named)
        for start in range(0, max(1, *map(len, named.values())), _ROWS):
            part = {name: values[start : start + _ROWS] for name, values in named.items()}
            part = self._without_layers(part) if is_raw else part
            for text in self.texts:
                lengths = count_tokens(is_token(part[text])).numpy().tolist()
                width = rounded_length(max(lengths, default=0))
                part[text] = part[text][:, :width]
                if (layers := self.layers_name(text)) in part:
                    part[layers] = part[layers][:, :, :width]
            yield part

    def _without_layers(self, inputs: Any) -> dict[str, Any]:
        """The result of `named_inputs` with the layers that `inputs` have."""
        named, needed = self._by_name(inputs), (*self.texts, *self.features)
        allowed = {*needed, *(map(self.layers_name, self.texts) if self.elmo else ())}
        if not set(needed) <= set(named) <= allowed:
            raise ValueError(
                f"The inputs must have the keys {', '.join(needed)}, and with an `elmo` may have "
                f"their layers, {self.layers_name(self.texts[0])}. Received: {', '.join(named)}."
            )
        for name in self.texts:
            named[name] = self._tokens(self._tokenized(named[name]))
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

    def _tokenized(self, texts: Any) -> Any:
        """Raw texts as lists of tokens. Tokens, and strings of a graph, are unchanged."""
        if self.tokenizer is None or self.labels_words or _is_symbolic(texts):
            return texts
        if tf.is_tensor(texts) and texts.shape.rank != 1:
            return texts
        texts = token_lists(texts, "inputs", keep_text=True)
        return [tokens_of(row, self.tokenizer) if isinstance(row, str) else row for row in texts]

    def _add_layers(self, named: dict[str, Any]) -> None:
        """Adds the layers of words, which are means over their tokens."""
        words = named[self.texts[0]]
        if self.tokenizer is None or not self.labels_words or _LAYERS in named:
            return
        if _is_symbolic(words):
            raise ValueError(
                f"In a graph, a model that tokenizes the words that it labels needs {_LAYERS!r}."
            )
        if self._word_means is None:
            embedder = Embedder(self.elmo.bilm, "all", tokenizer=self.tokenizer)
            self._word_means = WordMeans(embedder)
        num_rows, num_words = words.shape
        layers = np.zeros((num_rows, self.elmo.num_layers, num_words, self.elmo.dim), np.float32)
        for row, array in zip(layers, self._word_means.embed(token_lists(words)), strict=True):
            row[:, : array.shape[1]] = array
        named[_LAYERS] = tf.constant(layers)

    def _tokens(self, inputs: Any) -> Any:
        """A text as string (batch, token)."""
        if isinstance(inputs, keras.KerasTensor):
            if len(inputs.shape) != 2 or inputs.dtype != "string":
                raise ValueError(
                    "A symbolic input must be tokens, keras.Input((None,), dtype='string'). "
                    f"Received: {inputs.dtype} of shape {tuple(inputs.shape)}."
                )
            return inputs
        inputs, _ = checked_inputs(inputs, None)
        if inputs.dtype != tf.string:
            raise TypeError(
                "The inputs of a task model must be strings: sentences or tokens. "
                f"Received: {tf.as_dtype(inputs.dtype).name} of shape {tuple(inputs.shape)}."
            )
        return token_batch(inputs, None)[0]

    def with_layers(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """The result of `named_inputs` with the layers of the biLM, if there is one."""
        inputs = dict(inputs)
        for text in self.texts:
            name = self.layers_name(text)
            if self.elmo is not None and name not in inputs:
                lengths = count_tokens(is_token(inputs[text]))
                inputs[name] = self.elmo.bilm(inputs[text], lengths=lengths)["layers"]
        return inputs

    def _vectors(self, inputs: dict[str, Any], text: str, training: bool) -> dict[str, Any]:
        """The output of `TokenVectors` for one of the texts."""
        tokens, layers = inputs[text], inputs.get(self.layers_name(text))
        if layers is not None:  # tokens have at least one column, layers may have none
            wanted = (None, self.elmo.num_layers, None, self.elmo.dim)
            if not tf.TensorShape(wanted).is_compatible_with(layers.shape):
                raise ValueError(
                    f"`layers` must have shape (batch, {wanted[1]}, token, {wanted[3]}). Received: "
                    f"shape {tuple(layers.shape)}"
                )
            missing = tf.shape(tokens)[1] - tf.shape(layers)[2]
            layers = tf.pad(layers, [[0, 0], [0, 0], [0, missing], [0, 0]])
        return self.token_vectors(tokens, layers=layers, training=training)

    def layers_name(self, text: str) -> str:
        """The key of the input with the precomputed layers of a text."""
        return _LAYERS if len(self.texts) == 1 else f"{text}_{_LAYERS}"

    def as_graph(
        self, predictions: Callable[[Any], dict[str, tf.Tensor]]
    ) -> Callable[[Any], dict[str, tf.Tensor]]:
        """A function of the inputs as a graph that is traced once for all shapes."""
        traced = tf.function(predictions, autograph=False)

        def call(inputs):
            inputs = self.named_inputs(inputs)
            specs = {name: self.spec_of(name, value) for name, value in inputs.items()}
            return traced.get_concrete_function(specs)(inputs)

        return call

    def spec_of(self, name: str, value: Any) -> tf.TensorSpec:
        """The shape, with free sizes of batch and tokens, and the type of an input."""
        if name in self.features:
            return tf.TensorSpec(self.features[name].shape, value.dtype)
        free = (0, 1) if name in self.texts else (0, 2)  # batch and token
        shape = [None if axis in free else size for axis, size in enumerate(value.shape)]
        return tf.TensorSpec(shape, value.dtype)

    def fit(
        self, x=None, y=None, *args, class_weight=None, sample_weight=None, shuffle=True, **kwargs
    ):
        x, y, sample_weight = self._ready("train_function", x, y, sample_weight)
        if class_weight and isinstance(x, tf.data.Dataset):
            x = x.map(lambda inputs, y, *weights: (inputs, self.targets(y), *weights))
        if (validation_data := kwargs.get("validation_data")) is not None:
            parts = keras.utils.unpack_x_y_sample_weight(validation_data)
            kwargs["validation_data"] = self._ready("test_function", *parts)
        return super().fit(
            *(x, y, *args),
            class_weight=class_weight and self._by_index(class_weight, y),
            sample_weight=sample_weight,
            shuffle=shuffle and not isinstance(x, tf.data.Dataset),  # Keras would warn
            **kwargs,
        )

    def evaluate(self, x=None, y=None, *args, sample_weight=None, **kwargs):
        x, y, sample_weight = self._ready("test_function", x, y, sample_weight)
        return super().evaluate(x, y, *args, sample_weight=sample_weight, **kwargs)

    def predict(self, x, *args, **kwargs):
        ready, *_ = self._ready("predict_function", x)
        texts = ready.get(self.texts[0]) if isinstance(ready, dict) else None
        if texts is not None and texts.shape[0] == 0:  # Keras fails
            return tf.nest.map_structure(np.asarray, self(x))
        return super().predict(ready, *args, **kwargs)

    def make_train_function(self, force=False):
        # If the optimizer is built in the first step, the step is traced twice.
        if self.optimizer is not None and not self.optimizer.built:
            self.optimizer.build(self.trainable_variables)
        super().make_train_function(force)

    def train_step(self, data):
        return super().train_step(tf.nest.map_structure(_of_unknown_size, data))

    def test_step(self, data):
        return super().test_step(tf.nest.map_structure(_of_unknown_size, data))

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        if self.loss is not None:  # passed to `compile`
            return super().compute_loss(x, y, y_pred, sample_weight, training)
        losses = self.per_example_loss(y, y_pred, x)
        if sample_weight is not None:
            weights = tf.reshape(tf.cast(sample_weight, losses.dtype), (-1,))
            sizes = tf.size(weights), tf.size(losses)
            message = "`sample_weight` must have one weight per example. Weights and examples"
            losses *= checked(weights, sizes[0] == sizes[1], message, *sizes)
        total, count = tf.reduce_sum(losses), tf.cast(tf.size(losses), losses.dtype)
        penalties = tf.add_n([tf.cast(penalty, losses.dtype) for penalty in (0.0, *self.losses)])
        return total / tf.maximum(count, 1) + penalties

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        with tf.init_scope():  # the configuration has values of variables
            compiled = self.get_compile_config() or {}
        if compiled.get("metrics") or compiled.get("weighted_metrics"):
            y, y_pred, sample_weight = self.for_metrics(y, y_pred, sample_weight)
        return super().compute_metrics(x, y, y_pred, sample_weight)

    def for_metrics(self, y: Any, outputs: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
        """Targets, predictions after decoding, and weights, for the metrics of `compile`."""
        return self.targets(y), outputs, sample_weight

    def _by_index(self, class_weight: Mapping[Any, float] | str, y: Any) -> Mapping[int, float]:
        """`class_weight` with indices of labels as its keys."""
        raise ValueError("`class_weight` needs a model with one label per example.")

    def _ready(
        self, function: str, x: Any, y: Any = None, sample_weight: Any = None
    ) -> tuple[Any, Any, Any]:
        """The arguments for Keras, and for its traced function of this name."""
        if not _is_array(x):
            return x, y, sample_weight
        x = self._by_name(x) if self.tokenizer is None else self.named_inputs(x)
        x = {name: _as_tensor(values, name) for name, values in x.items()}
        ranks = [len(x[text].shape) for text in self.texts if text in x]
        if self._ranks.get(function) != ranks:
            self._ranks[function] = ranks
            setattr(self, function, None)  # Keras would trace it again for an unknown rank
        y = None if y is None else self.targets(_as_tensor(y, "y"))
        if sample_weight is not None:
            sample_weight = _as_tensor(sample_weight, "sample_weight")
        return x, y, sample_weight


def _is_symbolic(value: Any) -> bool:
    return isinstance(value, keras.KerasTensor) or tf.is_symbolic_tensor(value)


def tokens_of(text: str, tokenizer: str) -> list[str]:
    """The tokens of a raw text, without the limits of its sentences."""
    sentences = token_sentences([text], _tokenizer_of(tokenizer, None))
    return list(itertools.chain.from_iterable(sentences))


_tokenizer_of = functools.lru_cache(tokenizer_of)  # loading one may take a second


def _feature(name: str, value: Any, spec: tf.TensorSpec) -> Any:
    if isinstance(value, keras.KerasTensor):
        return value
    value = tf.convert_to_tensor(value, dtype_hint=spec.dtype)  # for an empty list
    # int32: strings that a model of documents has looked up
    if value.dtype.is_integer:
        value = tf.cast(value, tf.int32)
    if value.dtype not in (spec.dtype, tf.int32) or not spec.shape.is_compatible_with(value.shape):
        raise ValueError(
            f"The input {name} must be {spec.dtype.name} of shape {tuple(spec.shape)}. "
            f"Received: {value.dtype.name} of shape {tuple(value.shape)}."
        )
    return value


def _is_array(x: Any) -> bool:
    """Whether `x` contains all examples, and not batches of them, as a dataset does."""
    return isinstance(x, list | tuple | dict | tf.Tensor | tf.RaggedTensor) or any(
        hasattr(x, name) for name in (*TO_LIST, "columns")
    )


def _as_tensor(values: Any, name: str) -> Any:
    """Lists, arrays of strings and columns as a tensor; other arrays are unchanged."""
    values = column_of_table(values, name)
    if tf.is_tensor(values) or (isinstance(values, np.ndarray) and values.dtype.kind not in "OUST"):
        return values
    column = list_of_column(values)
    rows = values if column is None else column
    values = [row.tolist() if isinstance(row, np.ndarray) else row for row in rows]
    leaves = tf.nest.flatten(values)
    if not leaves or any(isinstance(leaf, str | bytes) for leaf in leaves):
        return string_tensor(values)
    lengths = {len(row) for row in values if isinstance(row, list | tuple)}
    return tf.ragged.constant(values) if len(lengths) > 1 else np.asarray(values)


def _of_unknown_size(x: Any) -> Any:
    """`x` without a static batch size, which Keras adds to the mean loss after the last batch."""
    if not isinstance(x, tf.Tensor) or not x.shape.rank:
        return x
    return tf.compat.v1.placeholder_with_default(x, (None, *x.shape[1:]))
