import keras
import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.layers import SampledSoftmax, sampled_softmax
from elmo_tf.layers.sampling_tf import distinct_log_uniform, draws_for_distinct
from reference import softmax as reference

VOCABULARY_SIZE, FEATURES, TOKENS = 23, 5, 7


def layer_of(num_sampled, size=VOCABULARY_SIZE, **kwargs):
    layer = SampledSoftmax(size, num_sampled, **kwargs)
    layer.build((None, FEATURES))
    rng = np.random.default_rng(0)
    layer.kernel.assign(rng.normal(size=(size, FEATURES)))
    layer.bias.assign(rng.normal(size=size))
    return layer


def batch(size=VOCABULARY_SIZE, tokens=TOKENS):
    rng = np.random.default_rng(1)
    inputs = rng.normal(size=(tokens, FEATURES)).astype(np.float32)
    return inputs, rng.integers(0, size, tokens).astype(np.int32)


@pytest.mark.parametrize("num_sampled", [VOCABULARY_SIZE, VOCABULARY_SIZE + 1, 8192])
def test_sampling_the_whole_vocabulary_is_exact(num_sampled):
    layer = layer_of(num_sampled)

    expected = reference.full_loss(*batch(), layer.kernel.numpy(), layer.bias.numpy())
    np.testing.assert_allclose(layer(*batch()), expected, rtol=1e-5)
    np.testing.assert_allclose(layer.full_loss(*batch()), expected, rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize(("num_sampled", "size"), [(4, VOCABULARY_SIZE), (499, 500)])
def test_the_loss_equals_the_formula_for_its_sample(num_sampled, size, dtype):
    """The larger sample lacks some tokens, because there were too few draws.

    Its unfilled places must not count: looked up as token 0, they would add its high score.
    """
    layer, (inputs, targets), seed = layer_of(num_sampled, size), batch(size), [0, 1]
    layer.bias.assign(layer.bias.numpy() + 9 * (np.arange(size) == 0))
    sampled, num_draws = (one.numpy() for one in distinct_log_uniform(num_sampled, size, seed))
    real = sampled[sampled >= 0]
    assert (len(real) < num_sampled) == (size == 500)
    assert len(set(real)) == len(real)
    assert (sampled[len(real) :] == -1).all()
    targets[:2] = sampled[:2]

    loss = layer(inputs, targets.astype(dtype), seed=seed)

    kernel, bias = layer.kernel.numpy(), layer.bias.numpy()
    expected_counts = 1 - (1 - reference.log_uniform(size)) ** num_draws
    expected = reference.sampled_loss(inputs, targets, kernel, bias, real, expected_counts)
    np.testing.assert_allclose(loss, expected, rtol=1e-4)


def test_calls_without_a_seed_differ_and_the_layer_seed_repeats_them():
    one, two = layer_of(4, seed=7), layer_of(4, seed=7)

    first, second = one(*batch()), one(*batch())

    assert np.abs(first - second).max() > 0
    np.testing.assert_array_equal(two(*batch()), first)
    np.testing.assert_array_equal(two(*batch()), second)


def test_scores_are_corrected_by_the_sampling_frequency():
    """With equal scores, `exp(loss) - 1` of target `v` is `E(v)` times the other tokens."""
    size, num_sampled, num_samples = 40, 12, 1500
    layer = SampledSoftmax(size, num_sampled)
    layer.build((None, FEATURES))
    inputs, targets = tf.zeros((size, FEATURES)), tf.range(size)
    seeds = tf.stack([tf.range(num_samples), tf.fill(num_samples, 2)], axis=1)

    @tf.function
    def losses_and_samples():
        return tf.map_fn(
            lambda seed: (
                layer(inputs, targets, seed=seed),
                distinct_log_uniform(num_sampled, size, seed)[0],
            ),
            seeds,
            fn_output_signature=(tf.float32, tf.int32),
        )

    losses, samples = (one.numpy() for one in losses_and_samples())

    totals = (np.exp(losses.astype(np.float64)) - 1).sum(axis=0)
    counts = np.bincount(samples.ravel(), minlength=size)
    np.testing.assert_allclose(totals / (size - 1), counts, rtol=0.1, atol=0.03 * num_samples)


def test_other_backends_sample_with_replacement(monkeypatch):
    monkeypatch.setattr(keras.config, "backend", lambda: "another")
    layer, (inputs, targets) = layer_of(12), batch()
    targets = targets.astype(np.int64)
    many = sampled_softmax._log_uniform(20_000, VOCABULARY_SIZE, seed=5)
    sampled = sampled_softmax._log_uniform(12, VOCABULARY_SIZE, seed=4).numpy()
    assert set(targets) & set(sampled)

    loss = layer(inputs, targets, seed=4)

    probability = reference.log_uniform(VOCABULARY_SIZE)
    shares = np.bincount(many, minlength=VOCABULARY_SIZE) / len(many)
    np.testing.assert_allclose(shares, probability, atol=0.01)
    kernel, bias = layer.kernel.numpy(), layer.bias.numpy()
    expected = reference.sampled_loss(inputs, targets, kernel, bias, sampled, 12 * probability)
    np.testing.assert_allclose(loss, expected, rtol=1e-4)


def test_a_layer_of_float64_samples():
    inputs, targets = batch()
    loss = layer_of(4, dtype="float64")(inputs, targets, seed=[3, 4])
    assert loss.dtype == "float64"
    np.testing.assert_allclose(loss, layer_of(4)(inputs, targets, seed=[3, 4]), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16"])
@pytest.mark.parametrize("num_sampled", [4, VOCABULARY_SIZE])
def test_the_loss_in_mixed_precision_is_float32_and_close(dtype, num_sampled):
    layer, mixed = layer_of(num_sampled), layer_of(num_sampled, dtype=dtype)
    inputs, targets = batch()

    loss = mixed(inputs, targets, seed=[3, 4])

    assert loss.dtype == "float32"
    assert mixed.full_loss(inputs, targets).dtype == "float32"
    assert mixed(keras.Input((FEATURES,)), keras.Input((), dtype="int32")).dtype == "float32"
    # Logits are below 8, and a bfloat16 has eight bits.
    np.testing.assert_allclose(loss, layer(inputs, targets, seed=[3, 4]), atol=0.05)
    full = mixed.full_loss(inputs, targets), layer.full_loss(inputs, targets)
    np.testing.assert_allclose(*full, atol=0.05)


@pytest.mark.parametrize(("num_sampled", "size"), [(1, 2), (5, 23), (22, 23), (100, 5000)])
def test_the_expected_number_of_distinct_tokens_is_the_requested_one(num_sampled, size):
    draws = draws_for_distinct(num_sampled, size)

    miss = 1 - reference.log_uniform(size)
    assert (1 - miss**draws).sum() >= num_sampled - 1e-9
    assert draws == num_sampled or (1 - miss ** (draws - 1)).sum() < num_sampled + 1e-9
