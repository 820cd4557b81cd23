import keras
import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.layers import ProjectedLSTM, recurrence_tf
from elmo_tf.layers.recurrence_tf import ActiveRows
from nested_arrays import assert_close
from reference import lstm as reference

BATCH, TOKENS, FEATURES, UNITS, PROJECTION = 3, 7, 4, 6, 5
ATOL = 2e-6
MASK = np.array([[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 0, 1, 0]], bool)
NUM_TOKENS, NUM_ROWS = 9, 21
LENGTHS = np.random.default_rng(5).permutation([0, 9, 8, *range(1, 10), *([2] * 9)])
PREFIXES = np.arange(NUM_TOKENS) < LENGTHS[:, None]  # (row, token)
PADDINGS = {
    "padding behind": PREFIXES,
    "padding in front": PREFIXES[:, ::-1],
    "padding anywhere": np.random.default_rng(6).random((NUM_ROWS, NUM_TOKENS)) < 0.6,
    "no padding": np.ones((NUM_ROWS, NUM_TOKENS), bool),
    "padding alone": np.zeros((NUM_ROWS, NUM_TOKENS), bool),
}
SHAPES = {
    "projection and clips": {"projection_dim": PROJECTION, "cell_clip": 0.5, "proj_clip": 0.2},
    "projection alone": {"projection_dim": PROJECTION},
    "no projection": {"cell_clip": 0.5, "proj_clip": 0.2},
}
shapes = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())


def layer_of(shape, **kwargs):
    layer = ProjectedLSTM(UNITS, **shape, **kwargs)
    layer.build((BATCH, TOKENS, FEATURES))
    rng = np.random.default_rng(0)
    for weight in layer.trainable_weights:
        weight.assign(rng.normal(0, 0.7, weight.shape))
    return layer


def random(*shape):
    return np.random.default_rng(7).normal(size=shape).astype(np.float32)


INPUTS = random(BATCH, TOKENS, FEATURES)


def random_state(width):
    return [0.3 * random(BATCH, size) for size in (width, UNITS)]


def expected(layer, tokens, state, mask=None):
    """Outputs, `h` and `c` of the formula, sentence by sentence."""
    cell = layer.cell
    matrix = np.concatenate([cell.kernel.numpy(), cell.recurrent_kernel.numpy()])
    rows = [
        reference.sequence(
            tokens[row].astype(np.float64),
            state[0][row],
            state[1][row],
            None if mask is None else mask[row],
            matrix=matrix,
            bias=cell.bias.numpy(),
            projection=cell.projection_kernel.numpy() if cell.has_projection else None,
            cell_clip=cell.cell_clip,
            proj_clip=cell.proj_clip,
        )
        for row in range(len(tokens))
    ]
    return [np.array(part) for part in zip(*rows, strict=True)]


@shapes
@pytest.mark.parametrize("mask", [None, MASK], ids=["no mask", "mask"])
@pytest.mark.parametrize("loop", ["small kernel", "large kernel", "training"])
def test_a_sequence_equals_the_formula(shape, mask, loop, monkeypatch):
    if loop == "large kernel":
        monkeypatch.setattr(recurrence_tf, "_SMALL_KERNEL", 0)
    layer = layer_of(shape, return_state=True)
    state = random_state(layer.cell.output_size)
    training = loop == "training"

    outputs = layer(INPUTS, initial_state=state, mask=mask, training=training)

    assert_close(outputs, expected(layer, INPUTS, state, mask), ATOL)


@pytest.mark.parametrize(
    ("shape", "mask", "backwards", "is_traced"),
    [
        *((name, None, False, False) for name in SHAPES),
        *((name, MASK, True, False) for name in SHAPES),
        *(("projection and clips", mask, False, False) for mask in PADDINGS.values()),
        ("projection and clips", PADDINGS["padding anywhere"], False, True),
    ],
)
def test_the_fast_loops_agree_with_keras_in_values_and_gradients(shape, mask, backwards, is_traced):
    kwargs = {"return_state": True, "go_backwards": backwards}
    fast = layer_of(SHAPES[shape], **kwargs)
    plain = keras.layers.RNN(fast.cell, return_sequences=True, zero_output_for_mask=True, **kwargs)
    rows, num_tokens = (BATCH, TOKENS) if mask is None else mask.shape
    sizes = (num_tokens, FEATURES), (fast.cell.output_size,), (UNITS,)
    tokens, *state = (tf.constant(random(rows, *size)) for size in sizes)

    results = []
    for layer, training in ((fast, True), (fast, False), (plain, True)):
        call = tf.function(layer) if is_traced else layer
        with tf.GradientTape() as tape:
            tape.watch([tokens, *state])
            outputs = call(tokens, initial_state=state, mask=mask, training=training)
            loss = sum(tf.reduce_sum(part * random(*part.shape)) for part in outputs)
        watched = [*(weight.value for weight in layer.trainable_weights), tokens, *state]
        gradients = tape.gradient(loss, watched, unconnected_gradients="zero")
        results.append([*outputs, *map(tf.convert_to_tensor, gradients)])

    assert_close(results[:2], [results[2]] * 2, ATOL, rtol=5e-7)


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("unroll", [False, True])
def test_unrolled_or_not_the_last_output_is_that_of_the_last_real_token(unroll, backwards):
    shape = {**SHAPES["projection and clips"], "go_backwards": backwards}
    whole = layer_of(shape, return_state=True)
    last = layer_of(shape, return_sequences=False, unroll=unroll)

    outputs, h, _ = whole(INPUTS, mask=MASK)

    unrolled = layer_of(shape, unroll=unroll)(INPUTS, mask=MASK)
    np.testing.assert_allclose(unrolled, outputs, atol=1e-6)
    np.testing.assert_allclose(last(INPUTS, mask=MASK), h, atol=1e-6)
    np.testing.assert_allclose(last(INPUTS), whole(INPUTS)[0][:, -1], atol=1e-6)


@shapes
@pytest.mark.parametrize("few_rows", [False, True])
def test_packed_sentences_equal_the_formula_sentence_by_sentence(shape, few_rows):
    layer = layer_of(shape)
    first_state = [value[:1] for value in random_state(layer.cell.output_size)]
    state = [tf.zeros((BATCH, value.shape[1])) for value in first_state]
    spans = [(0, 0, 3), (0, 3, 4), (0, 4, 7), (1, 0, 5)]  # row, first token, end
    starts = np.zeros((BATCH, TOKENS), bool)
    for row, start, _ in spans:
        starts[row, start] = True

    packed = []
    for window in (slice(0, 2), slice(2, TOKENS)):
        part, state = layer.read_packed(
            INPUTS[:, window], starts[:, window], first_state, state, few_rows
        )
        packed.append(part)

    packed = np.concatenate(packed, axis=1)
    for row, start, end in spans:
        desired = expected(layer, INPUTS[row : row + 1, start:end], first_state)[0]
        np.testing.assert_allclose(packed[row, start:end], desired[0], atol=2e-6)


def test_a_stateful_layer_continues_from_the_last_batch_until_reset():
    shape = SHAPES["projection and clips"]
    stateless, stateful = layer_of(shape), layer_of(shape, stateful=True)

    windows = [stateful(INPUTS[:, :3]), stateful(INPUTS[:, 3:])]
    stateful.reset_state()

    np.testing.assert_allclose(tf.concat(windows, axis=1), stateless(INPUTS), atol=1e-6)
    np.testing.assert_allclose(stateful(INPUTS), stateless(INPUTS), atol=1e-6)
    model = keras.Sequential([keras.Input(batch_shape=INPUTS.shape), stateful])
    model.compile("sgd", "mse")
    assert np.isfinite(model.train_on_batch(INPUTS, stateless(INPUTS)))


def test_keras_bidirectional_wraps_the_layer():
    forward, backward = (
        layer_of(SHAPES["projection alone"], go_backwards=backwards) for backwards in (False, True)
    )
    wrapper = keras.layers.Bidirectional(ProjectedLSTM(UNITS, PROJECTION))
    wrapper.build((BATCH, TOKENS, FEATURES))
    wrapper.set_weights(forward.get_weights() + backward.get_weights())

    expected = [forward(INPUTS, mask=MASK), backward(INPUTS, mask=MASK)[:, ::-1]]
    outputs = wrapper(INPUTS, mask=MASK)
    np.testing.assert_allclose(outputs, tf.concat(expected, axis=-1), atol=1e-6)


@pytest.mark.parametrize("name", ["padding behind", "padding in front"])
def test_most_padding_on_one_side_is_skipped(name):
    mask = PADDINGS[name].T[:, :, None]

    packed = ActiveRows(tf.constant(mask)).pack(tf.ones((NUM_TOKENS, NUM_ROWS, 1)))

    # Up to 7 more rows than necessary at each token.
    assert mask.sum() <= len(packed) <= mask.sum() + 7 * NUM_TOKENS
    assert len(packed) < 0.7 * mask.size
