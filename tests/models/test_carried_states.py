"""The stateful mode of a biLM, its states, and the fixed state that `warm_start` leaves."""

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf import BiLM, load_bilm
from elmo_tf.models.carried_states import CarriedStates
from reference import bilm as reference

BATCHES = [
    [["the", "cat", "sat"], ["a"], ["b", "c"]],
    [["on"], ["my", "mat", "again", "and"], []],
    [["x", "y"], ["z"], ["x"]],
]


def check(layers, row, tokens, expected):
    np.testing.assert_allclose(
        layers[row, :, : len(tokens)], expected[:, 1:-1], atol=5e-6, err_msg=f"row {row}"
    )


def test_every_row_goes_on_from_the_state_that_it_left(fresh_bilm, options, weights):
    bilm = fresh_bilm(stateful=True)
    states = [None, None, None]

    for batch in BATCHES:
        layers = bilm(batch)["layers"].numpy()
        for row, tokens in enumerate(batch):
            expected, states[row] = reference.layers(tokens, options, weights, states[row])
            check(layers, row, tokens, expected)


def test_rows_beyond_a_smaller_batch_keep_their_state_and_new_rows_start_afresh(
    fresh_bilm, options, weights
):
    bilm = fresh_bilm(stateful=True)
    states = [None, None, None]

    for batch in (BATCHES[0][:2], BATCHES[1][:1], BATCHES[2]):
        layers = bilm(batch)["layers"].numpy()
        for row, tokens in enumerate(batch):
            expected, states[row] = reference.layers(tokens, options, weights, states[row])
            check(layers, row, tokens, expected)


def test_reset_states_forgets(fresh_bilm):
    bilm = fresh_bilm(stateful=True)
    first = bilm(BATCHES[0])["layers"]
    carried = bilm(BATCHES[0])["layers"]

    bilm.reset_states()

    np.testing.assert_array_equal(bilm(BATCHES[0])["layers"], first)
    assert np.abs(carried - first).max() > 1e-3


def test_reset_states_of_a_stateless_bilm_does_nothing(bilm):
    before = bilm(BATCHES[0])["layers"]

    bilm.reset_states()

    np.testing.assert_array_equal(bilm(BATCHES[0])["layers"], before)


def test_the_first_batch_is_the_stateless_answer(fresh_bilm, bilm):
    np.testing.assert_allclose(
        fresh_bilm(stateful=True)(BATCHES[0])["layers"], bilm(BATCHES[0])["layers"], atol=1e-6
    )


def test_state_is_carried_in_a_graph_too(fresh_bilm):
    eager, in_graph = fresh_bilm(stateful=True), fresh_bilm(stateful=True)
    call = tf.function(in_graph, input_signature=[tf.TensorSpec((None, None), tf.string)])

    for batch in BATCHES:
        tokens = tf.ragged.constant(batch, dtype=tf.string).to_tensor("")
        np.testing.assert_allclose(call(tokens)["layers"], eager(tokens)["layers"], atol=1e-6)


def test_warm_start_is_the_state_that_every_later_sentence_begins_with(
    fresh_bilm, options, weights
):
    bilm = fresh_bilm()
    state = None
    for tokens in (["some", "text"], ["and", "more", "of", "it"]):
        _, state = reference.layers(tokens, options, weights, state)

    bilm.warm_start(["some text", ["and", "more", "of", "it"]])

    for _ in range(2):
        layers = bilm(BATCHES[0])["layers"].numpy()
        for row, tokens in enumerate(BATCHES[0]):
            check(layers, row, tokens, reference.layers(tokens, options, weights, state)[0])


def test_warm_start_begins_from_zeros_each_time(fresh_bilm):
    bilm = fresh_bilm()
    bilm.warm_start(["some text"])
    once = bilm.initial_state.numpy()

    bilm.warm_start(["some text"])

    np.testing.assert_array_equal(bilm.initial_state, once)
    assert once.any()


def test_reset_states_goes_back_to_the_warm_start(fresh_bilm):
    stateless, stateful = fresh_bilm(), fresh_bilm(stateful=True)
    for bilm in (stateless, stateful):
        bilm.warm_start(["some text"])
    stateful(BATCHES[1])

    stateful.reset_states()

    np.testing.assert_allclose(
        stateful(BATCHES[0])["layers"], stateless(BATCHES[0])["layers"], atol=1e-6
    )


def test_forward_alone_starts_from_the_forward_state(forward_directory, fresh_bilm):
    forward, both = load_bilm(forward_directory), fresh_bilm()
    for bilm in (forward, both):
        bilm.warm_start(["some text", "and more"])

    assert forward.initial_state.shape == (1, 2, 16)
    np.testing.assert_allclose(forward.initial_state, both.initial_state[:1], atol=1e-6)
    np.testing.assert_allclose(
        forward(BATCHES[0])["layers"], both(BATCHES[0])["layers"][..., :6], atol=1e-6
    )


def test_warm_start_from_nothing_is_an_error_and_changes_nothing(fresh_bilm):
    bilm = fresh_bilm()
    bilm.warm_start(["some text"])
    before = bilm.initial_state.numpy()

    with pytest.raises(ValueError, match=r"`sentences` is empty: pass at least one sentence"):
        bilm.warm_start([])
    with pytest.raises(TypeError, match=r"of the batch is not a str: 7"):
        bilm.warm_start(["some", ["text", 7]])

    np.testing.assert_array_equal(bilm.initial_state, before)


@pytest.mark.parametrize("directions", [1, 2])
def test_states_are_read_as_they_were_written(directions):
    states = CarriedStates(num_layers=1, sizes=(2, 3), num_directions=directions)
    written = [[[np.full((4, n), d + n, np.float32) for n in (2, 3)]] for d in range(directions)]
    zeros = [[[np.zeros((5, n), np.float32) for n in (2, 3)]] for _ in range(directions)]

    states.write(written)
    read = states.read(zeros)

    for direction in range(directions):
        for part, size in enumerate((2, 3)):
            actual = read[direction][0][part]
            np.testing.assert_array_equal(actual[:4], written[direction][0][part])
            np.testing.assert_array_equal(actual[4:], np.zeros((1, size)))


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision_carries_states_too(fresh_bilm, dtype):
    expected = fresh_bilm(stateful=True)
    bilm = BiLM(expected.config, stateful=True, dtype=dtype)
    bilm.set_weights(expected.get_weights())

    for batch in BATCHES:
        layers = bilm(batch)["layers"]
        assert layers.dtype == bilm.compute_dtype
        # Vectors below 2 with eight bits in a bfloat16, and what three batches add up.
        np.testing.assert_allclose(
            tf.cast(layers, tf.float32), expected(batch)["layers"], atol=0.03
        )
    bilm.reset_states()
    bilm.warm_start(["some text"])
    assert bilm.initial_state.dtype == "float32"
    assert bilm.initial_state.numpy().any()
