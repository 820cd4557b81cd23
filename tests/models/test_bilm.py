import numpy as np
import pytest
import tensorflow as tf

from elmo_tf import BiLM, BiLMConfig, Vocabulary, load_bilm
from reference import bilm as reference
from reference import checkpoint

SENTENCES = ["the cat sat on my mat", "한국어 😀", "", "abcdefghijklmnopqrstuvwxyz a", "the the"]
TOKENS = [sentence.split() for sentence in SENTENCES]
SHAPES = {
    "as published": {},
    "tanh, no highway, one layer": {"activation": "tanh", "n_highway": 0, "n_layers": 1},
    "no projections": {"filters": ((1, 3), (3, 5)), "dim": 8, "projection_dim": 8},
    "three layers, no clips": {"n_layers": 3, "cell_clip": None, "proj_clip": None},
    "no skip connections": {"use_skip_connections": False},
}


@pytest.fixture(scope="module")
def expected(options, weights):
    """The layers of each sentence by the formulas, without boundaries."""
    return [reference.layers(tokens, options, weights)[0][:, 1:-1] for tokens in TOKENS]


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_layers_equal_the_formulas_with_and_without_boundaries(tmp_path, shape):
    options = checkpoint.options(**shape)
    weights = checkpoint.random_weights(options)
    checkpoint.write(tmp_path, options, weights)

    outputs = load_bilm(tmp_path)(SENTENCES)
    kept = load_bilm(tmp_path, keep_boundaries=True)(SENTENCES)

    lstm = options["lstm"]
    assert outputs["layers"].shape == (5, lstm["n_layers"] + 1, 6, 2 * lstm["projection_dim"])
    assert kept["layers"].shape[2] == 8
    for row, tokens in enumerate(TOKENS):
        layers, _ = reference.layers(tokens, options, weights)
        for found, expected in ((outputs, layers[:, 1:-1]), (kept, layers)):
            actual, length = found["layers"][row].numpy(), expected.shape[1]
            np.testing.assert_allclose(actual[:, :length], expected, atol=2e-6)
            assert not actual[:, length:].any()
            assert found["mask"][row].numpy().sum() == length


def test_token_embeddings_are_the_vectors_before_any_lstm(bilm, options, weights):
    vectors = bilm.token_embeddings([["the", "cat", ""], ["", "😀", "the"]])

    expected = [
        reference.token_vectors(row, options, weights)[1:-1]
        for row in (["the", "cat"], ["😀", "the"])
    ]
    np.testing.assert_allclose(vectors[0, :2], expected[0], atol=2e-6)
    np.testing.assert_allclose(vectors[1, 1:], expected[1], atol=2e-6)
    assert not vectors[0, 2].numpy().any()
    boundaries = reference.token_vectors([], options, weights)
    np.testing.assert_allclose(bilm.boundary_embeddings(), boundaries, atol=2e-6)


def test_token_embeddings_take_any_shape(bilm):
    for tokens, shape in (("a", (6,)), ([], (0, 6)), (["a"], (1, 6)), ([[["a"]]], (1, 1, 1, 6))):
        assert bilm.token_embeddings(tokens).shape == shape
    assert bilm.token_embeddings([["a"], ["b", "c"]]).row_lengths().numpy().tolist() == [1, 2]


@pytest.mark.parametrize("padding", [0, 17])
@pytest.mark.parametrize("order", [[4, 3, 2, 1, 0], [1, 1, 1], [0], [2]])
def test_other_sentences_and_padding_do_not_change_the_layers(bilm, expected, order, padding):
    padded = [[*tokens, *[""] * (padding - len(tokens))] for tokens in TOKENS]
    layers = bilm([padded[i] for i in order])["layers"]

    for row, i in enumerate(order):
        np.testing.assert_allclose(layers[row, :, : len(TOKENS[i])], expected[i], atol=1e-5)


@pytest.mark.parametrize("kwargs", [{"keep_boundaries": True}, {"stateful": True}])
def test_a_forward_only_bilm_equals_the_forward_half_and_both_load_unchanged(
    forward_directory, fresh_bilm, keras_round_trip, kwargs
):
    forward, both = load_bilm(forward_directory, **kwargs), fresh_bilm(**kwargs)

    for _ in range(2):
        outputs, expected = forward(SENTENCES), both(SENTENCES)
        assert outputs["layers"].shape[-1] == forward.config.output_dim == 6
        np.testing.assert_allclose(outputs["layers"], expected["layers"][..., :6], atol=1e-6)
        np.testing.assert_array_equal(outputs["mask"], expected["mask"])
    assert not any("backward" in weight.path for weight in forward.weights)
    for bilm in (forward, both):
        bilm.warm_start(["some text"])
        bilm.reset_states()
        loaded = keras_round_trip(bilm)
        np.testing.assert_array_equal(loaded(SENTENCES)["layers"], bilm(SENTENCES)["layers"])
        assert loaded.config == bilm.config
        assert (loaded.stateful, loaded.keep_boundaries) == (bilm.stateful, bilm.keep_boundaries)


def test_a_wrong_config_or_vocabulary_is_refused():
    tiny, vocabulary = BiLMConfig.preset("tiny"), Vocabulary.build(["a"])
    with pytest.raises(TypeError, match=r"`config` must be a BiLMConfig.*Received: 'small'"):
        BiLM("small")
    with pytest.raises(ValueError, match=r"`vocabulary` is only for a biLM without a char"):
        BiLM(tiny, vocabulary=vocabulary)
    with pytest.raises(ValueError, match=r"must have 7 tokens.*Received: 4 tokens"):
        BiLM(BiLMConfig(None, tiny.lstm, num_tokens=7), vocabulary=vocabulary)


@pytest.mark.parametrize("stateful", [False, True])
def test_mixed_precision_is_close_to_float32(fresh_bilm, stateful):
    expected = fresh_bilm(stateful=stateful)
    bilm = BiLM(expected.config, stateful=stateful, dtype="mixed_bfloat16")
    bilm.set_weights(expected.get_weights())

    # The vectors are below 2; the errors of bfloat16 (eight bits, 0.4 %) add up over a few steps.
    for training in (False, True, False):
        layers = bilm(SENTENCES, training=training)["layers"]
        assert layers.dtype == bilm.compute_dtype
        np.testing.assert_allclose(
            tf.cast(layers, tf.float32), expected(SENTENCES)["layers"], atol=0.03
        )
    bilm.reset_states()
    bilm.warm_start(["some text"])
    assert bilm.initial_state.dtype == "float32"
    assert bilm.initial_state.numpy().any()
    vectors = tf.cast(bilm.token_embeddings(TOKENS[0]), tf.float32)
    np.testing.assert_allclose(vectors, expected.token_embeddings(TOKENS[0]), atol=0.03)
