import keras
import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.layers import ProjectedLSTM, ProjectedLSTMCell, recurrence_tf
from reference import lstm as reference

BATCH, TOKENS, FEATURES, UNITS, PROJECTION = 3, 7, 4, 6, 5
MASK = np.array([[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 0, 1, 0]], bool)
SHAPES = {
    "projection and clips": {"projection_dim": PROJECTION, "cell_clip": 0.5, "proj_clip": 0.2},
    "projection alone": {"projection_dim": PROJECTION},
    "no projection": {"cell_clip": 0.5, "proj_clip": 0.2},
}
shapes = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
masks = pytest.mark.parametrize("mask", [None, MASK], ids=["no mask", "mask"])


def layer_of(shape, **kwargs):
    layer = ProjectedLSTM(UNITS, **shape, **kwargs)
    layer.build((BATCH, TOKENS, FEATURES))
    rng = np.random.default_rng(0)
    layer.set_weights(
        [rng.normal(0, 0.7, w.shape) for w in layer.trainable_weights]
        + [w.numpy() for w in layer.non_trainable_weights]
    )
    return layer


def random_tokens(seed=1):
    return np.random.default_rng(seed).normal(size=(BATCH, TOKENS, FEATURES)).astype(np.float32)


def random_state(width):
    rng = np.random.default_rng(2)
    return [rng.normal(0, 0.3, (BATCH, n)).astype(np.float32) for n in (width, UNITS)]


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


def close(actual, desired):
    for left, right in zip(actual, desired, strict=True):
        np.testing.assert_allclose(left, right, atol=2e-6)


@shapes
def test_one_step_of_the_cell_equals_the_formula(shape):
    layer = layer_of(shape, return_state=True)
    tokens, state = random_tokens()[:, :1], random_state(layer.cell.output_size)

    output, states = layer.cell(tokens[:, 0], state)

    sequence, h, c = expected(layer, tokens, state)
    close([output, *states], [sequence[:, 0], h, c])


@pytest.mark.parametrize("training", [False, True])
def test_the_forget_gate_has_a_bias_of_1_that_is_no_weight(training):
    layer = ProjectedLSTM(3, return_state=True)
    layer.build((None, None, 2))
    for weight in layer.weights:
        weight.assign(tf.zeros_like(weight))
    h, c = np.zeros((1, 3), np.float32), np.ones((1, 3), np.float32)

    _, (_, of_cell) = layer.cell(np.zeros((1, 2), np.float32), [h, c])
    _, _, of_loop = layer(np.zeros((1, 1, 2)), initial_state=[h, c], training=training)

    for found in (of_cell, of_loop):
        np.testing.assert_allclose(found, np.full((1, 3), 1 / (1 + np.exp(-1))), rtol=1e-6)


@shapes
@masks
@pytest.mark.parametrize("training", [False, True])
def test_a_sequence_equals_the_formula(shape, mask, training):
    layer = layer_of(shape, return_state=True)
    state = random_state(layer.cell.output_size)

    outputs = layer(random_tokens(), initial_state=state, mask=mask, training=training)

    close(outputs, expected(layer, random_tokens(), state, mask))


@shapes
@masks
def test_matrices_of_any_size_give_the_same(shape, mask, monkeypatch):
    layer = layer_of(shape)
    small = layer(random_tokens(), mask=mask)
    monkeypatch.setattr(recurrence_tf, "_SMALL_KERNEL", 0)

    np.testing.assert_allclose(layer(random_tokens(), mask=mask), small, atol=1e-6)


def test_the_clips_cut():
    layer = layer_of(SHAPES["projection and clips"], return_state=True)
    outputs, _, c = layer(random_tokens())

    assert np.abs(outputs).max() == pytest.approx(0.2)
    assert np.abs(c).max() == pytest.approx(0.5)


@shapes
@masks
@pytest.mark.parametrize("backwards", [False, True])
def test_the_fast_loops_agree_with_keras_in_values_and_gradients(shape, mask, backwards):
    kwargs = {"return_state": True, "go_backwards": backwards}
    fast = layer_of(shape, **kwargs)
    if backwards and mask is not None:  # unrolled, Keras zeroes the outputs of the wrong tokens
        plain = keras.layers.RNN(
            fast.cell, return_sequences=True, zero_output_for_mask=True, **kwargs
        )
    else:
        plain = layer_of(shape, unroll=True, **kwargs)
    tokens = tf.constant(random_tokens())
    state = [tf.constant(part) for part in random_state(fast.cell.output_size)]

    results = []
    for layer, training in ((fast, True), (fast, False), (plain, True)):
        with tf.GradientTape() as tape:
            tape.watch([tokens, *state])
            outputs = layer(tokens, initial_state=state, mask=mask, training=training)
            rng = np.random.default_rng(3)
            loss = sum(tf.reduce_sum(part * rng.normal(size=part.shape)) for part in outputs)
        weights = [weight.value for weight in layer.trainable_weights]
        gradients = tape.gradient(loss, [*weights, tokens, *state])
        results.append([*outputs, *map(tf.convert_to_tensor, gradients)])

    close(results[0], results[2])
    close(results[1], results[2])


@pytest.mark.parametrize("unroll", [False, True])
def test_the_last_output_is_that_of_the_last_real_token(unroll):
    shape = SHAPES["projection and clips"]
    whole = layer_of(shape, return_state=True)
    last = layer_of(shape, return_sequences=False, unroll=unroll)

    _, h, _ = whole(random_tokens(), mask=MASK)

    np.testing.assert_allclose(last(random_tokens(), mask=MASK), h, atol=1e-6)
    np.testing.assert_allclose(last(random_tokens()), whole(random_tokens())[0][:, -1], atol=1e-6)


def test_unrolling_changes_nothing_backwards_either():
    kwargs = {**SHAPES["projection and clips"], "go_backwards": True}

    unrolled = layer_of(kwargs, unroll=True)(random_tokens(), mask=MASK)

    np.testing.assert_allclose(unrolled, layer_of(kwargs)(random_tokens(), mask=MASK), atol=1e-6)


@pytest.mark.parametrize("training", [False, True])
def test_backwards_is_forwards_on_the_reversed_sentence(training):
    forward = layer_of(SHAPES["projection alone"])
    backward = layer_of(SHAPES["projection alone"], go_backwards=True)

    actual = backward(random_tokens(), mask=MASK, training=training)

    desired = forward(random_tokens()[:, ::-1], mask=MASK[:, ::-1], training=training)
    np.testing.assert_allclose(actual, desired, atol=1e-6)


def test_two_windows_with_carried_state_equal_one_long_window():
    layer = layer_of(SHAPES["projection and clips"], return_state=True)
    tokens = random_tokens()

    whole, *last = layer(tokens)
    first, *state = layer(tokens[:, :3])
    second, *end = layer(tokens[:, 3:], initial_state=state)

    close([tf.concat([first, second], axis=1), *end], [whole, *last])


@shapes
@pytest.mark.parametrize("is_large", [False, True])
def test_packed_sentences_equal_the_formula_sentence_by_sentence(shape, is_large, monkeypatch):
    if is_large:
        monkeypatch.setattr(recurrence_tf, "_SMALL_KERNEL", 0)
    layer, tokens = layer_of(shape), random_tokens()
    state = [value[:1] for value in random_state(layer.cell.output_size)]
    spans = [(0, 0, 3), (0, 3, 4), (0, 4, 7), (1, 0, 5)]  # row, first token, end
    starts = np.zeros((BATCH, TOKENS), bool)
    for row, start, _ in spans:
        starts[row, start] = True

    packed = layer.read_packed(tokens, starts, state).numpy()

    for row, start, end in spans:
        desired = expected(layer, tokens[row : row + 1, start:end], state)[0]
        np.testing.assert_allclose(packed[row, start:end], desired[0], atol=2e-6)


def test_stateful_goes_on_from_the_last_batch_until_reset():
    shape = SHAPES["projection and clips"]
    stateless, stateful = layer_of(shape), layer_of(shape, stateful=True)
    tokens = random_tokens()

    windows = [stateful(tokens[:, :3]), stateful(tokens[:, 3:])]
    stateful.reset_state()

    np.testing.assert_allclose(tf.concat(windows, axis=1), stateless(tokens), atol=1e-6)
    np.testing.assert_allclose(stateful(tokens), stateless(tokens), atol=1e-6)


def test_padding_changes_no_real_token():
    layer = layer_of(SHAPES["projection and clips"])
    tokens, mask = random_tokens(), MASK[1:2]

    alone = layer(tokens[1:2, :3])
    padded = layer(tokens[1:2], mask=mask)

    np.testing.assert_allclose(padded[:, :3], alone, atol=1e-6)
    assert not np.asarray(padded[:, 3:]).any()


def test_bidirectional_wraps_it():
    forward = layer_of(SHAPES["projection alone"])
    backward = layer_of(SHAPES["projection alone"], go_backwards=True)
    wrapper = keras.layers.Bidirectional(
        ProjectedLSTM(UNITS, PROJECTION),
        backward_layer=ProjectedLSTM(UNITS, PROJECTION, go_backwards=True),
    )
    wrapper.build((BATCH, TOKENS, FEATURES))
    wrapper.set_weights(forward.get_weights() + backward.get_weights())

    outputs = wrapper(random_tokens(), mask=MASK)

    expected = tf.concat(
        [
            forward(random_tokens(), mask=MASK),
            backward(random_tokens(), mask=MASK)[:, ::-1],
        ],
        axis=-1,
    )
    np.testing.assert_allclose(outputs, expected, atol=1e-6)


def test_a_graph_with_unknown_sizes_gives_the_same():
    layer = layer_of(SHAPES["projection and clips"], return_state=True)
    spec = [tf.TensorSpec((None, None, FEATURES)), tf.TensorSpec((None, None), tf.bool)]

    for training in (False, True):
        in_graph = tf.function(
            lambda tokens, mask, training=training: layer(tokens, mask=mask, training=training),
            input_signature=spec,
        )
        close(in_graph(random_tokens(), MASK), layer(random_tokens(), mask=MASK))


@pytest.mark.parametrize("training", [False, True])
def test_no_token_leaves_the_state_as_it_was(training):
    layer = layer_of(SHAPES["projection and clips"], return_state=True)
    state = random_state(PROJECTION)
    gates = tf.zeros((BATCH, 0, FEATURES))
    call = tf.function(
        lambda tokens: layer.inner_loop(tokens, state, None, training=training),
        input_signature=[tf.TensorSpec((BATCH, None, FEATURES))],
    )

    _, outputs, states = call(gates)

    assert outputs.shape == (BATCH, 0, PROJECTION)
    close(states, state)


def test_starts_as_the_original_does():
    cell = ProjectedLSTMCell(200, 50)
    cell.build((None, 50))

    limit = (6 / (50 + 50 + 800)) ** 0.5
    for kernel in (cell.kernel, cell.recurrent_kernel):
        assert 0.99 * limit < np.abs(kernel.numpy()).max() <= limit
    limit = (6 / 250) ** 0.5
    assert 0.99 * limit < np.abs(cell.projection_kernel.numpy()).max() <= limit
    assert not cell.bias.numpy().any()


@shapes
def test_a_saved_model_loads_and_gives_the_same(shape, keras_round_trip):
    inputs = keras.Input((None, FEATURES))
    masked = keras.layers.Masking()(inputs)
    model = keras.Model(inputs, layer_of(shape, go_backwards=True)(masked))
    tokens = random_tokens() * MASK[:, :, None]

    loaded = keras_round_trip(model)

    np.testing.assert_array_equal(loaded(tokens), model(tokens))
    config = layer_of(shape, go_backwards=True).get_config()
    assert ProjectedLSTM.from_config(config).get_config() == config
    cell = layer_of(shape).cell.get_config()
    assert ProjectedLSTMCell.from_config(cell).get_config() == cell


def test_keras_own_loop_runs_the_cell():
    shape = SHAPES["projection and clips"]
    layer = layer_of(shape)
    plain = keras.layers.RNN(
        ProjectedLSTMCell(UNITS, **shape), return_sequences=True, zero_output_for_mask=True
    )
    plain.build((BATCH, TOKENS, FEATURES))
    plain.set_weights(layer.get_weights())

    np.testing.assert_allclose(
        plain(random_tokens(), mask=MASK), layer(random_tokens(), mask=MASK), atol=1e-6
    )


@masks
@pytest.mark.parametrize("backwards", [False, True])
def test_other_backends_run_keras_own_loop_and_agree(monkeypatch, mask, backwards):
    layer = layer_of(SHAPES["projection and clips"], go_backwards=backwards, return_sequences=True)
    fast = layer(random_tokens(), mask=mask)

    monkeypatch.setattr(keras.config, "backend", lambda: "another")

    np.testing.assert_allclose(layer(random_tokens(), mask=mask), fast, atol=1e-6)


def test_masked_outputs_may_repeat_the_last_one_as_in_keras():
    shape = SHAPES["projection and clips"]
    layer = layer_of(shape, zero_output_for_mask=False)

    outputs = layer(random_tokens(), mask=MASK)[1]

    real = layer_of(shape)(random_tokens(), mask=MASK)[1]
    np.testing.assert_allclose(outputs[:3], real[:3], atol=1e-6)
    np.testing.assert_allclose(outputs[3:], np.repeat(real[2:3], 4, axis=0), atol=1e-6)


def test_the_mask_passes_only_beside_all_outputs():
    masked = keras.layers.Masking()(random_tokens() * MASK[:, :, None])
    whole, last = layer_of({}), layer_of({}, return_sequences=False)

    np.testing.assert_array_equal(keras.src.backend.get_keras_mask(whole(masked)), MASK)
    assert keras.src.backend.get_keras_mask(last(masked)) is None


def test_bfloat16_stays_near_float32():
    shape = SHAPES["projection and clips"]
    exact = layer_of(shape)
    rough = layer_of(shape, dtype="mixed_bfloat16")

    outputs = rough(random_tokens(), training=True)

    assert outputs.dtype == tf.bfloat16
    np.testing.assert_allclose(tf.cast(outputs, tf.float32), exact(random_tokens()), atol=0.03)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"units": 0}, r"`lstm.dim` must be an integer of at least 1. Received: 0"),
        ({"units": 4, "projection_dim": 5}, r"must be at most `lstm.dim` \(4\). Received: 5"),
        ({"units": 4, "projection_dim": 0}, r"`lstm.projection_dim` must be an integer"),
        ({"units": 4, "cell_clip": -1.0}, r"`lstm.cell_clip` must be a positive, finite number"),
        ({"units": 4, "proj_clip": 0.0}, r"`lstm.proj_clip` must be a positive, finite number"),
    ],
)
@pytest.mark.parametrize("kind", [ProjectedLSTM, ProjectedLSTMCell])
def test_arguments_out_of_range_are_refused(kind, arguments, message):
    with pytest.raises(ValueError, match=message):
        kind(**arguments)
