import keras
import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.layers import SampledSoftmax
from elmo_tf.layers.log_uniform import draws_for_distinct
from elmo_tf.layers.sampled_softmax import TiedSoftmax
from elmo_tf.layers.sampling_tf import distinct_log_uniform
from elmo_tf.models import TokenEmbedding
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


def full_loss(layer, inputs, targets):
    return reference.full_loss(inputs, targets, layer.kernel.numpy(), layer.bias.numpy())


def test_the_full_loss_equals_the_formula():
    layer = layer_of(4)

    np.testing.assert_allclose(layer.full_loss(*batch()), full_loss(layer, *batch()), rtol=1e-5)


@pytest.mark.parametrize("num_sampled", [VOCABULARY_SIZE, VOCABULARY_SIZE + 1, 8192])
def test_sampling_the_whole_vocabulary_is_exact(num_sampled):
    layer = layer_of(num_sampled)

    np.testing.assert_allclose(layer(*batch()), full_loss(layer, *batch()), rtol=1e-5)


def test_logits_have_the_vocabulary_as_last_axis():
    layer = layer_of(4)
    inputs = batch()[0].reshape(7, 1, FEATURES)

    expected = inputs @ layer.kernel.numpy().T + layer.bias.numpy()
    np.testing.assert_allclose(layer.logits(inputs), expected, rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_the_loss_against_a_sample_equals_the_formula(dtype):
    layer = layer_of(4)
    inputs, targets = batch()
    sampled = np.array([1, 20, targets[2], 0, targets[5]], np.int32)
    expected_counts = np.random.default_rng(2).uniform(0.1, 2, VOCABULARY_SIZE)

    loss = layer.loss_against(
        inputs,
        targets.astype(dtype),
        sampled,
        lambda ids: tf.gather(np.log(expected_counts).astype(np.float32), ids),
    )

    expected = reference.sampled_loss(
        inputs, targets, layer.kernel.numpy(), layer.bias.numpy(), sampled, expected_counts
    )
    np.testing.assert_allclose(loss, expected, rtol=1e-5)


def test_a_sampled_token_that_is_the_target_does_not_count():
    layer = layer_of(4)
    inputs, _ = batch()
    targets = np.full(TOKENS, 3, np.int32)
    log_expected = lambda ids: tf.zeros(tf.shape(ids))  # noqa: E731

    with_target = layer.loss_against(inputs, targets, np.array([3, 9, 3]), log_expected)

    without = layer.loss_against(inputs, targets, np.array([9]), log_expected)
    np.testing.assert_allclose(with_target, without, rtol=1e-6)


def test_places_without_a_token_do_not_count():
    layer = layer_of(4)
    log_expected = lambda ids: tf.zeros(tf.shape(ids))  # noqa: E731

    short = layer.loss_against(*batch(), np.array([9, -1, -1]), log_expected)

    without = layer.loss_against(*batch(), np.array([9]), log_expected)
    np.testing.assert_allclose(short, without, rtol=1e-6)


def test_the_same_seed_draws_the_same_sample():
    layer = layer_of(4)

    first, again, other = (layer(*batch(), seed=seed) for seed in ([3, 4], [3, 4], [3, 5]))

    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0


def test_without_a_seed_every_call_draws_anew_and_the_layer_seed_repeats_it():
    one, two = layer_of(4, seed=7), layer_of(4, seed=7)

    first, second = one(*batch()), one(*batch())

    assert np.abs(first - second).max() > 0
    np.testing.assert_array_equal(two(*batch()), first)
    np.testing.assert_array_equal(two(*batch()), second)


def test_the_estimated_normaliser_is_right_on_average():
    """`sum_k exp(s_k) / E(k)` over many samples, beside `sum_v exp(s_v)` over the vocabulary."""
    size, num_sampled = 40, 8
    layer = layer_of(num_sampled, size)
    inputs, targets = batch(size, tokens=3)
    losses = tf.function(lambda seed: layer(inputs, targets, seed=seed))
    kernel, bias = layer.kernel.numpy(), layer.bias.numpy()

    totals = []
    for draw in range(1500):
        loss = losses(tf.constant([draw, 0])).numpy().astype(np.float64)
        totals.append(np.exp(loss) - 1)  # negatives, relative to the target's share
    scores = inputs @ kernel.T + bias
    others = [
        np.exp(np.delete(s, t)).sum() / np.exp(s[t]) for s, t in zip(scores, targets, strict=True)
    ]
    # The target's own share is divided by its expected count.
    draws = draws_for_distinct(num_sampled, size)
    chance = 1 - (1 - reference.log_uniform(size)[targets]) ** draws

    np.testing.assert_allclose(np.mean(totals, axis=0) / chance, others, rtol=0.25)


def test_scores_are_corrected_by_how_often_a_token_is_sampled():
    """With all scores alike, `exp(loss) - 1` of target `v` is `E(v)` times the other tokens."""
    size, num_sampled, num_samples = 40, 12, 1500
    layer = SampledSoftmax(size, num_sampled)
    layer.build((None, FEATURES))
    targets = tf.range(size)
    losses = tf.function(lambda seed: layer(tf.zeros((size, FEATURES)), targets, seed=seed))
    sample = tf.function(lambda seed: distinct_log_uniform(num_sampled, size, seed)[0])

    totals, counts = np.zeros(size), np.zeros(size)
    for draw in range(num_samples):
        seed = tf.constant([draw, 2])
        totals += np.exp(losses(seed).numpy().astype(np.float64)) - 1
        counts[sample(seed).numpy()] += 1

    np.testing.assert_allclose(totals / (size - 1), counts, rtol=0.1, atol=0.03 * num_samples)


def test_training_on_the_sampled_loss_lowers_the_full_loss():
    size = 200
    layer = layer_of(50, size)
    inputs, targets = batch(size, tokens=20)
    optimizer = keras.optimizers.Adam(0.1)
    before = layer.full_loss(inputs, targets).numpy().mean()

    @tf.function
    def step(seed):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(layer(inputs, targets, seed=seed))
        weights = layer.trainable_weights
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))

    for draw in range(60):
        step(tf.constant([draw, 1]))

    assert layer.full_loss(inputs, targets).numpy().mean() < 0.1 * before


def test_other_backends_draw_with_repetition_and_are_right_on_average(monkeypatch):
    monkeypatch.setattr(keras.config, "backend", lambda: "another")
    size, num_sampled = 40, 12
    layer = layer_of(num_sampled, size, seed=5)
    inputs, targets = batch(size, tokens=3)
    kernel, bias = layer.kernel.numpy(), layer.bias.numpy()

    losses = tf.function(lambda: layer(inputs, targets))
    totals = [np.exp(losses().numpy().astype(np.float64)) - 1 for _ in range(1500)]

    scores = inputs @ kernel.T + bias
    others = [
        np.exp(np.delete(row, target) - row[target]).sum()
        for row, target in zip(scores, targets, strict=True)
    ]
    expected_count = num_sampled * reference.log_uniform(size)[targets]
    np.testing.assert_allclose(np.mean(totals, axis=0) / expected_count, others, rtol=0.25)
    np.testing.assert_array_equal(layer(inputs, targets, seed=4), layer(inputs, targets, seed=4))


def test_starts_with_a_deviation_of_one_over_the_root_of_the_width():
    layer = SampledSoftmax(2000)
    layer.build((None, 25))

    assert np.std(layer.kernel) == pytest.approx(0.2, rel=0.02)
    assert not layer.bias.numpy().any()
    assert layer.num_sampled == 8192


def test_a_saved_model_loads_and_gives_the_same(keras_round_trip):
    inputs, targets = keras.Input((FEATURES,)), keras.Input((), dtype="int32")
    layer = layer_of(VOCABULARY_SIZE, seed=7)
    model = keras.Model([inputs, targets], layer(inputs, targets))

    loaded = keras_round_trip(model)

    np.testing.assert_array_equal(loaded(batch()), model(batch()))
    config = layer_of(4, seed=7).get_config()
    assert (config["vocabulary_size"], config["num_sampled"], config["seed"]) == (23, 4, 7)
    assert SampledSoftmax.from_config(config).get_config() == config


@pytest.mark.parametrize("arguments", [(0, 5), (5, 0)])
def test_sizes_must_be_positive(arguments):
    with pytest.raises(
        ValueError, match=r"`(vocabulary_size|num_sampled)` must be at least 1. Received: 0"
    ):
        SampledSoftmax(*arguments)


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16"])
@pytest.mark.parametrize("num_sampled", [4, VOCABULARY_SIZE])
def test_under_mixed_precision_the_loss_is_float32_and_close(dtype, num_sampled):
    layer, mixed = layer_of(num_sampled), layer_of(num_sampled, dtype=dtype)
    inputs, targets = batch()

    loss = mixed(inputs, targets, seed=[3, 4])

    assert loss.dtype == "float32"
    assert mixed.full_loss(inputs, targets).dtype == "float32"
    # Logits below 8, with eight bits in a bfloat16.
    np.testing.assert_allclose(loss, layer(inputs, targets, seed=[3, 4]), atol=0.05)
    np.testing.assert_allclose(
        mixed.full_loss(inputs, targets), layer.full_loss(inputs, targets), atol=0.05
    )


def test_a_symbolic_loss_has_the_dtype_of_the_real_one():
    layer = layer_of(4, dtype="mixed_bfloat16")

    symbolic = layer(keras.Input((FEATURES,)), keras.Input((), dtype="int32"))

    assert symbolic.dtype == "float32"
    assert symbolic.shape == (None,)


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_only_the_rows_of_sampled_tokens_get_gradients(dtype):
    layer = layer_of(4, dtype=dtype)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(layer(*batch(), seed=[3, 4]))

    gradient = tape.gradient(loss, layer.kernel.value)

    assert isinstance(gradient, tf.IndexedSlices)
    assert gradient.dtype == tf.float32


def test_places_without_a_token_do_not_overflow_a_float16():
    layer = layer_of(4, dtype="mixed_float16")
    inputs, targets = batch()

    loss = layer.loss_against(inputs, targets, np.array([9, -1, -1]), lambda ids: 0.0)

    assert np.isfinite(loss).all()


def tied_layer_of(num_sampled, **kwargs):
    embedding = TokenEmbedding(VOCABULARY_SIZE, FEATURES)
    layer = TiedSoftmax(embedding, num_sampled, **kwargs)
    layer.build((None, FEATURES))
    untied = layer_of(num_sampled)
    embedding.embedding.assign(untied.kernel)
    layer.bias.assign(untied.bias)
    return layer


@pytest.mark.parametrize("num_sampled", [4, VOCABULARY_SIZE])
def test_a_tied_softmax_is_a_softmax_over_the_table(num_sampled):
    tied, untied = tied_layer_of(num_sampled), layer_of(num_sampled)

    for one, other in (
        (tied(*batch(), seed=[3, 4]), untied(*batch(), seed=[3, 4])),
        (tied.full_loss(*batch()), untied.full_loss(*batch())),
    ):
        np.testing.assert_array_equal(one, other)
    assert tied.kernel is tied.embedding.embedding
    assert len(tied.weights) == 2


def test_a_saved_tied_softmax_loads_and_gives_the_same(keras_round_trip):
    inputs, targets = keras.Input((FEATURES,)), keras.Input((), dtype="int32")
    layer = tied_layer_of(VOCABULARY_SIZE, seed=7, name="tied")
    model = keras.Model([inputs, targets], layer(inputs, targets))

    loaded = keras_round_trip(model)

    np.testing.assert_array_equal(loaded(batch()), model(batch()))
    again = loaded.get_layer("tied")
    assert again.kernel is again.embedding.embedding
    assert (again.vocabulary_size, again.num_sampled, again.seed) == (23, 23, 7)


def test_a_tied_softmax_reads_inputs_as_wide_as_its_table():
    layer = TiedSoftmax(TokenEmbedding(VOCABULARY_SIZE, FEATURES))

    with pytest.raises(ValueError, match=r"width of the shared table, 5. Received: 6"):
        layer.build((None, FEATURES + 1))
