"""biLM ─► SampledSoftmax: the training loss over a large vocabulary, and its exact form."""

import functools
import math
from typing import Any

import keras
from keras import ops

from elmo_tf.layers.large_tables import row_normal, take_rows
from elmo_tf.layers.log_uniform import log_uniform_probability


@keras.saving.register_keras_serializable(package="elmo_tf")
class SampledSoftmax(keras.layers.Layer):
    """The negative log-likelihood of each token, estimated from a sample of the vocabulary.

    `loss = -log(exp(s_y) / (exp(s_y) + sum_k exp(s_k)))` with
    `s_v = x · W_v + b_v - log E(v)`, where `k` runs over the sampled tokens other than the target
    `y`, and `E(v)` is the expected number of times that `v` is in a sample. Sampled tokens come
    from the log-uniform distribution `P(v) = log((v + 2) / (v + 1)) / log(V + 1)`, so the
    vocabulary must be sorted by falling count. One sample serves all tokens of a call. On
    TensorFlow a token is sampled once at most; on Keras's other backends it may come several times,
    and counts so.

    `full_loss` gives the exact negative log-likelihood.

    Args:
        vocabulary_size: int >= 1, `V`.
        num_sampled: int >= 1. Tokens drawn a call; from `V` on, nothing is sampled and the loss is
            exact. Defaults to 8192, as published.
        seed: int or None. Of the layer's own generator, for calls without a seed. None takes one by
            chance. Defaults to None.

    Call arguments:
        inputs: float (token, feature).
        targets: int (token,), values 0 to V - 1.
        seed: int (2,) on TensorFlow, a single int elsewhere, or None. The same seed draws the same
            sample; None takes the next of the layer's own generator.

    Returns:
        float (token,). Natural logarithm. At least float32, whatever the dtype policy: only the
        products of `inputs` and `W` are computed in fewer bits.

    Raises:
        ValueError: an argument out of its range.

    Source: Jean et al. 2015; Peters et al. 2018, section 3.1. Differs from the original in that
    the sample can be repeated from its seed.
    """

    def __init__(self, vocabulary_size: int, num_sampled: int = 8192, seed: Any = None, **kwargs):
        super().__init__(**kwargs)
        if vocabulary_size < 1:
            raise ValueError(f"`vocabulary_size` must be at least 1. Received: {vocabulary_size}")
        if num_sampled < 1:
            raise ValueError(f"`num_sampled` must be at least 1. Received: {num_sampled}")
        self.vocabulary_size = vocabulary_size
        self.num_sampled = num_sampled
        self.seed = seed
        self._seed_generator = keras.random.SeedGenerator(seed)

    def build(self, input_shape):
        self._build_kernel(input_shape[-1])
        self.bias = self.add_weight(
            name="b", shape=(self.vocabulary_size,), initializer="zeros", autocast=False
        )

    def _build_kernel(self, feature_dim: int) -> None:
        self.kernel = self.add_weight(
            name="W",
            shape=(self.vocabulary_size, feature_dim),
            initializer=row_normal(feature_dim**-0.5),
            autocast=False,  # a call casts the rows that it needs, not the whole vocabulary
        )

    def call(self, inputs, targets, seed=None):
        if self.num_sampled >= self.vocabulary_size:
            return self.full_loss(inputs, targets)
        if keras.config.backend() == "tensorflow":
            return self._distinct_loss(inputs, targets, seed)
        seed = self._seed_generator if seed is None else seed
        sampled = _log_uniform(self.num_sampled, self.vocabulary_size, seed)
        log_expected = functools.partial(
            _log_expected, num_draws=self.num_sampled, size=self.vocabulary_size
        )
        return self.loss_against(inputs, targets, sampled, log_expected)

    def _distinct_loss(self, inputs, targets, seed):
        """`loss_against` a sample of TensorFlow's, without a mask of the size of the logits."""
        from elmo_tf.layers import sampling_tf

        seed = self._seed_generator.next() if seed is None else seed
        sampled, num_draws = sampling_tf.distinct_log_uniform(
            self.num_sampled, self.vocabulary_size, seed
        )
        log_expected = functools.partial(
            _log_expected_distinct, num_draws=num_draws, size=self.vocabulary_size
        )
        rows = ops.maximum(sampled, 0)
        inputs = ops.cast(inputs, self.compute_dtype)
        bias = self._bias_rows(rows) - self._for_loss(log_expected(rows))
        bias = ops.where(sampled < 0, -1e9, bias)
        log_partition = sampling_tf.log_partition(inputs, self._kernel_rows(rows), bias)
        target_logits = self._target_logits(inputs, targets, log_expected)
        return sampling_tf.loss_of_target(log_partition, target_logits, targets, sampled)

    def loss_against(self, inputs: Any, targets: Any, sampled: Any, log_expected: Any) -> Any:
        """The loss against a given sample.

        Args:
            inputs: float (token, feature).
            targets: int (token,).
            sampled: int (sample,). -1 stands for no token.
            log_expected: function of ids that gives `log E(v)`.

        Returns:
            float (token,).
        """
        rows = ops.maximum(sampled, 0)
        inputs = ops.cast(inputs, self.compute_dtype)
        target_logits = self._target_logits(inputs, targets, log_expected)
        sampled_logits = ops.matmul(inputs, ops.transpose(self._kernel_rows(rows)))
        sampled_logits = self._for_loss(sampled_logits)  # (token, sample)
        sampled_logits = sampled_logits + self._bias_rows(rows) - log_expected(rows)
        unwanted = ops.logical_or(
            ops.equal(ops.cast(sampled, targets.dtype), targets[:, None]), sampled < 0
        )
        sampled_logits = ops.where(unwanted, -1e9, sampled_logits)
        logits = ops.concatenate([target_logits[:, None], sampled_logits], axis=-1)
        return _negative_log_likelihood(logits, ops.zeros_like(targets))

    def full_loss(self, inputs: Any, targets: Any) -> Any:
        """The exact negative log-likelihood, float (token,), over the whole vocabulary."""
        return _negative_log_likelihood(self.logits(inputs), targets)

    def logits(self, inputs: Any) -> Any:
        """`x · W + b` of (…, feature), as (…, V), at least float32."""
        kernel = ops.cast(self.kernel, self.compute_dtype)
        products = ops.matmul(ops.cast(inputs, self.compute_dtype), ops.transpose(kernel))
        return self._for_loss(products) + self.bias

    def _target_logits(self, inputs, targets, log_expected):
        products = self._for_loss(inputs) * self._for_loss(self._kernel_rows(targets))
        return ops.sum(products, axis=-1) + self._bias_rows(targets) - log_expected(targets)

    def _kernel_rows(self, ids):
        return ops.cast(take_rows(self.kernel, ids), self.compute_dtype)

    def _bias_rows(self, ids):
        return take_rows(self.bias, ids)

    @property
    def _loss_dtype(self) -> str:
        return keras.backend.result_type(self.compute_dtype, "float32")

    def _for_loss(self, tensor):
        return ops.cast(tensor, self._loss_dtype)

    def compute_output_shape(self, inputs_shape, targets_shape=None):
        return (inputs_shape[0],)

    def compute_output_spec(self, inputs, targets, seed=None):
        shape = self.compute_output_shape(inputs.shape)
        return keras.KerasTensor(shape, dtype=self._loss_dtype)

    def get_config(self):
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "num_sampled": self.num_sampled,
            "seed": self.seed,
        }


@keras.saving.register_keras_serializable(package="elmo_tf")
class TiedSoftmax(SampledSoftmax):
    """A `SampledSoftmax` whose `W` is the table that the tokens are read from.

    The table is a variable of `embedding` and of this layer at once, and learns through both uses.

    Args:
        embedding: a layer with a weight `embedding`, float (V, feature), that is not cast when it
            is read, such as `TokenEmbedding`.
        num_sampled, seed: see `SampledSoftmax`.

    Call arguments, Returns: see `SampledSoftmax`.

    Raises:
        ValueError: an argument out of its range, or inputs of another width than the table.

    Source: `share_embedding_softmax` of the original's trainer; Press and Wolf 2017.
    """

    def __init__(
        self, embedding: keras.layers.Layer, num_sampled: int = 8192, seed: Any = None, **kwargs
    ):
        super().__init__(embedding.num_tokens, num_sampled, seed, **kwargs)
        self.embedding = embedding

    def _build_kernel(self, feature_dim: int) -> None:
        if not self.embedding.built:
            self.embedding.build((None,))
        if self.kernel.shape[-1] != feature_dim:
            raise ValueError(
                f"`inputs` must be as wide as the table that they share, {self.kernel.shape[-1]}. "
                f"Received: {feature_dim}"
            )

    @property
    def kernel(self) -> keras.Variable:
        """The table, (V, feature)."""
        return self.embedding.embedding

    def get_config(self):
        config = super().get_config()
        del config["vocabulary_size"]
        return {**config, "embedding": keras.saving.serialize_keras_object(self.embedding)}

    @classmethod
    def from_config(cls, config):
        embedding = keras.saving.deserialize_keras_object(config["embedding"])
        return cls(**{**config, "embedding": embedding})


def _negative_log_likelihood(logits: Any, targets: Any) -> Any:
    return ops.sparse_categorical_crossentropy(targets, logits, from_logits=True)


def _log_expected_distinct(ids: Any, num_draws: Any, size: int) -> Any:
    """`log(1 - (1 - P(v))^n)`: the chance that `v` is among the distinct tokens of `n` draws."""
    miss = ops.cast(num_draws, "float32") * ops.log1p(-log_uniform_probability(ids, size))
    return ops.log(-ops.expm1(miss))


def _log_expected(ids: Any, num_draws: int, size: int) -> Any:
    """`log(n P(v))`: how often `v` is expected among `n` draws that may repeat."""
    return ops.log(num_draws * log_uniform_probability(ids, size))


def _log_uniform(num_draws: int, size: int, seed: Any) -> Any:
    """Draws with repetition, int32 (num_draws,), by inverting the distribution function."""
    uniform = keras.random.uniform((num_draws,), seed=seed)
    ids = ops.floor(ops.exp(uniform * math.log(size + 1))) - 1
    return ops.clip(ops.cast(ids, "int32"), 0, size - 1)
