"""`SampledSoftmax` on TensorFlow: sampling without replacement, and a memory-efficient loss."""

import bisect
import functools
import math
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from elmo_tf.layers.recurrence_training_tf import custom_gradient

# Factor on the average number of draws, so that the draws nearly always suffice.
_SLACK = 1.1
# Limit for samples of nearly the complete vocabulary, where rare tokens need very many draws.
_MAX_DRAWS_PER_TOKEN = 64


def distinct_log_uniform(
    num_sampled: int, size: int, seed: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Draws from the log-uniform distribution until `num_sampled`, below `size`, are distinct.

    Returns int32 (num_sampled,), the distinct tokens in the order of the draws, padded with -1 if
    the draws did not suffice; and an int32 scalar, the number of draws. The same seed, int (2,),
    yields the same sample.
    """
    max_draws = _num_draws(num_sampled, size)
    # In float32, the resolution near 1 would be too low for the rarest tokens.
    uniform = tf.random.stateless_uniform((max_draws,), tf.cast(seed, tf.int32), dtype=tf.float64)
    draws = tf.cast(tf.exp(uniform * math.log(size + 1)), tf.int32) - 1  # (draw,)
    draws = tf.clip_by_value(draws, 0, size - 1)
    distinct, index = tf.unique(draws)
    # `index` increases by one at each new token: the first draw with index `num_sampled - 1`
    # completed the sample.
    size_found = tf.minimum(tf.size(distinct), num_sampled)
    num_draws = tf.where(
        size_found == num_sampled,
        tf.cast(tf.argmax(index == num_sampled - 1, output_type=tf.int32), tf.int32) + 1,
        max_draws,
    )
    missing = num_sampled - size_found
    sampled = tf.pad(distinct[:num_sampled], [[0, missing]], constant_values=-1)
    return tf.ensure_shape(sampled, (num_sampled,)), num_draws


def loss_of_target(
    log_partition: tf.Tensor, target_logits: tf.Tensor, targets: tf.Tensor, sampled: tf.Tensor
) -> tf.Tensor:
    """The loss of each token, with its target counted once if it is in `sampled`, distinct ids."""
    in_order = tf.sort(sampled)
    place = tf.minimum(tf.searchsorted(in_order, targets), tf.size(sampled) - 1)
    hit = tf.gather(in_order, place) == targets
    difference = log_partition - target_logits
    return tf.where(hit, difference, tf.nn.softplus(difference))


@custom_gradient
def log_partition(
    inputs: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor
) -> tuple[tf.Tensor, Callable]:
    """`log sum_k exp(x · W_k + b_k)`, with a gradient that reuses the exponentials.

    `inputs` (token, feature) and `kernel` (sample, feature) have the same dtype; `bias` (sample,)
    is at least float32, and so is the result, float (token,).
    """
    logits = tf.cast(tf.matmul(inputs, kernel, transpose_b=True), bias.dtype) + bias
    largest = tf.reduce_max(logits, axis=-1, keepdims=True)
    exponentials = tf.exp(logits - largest)  # (token, sample)
    sums = tf.reduce_sum(exponentials, axis=-1, keepdims=True)

    def gradient(upstream):
        # The gradient of the logits is `exponentials * scale`. Scaling the other factor and the
        # product instead avoids an array of the size of the logits.
        scale = upstream[:, tf.newaxis] / sums
        to_bias = tf.matmul(exponentials, scale, transpose_a=True)[:, 0]
        narrow = tf.cast(exponentials, inputs.dtype)
        scaled_inputs = tf.cast(tf.cast(inputs, scale.dtype) * scale, inputs.dtype)
        to_kernel = tf.matmul(narrow, scaled_inputs, transpose_a=True)
        to_inputs = tf.cast(tf.matmul(narrow, kernel), scale.dtype) * scale
        return tf.cast(to_inputs, inputs.dtype), to_kernel, to_bias

    return (largest + tf.math.log(sums))[:, 0], gradient


@functools.lru_cache
def _num_draws(num_sampled: int, size: int) -> int:
    needed = math.ceil(_SLACK * draws_for_distinct(num_sampled, size)) + 64
    return min(needed, _MAX_DRAWS_PER_TOKEN * num_sampled)


def draws_for_distinct(num_sampled: int, size: int) -> int:
    """Number of draws that yield `num_sampled` distinct tokens on average, up to the limit.

    Solves `sum_v 1 - (1 - P(v))^n = num_sampled` for `n`, rounded up.
    """
    ids = np.arange(size, dtype=np.float64)
    log_miss = np.log1p(-np.log1p(1 / (ids + 1)) / math.log(size + 1))

    def num_distinct(draws: int) -> float:
        return -np.expm1(draws * log_miss).sum()

    limit = _MAX_DRAWS_PER_TOKEN * num_sampled
    return bisect.bisect_left(range(limit), num_sampled, lo=num_sampled, key=num_distinct)
