"""The stateful mode of a biLM, its states, and the initial state that `warm_start` sets."""

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf import load_bilm
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


@pytest.mark.parametrize("is_traced", [False, True])
def test_each_row_continues_from_its_last_state_and_new_rows_from_zeros(
    fresh_bilm, options, weights, is_traced
):
    call = bilm = fresh_bilm(stateful=True)
    if is_traced:
        call = tf.function(bilm, input_signature=[tf.TensorSpec((None, None), tf.string)])
    states = [None, None, None]

    for batch in (BATCHES[0][:2], BATCHES[1][:1], BATCHES[2]):
        layers = call(tf.ragged.constant(batch).to_tensor(""))["layers"].numpy()
        for row, tokens in enumerate(batch):
            expected, states[row] = reference.layers(tokens, options, weights, states[row])
            check(layers, row, tokens, expected)


def test_warm_start_sets_the_initial_state_of_later_sentences(fresh_bilm, options, weights):
    bilm = fresh_bilm()
    state = None
    for tokens in (["some", "text"], ["and", "more", "of", "it"]):
        _, state = reference.layers(tokens, options, weights, state)

    bilm.warm_start(["what a later call forgets"])
    with pytest.raises(TypeError, match="several sentences, not one string"):
        bilm.warm_start("some text")
    bilm.warm_start(["some text", ["and", "more", "of", "it"]])

    for _ in range(2):
        layers = bilm(BATCHES[0])["layers"].numpy()
        for row, tokens in enumerate(BATCHES[0]):
            check(layers, row, tokens, reference.layers(tokens, options, weights, state)[0])


def test_reset_and_forward_only_bilms_start_from_the_warm_start_state(
    fresh_bilm, forward_directory
):
    stateless, stateful = fresh_bilm(), fresh_bilm(stateful=True)
    forward = load_bilm(forward_directory)
    for bilm in (stateless, stateful, forward):
        bilm.warm_start(["some text", "and more"])
    expected = stateless(BATCHES[0])["layers"]
    stateful(BATCHES[1])

    stateful.reset_states()

    np.testing.assert_allclose(stateful(BATCHES[0])["layers"], expected, atol=1e-6)
    assert forward.initial_state.shape == (1, 2, 16)
    np.testing.assert_allclose(forward.initial_state, stateless.initial_state[:1], atol=1e-6)
    np.testing.assert_allclose(forward(BATCHES[0])["layers"], expected[..., :6], atol=1e-6)


def test_an_invalid_warm_start_raises_an_error_and_changes_no_state(fresh_bilm):
    bilm = fresh_bilm()
    bilm.warm_start(["some text"])
    before = bilm.initial_state.numpy()

    with pytest.raises(ValueError, match=r"`sentences` is empty: pass at least one sentence"):
        bilm.warm_start([])
    with pytest.raises(TypeError, match=r"Token 1 of sentence 0 is 7"):
        bilm.warm_start(["some", ["text", 7]])

    np.testing.assert_array_equal(bilm.initial_state, before)
