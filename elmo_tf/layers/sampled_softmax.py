"""biLM ─► SampledSoftmax: the sampled training loss over a large vocabulary, and the exact one."""

import math
from typing import Any

import keras
from keras import ops

from elmo_tf.layers.weights import table_normal, take_entries


@keras.saving.register_keras_serializable(package="elmo_tf")
class SampledSoftmax(keras.layers.Layer):
    """The negative log-likelihood of each token, estimated from a sample of the vocabulary.

    `loss = -log(exp(s_y) / (exp(s_y) + sum_k exp(s_k)))` with
    `s_v = x · W_v + b_v - log E(v)`, where `k` runs over the sampled tokens other than the target
    `y`, and `E(v)` is the expected count of `v` in a sample. Tokens are sampled from the
    log-uniform distribution `P(v) = log((v + 2) / (v + 1)) / log(V + 1)`, so the vocabulary must be
    sorted by decreasing count. All tokens of a call share one sample. It is drawn without
    replacement on TensorFlow, and with replacement on other backends.

    `full_loss` is the exact negative log-likelihood.

    Args:
        vocabulary_size: int >= 1, `V`.
        num_sampled: int >= 1. Tokens sampled per call; if it is at least `V`, the loss is exact.
            Defaults to 8192, as published.
        seed: int or None. Seed of the layer's generator, for calls without a seed. None chooses a
            random seed. Defaults to None.

    Call arguments:
        inputs: float (token, feature).
        targets: int (token,), values 0 to V - 1.
        seed: int (2,) on TensorFlow, int on other backends, or None for the layer's generator. The
            same seed yields the same sample.

    Returns:
        float (token,). Natural logarithm. At least float32: the dtype policy affects only the
        products of `inputs` and `W`.

    Raises:
        ValueError: an argument is out of range.

    Example:
        >>> softmax = elmo_tf.layers.SampledSoftmax(vocabulary_size=1000, num_sampled=64)
        >>> losses = softmax(np.ones((2, 8), np.float32), np.array([3, 7]))
        >>> tuple(losses.shape)
        (2,)

    Source: Jean et al. 2015; Peters et al. 2018, section 3.1. Unlike in the original, the sample is
    reproducible from its seed.
    """

    def __init__(self, vocabulary_size: int, num_sampled: int = 8192, seed: Any = None, **kwargs):
        super().__init__(**kwargs)
        for name, value in (("vocabulary_size", vocabulary_size), ("num_sampled", num_sampled)):
            if value < 1:
                raise ValueError(f"`{name}` must be at least 1. Received: {value}")
        self.vocabulary_size = vocabulary_size
        self.num_sampled = num_sampled
        self.seed = seed
        self._seed_generator = keras.random.SeedGenerator(seed)
        self.supports_jit = keras.config.backend() != "tensorflow"  # XLA supports no `tf.unique`

    def build(self, input_shape):
        self._build_kernel(input_shape[-1])
        self.bias = self.add_weight(
            name="b", shape=(self.vocabulary_size,), initializer="zeros", autocast=False
        )

    def _build_kernel(self, feature_dim: int) -> None:
        self.kernel = self.add_weight(
            name="W",
            shape=(self.vocabulary_size, feature_dim),
            initializer=table_normal(feature_dim**-0.5),
            autocast=False,  # a call casts only the entries that it needs
        )

    def call(self, inputs, targets, seed=None):
        targets = ops.cast(targets, "int32")
        if self.num_sampled >= self.vocabulary_size:
            return self.full_loss(inputs, targets)
        if keras.config.backend() == "tensorflow":
            return self._distinct_loss(inputs, targets, seed)
        return self._repeated_loss(inputs, targets, seed)

    def _distinct_loss(self, inputs, targets, seed):
        """Samples without replacement; needs no mask of the size of the logits."""
        from elmo_tf.layers import sampling_tf

        seed = self._seed_generator.next() if seed is None else seed
        size = self.vocabulary_size
        sampled, num_draws = sampling_tf.distinct_log_uniform(self.num_sampled, size, seed)

        def log_expected(ids):  # log(1 - (1 - P(v))^n), for n draws
            miss = ops.log1p(-log_uniform_probability(ids, size))
            expected = -ops.expm1(ops.cast(num_draws, "float32") * miss)
            return self._for_loss(ops.log(expected))

        drawn = ops.maximum(sampled, 0)
        inputs = ops.cast(inputs, self.compute_dtype)
        bias = self._bias_entries(drawn) - log_expected(drawn)
        bias = ops.where(sampled < 0, -1e9, bias)
        log_partition = sampling_tf.log_partition(inputs, self._kernel_entries(drawn), bias)
        target_logits = self._target_logits(inputs, targets, log_expected)
        return sampling_tf.loss_of_target(log_partition, target_logits, targets, sampled)

    def _repeated_loss(self, inputs, targets, seed):
        """Samples with replacement."""
        seed = self._seed_generator if seed is None else seed
        num_draws, size = self.num_sampled, self.vocabulary_size
        sampled = _log_uniform(num_draws, size, seed)

        def log_expected(ids):  # the log expected count of `ids` in the draws
            return self._for_loss(ops.log(num_draws * log_uniform_probability(ids, size)))

        inputs = ops.cast(inputs, self.compute_dtype)
        target_logits = self._target_logits(inputs, targets, log_expected)
        products = ops.matmul(inputs, ops.transpose(self._kernel_entries(sampled)))
        bias = self._bias_entries(sampled) - log_expected(sampled)
        sampled_logits = self._for_loss(products) + bias  # (token, sample)
        is_target = ops.equal(ops.cast(sampled, targets.dtype), targets[:, None])
        sampled_logits = ops.where(is_target, -1e9, sampled_logits)
        logits = ops.concatenate([target_logits[:, None], sampled_logits], axis=-1)
        return _negative_log_likelihood(logits, ops.zeros_like(targets))

    def full_loss(self, inputs: Any, targets: Any) -> Any:
        """The exact negative log-likelihood over the vocabulary, float (token,)."""
        return _negative_log_likelihood(self.logits(inputs), targets)

    def logits(self, inputs: Any) -> Any:
        """`x · W + b`: (…, feature) → (…, V), at least float32."""
        if not self.built:
            self.build(inputs.shape)
        kernel = ops.cast(self.kernel, self.compute_dtype)
        products = ops.matmul(ops.cast(inputs, self.compute_dtype), ops.transpose(kernel))
        return self._for_loss(products) + self._for_loss(self.bias)

    def _target_logits(self, inputs, targets, log_expected):
        products = self._for_loss(inputs) * self._for_loss(self._kernel_entries(targets))
        return ops.sum(products, axis=-1) + self._bias_entries(targets) - log_expected(targets)

    def _bias_entries(self, ids):
        return self._for_loss(take_entries(self.bias, ids))

    def _kernel_entries(self, ids):
        return ops.cast(take_entries(self.kernel, ids), self.compute_dtype)

    def _for_loss(self, tensor):
        return ops.cast(tensor, keras.backend.result_type(self.compute_dtype, "float32"))

    def get_config(self):
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "num_sampled": self.num_sampled,
            "seed": self.seed,
        }


class TiedSoftmax(SampledSoftmax):
    """A `SampledSoftmax` that shares its `W` with a `TokenEmbedding`; not saved on its own.

    Source: `share_embedding_softmax` of the original's trainer; Press and Wolf 2017.
    """

    def __init__(self, embedding: keras.layers.Layer, num_sampled: int = 8192, **kwargs):
        super().__init__(embedding.num_tokens, num_sampled, **kwargs)
        self.embedding = embedding

    def _build_kernel(self, feature_dim: int) -> None:
        if not self.embedding.built:
            self.embedding.build((None,))
        if self.kernel.shape[-1] != feature_dim:
            raise ValueError(
                f"`inputs` must have the width of the shared table, {self.kernel.shape[-1]}. "
                f"Received: {feature_dim}"
            )

    @property
    def kernel(self) -> keras.Variable:
        """The shared table, (V, feature)."""
        return self.embedding.embedding


def _negative_log_likelihood(logits: Any, targets: Any) -> Any:
    return ops.sparse_categorical_crossentropy(targets, logits, from_logits=True)


def _log_uniform(num_draws: int, size: int, seed: Any) -> Any:
    """Draws with replacement, int32 (num_draws,), by inverting the distribution function."""
    uniform = keras.random.uniform((num_draws,), seed=seed)
    ids = ops.floor(ops.exp(uniform * math.log(size + 1))) - 1
    return ops.clip(ops.cast(ids, "int32"), 0, size - 1)


def log_uniform_probability(ids: Any, size: int) -> Any:
    """`P(v) = log((v + 2) / (v + 1)) / log(V + 1)`."""
    ids = ops.cast(ids, "float32")
    return ops.log1p(1.0 / (ids + 1.0)) / math.log(size + 1)
