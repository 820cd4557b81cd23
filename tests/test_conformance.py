"""What all layers have in common: initial weights, saving, and dtype policies."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from elmo_tf import char_ids
from elmo_tf.config import CharCNNConfig
from elmo_tf.layers import (
    CharCNN,
    HighwayStack,
    MeanOverTokens,
    ProjectedLSTM,
    ProjectedLSTMCell,
    SampledSoftmax,
    ScalarMix,
)
from elmo_tf.layers.cell_rnn import CellRNN
from elmo_tf.models.token_encoder import TokenEmbedding, TokenEncoder
from elmo_tf.tasks import CharacterEmbedding, WordEmbedding
from elmo_tf.tasks.tagging.crf import CRF

TOKENS = tf.constant([["Die", "Katze", "die"], ["Ärger", "", ""]])
MASK = np.array([[True, True, True], [True, False, False]])
CHAR_IDS = char_ids(TOKENS, 14)
FLOATS = np.random.default_rng(1).normal(2, 3, (2, 3, 5, 4)).astype(np.float32)
CNN = {"filters": [[1, 2], [2, 4], [3, 7]], "embedding_dim": 5, "activation": "tanh"}
# First, following and last tags.
CONSTRAINTS = [[True, False, True], [[True] * 3, [False, False, True], [True] * 3], [True] * 3]
WORDS = {"words": ["katze", "die"], "dim": 3, "lowercase": True}
LSTM = {"units": 6, "projection_dim": 5, "cell_clip": 0.5, "proj_clip": 0.2}
VECTORS = FLOATS[:, :, 0] * MASK[..., None]  # (batch, token, feature)

LAYERS = {
    "CharCNN": (CharCNN, CNN, CHAR_IDS),
    "HighwayStack": (HighwayStack, {"num_layers": 3}, VECTORS),
    "ScalarMix": (ScalarMix, {"l2": 0.3, "layer_norm": False, "average": False}, FLOATS),
    "ScalarMix, layer_norm": (ScalarMix, {"l2": 0.3, "layer_norm": True}, FLOATS),
    "MeanOverTokens": (MeanOverTokens, {}, VECTORS),
    "ProjectedLSTM": (ProjectedLSTM, LSTM, VECTORS),
    "ProjectedLSTM, backwards": (ProjectedLSTM, {**LSTM, "go_backwards": True}, VECTORS),
    "no clips": (ProjectedLSTM, {"units": 6, "projection_dim": None, "cell_clip": None}, VECTORS),
    "CellRNN": (CellRNN, {"units": 3, "cell": "gru", "go_backwards": True}, VECTORS),
    "CRF": (CRF, {"num_tags": 3, "constraints": CONSTRAINTS}, VECTORS[..., :3]),
    "WordEmbedding": (WordEmbedding, WORDS, TOKENS),
    "CharacterEmbedding": (CharacterEmbedding, {**CNN, "max_chars": 9}, TOKENS),
}


REFUSED = [
    (HighwayStack, {"num_layers": -1}, "`num_layers` must be at least 0. Received: -1"),
    (ScalarMix, {"l2": -0.1}, "`l2` must be at least 0. Received: -0.1"),
    (SampledSoftmax, {"vocabulary_size": 5, "num_sampled": 0}, "`num_sampled` must be at least 1"),
    (ProjectedLSTM, {"units": 4, "projection_dim": 5}, r"between 1 and `units` \(4\). Received: 5"),
    (ProjectedLSTMCell, {"units": 4, "cell_clip": 0}, r"`cell_clip` must be above 0 or None"),
    (CharCNN, {"filters": [[0, 2]]}, r"pairs \(width, count\) of positive integers"),
    (CharCNN, {"activation": "selu"}, "`activation` must be relu or tanh. Received: 'selu'"),
    (TokenEncoder, {"config": CharCNNConfig(), "projection_dim": 0}, "Received: units=0"),
    (CellRNN, {"units": 3, "cell": "lstm"}, "`cell` must be one of gru"),
]


@pytest.mark.parametrize(("layer_class", "settings", "message"), REFUSED)
def test_settings_out_of_range_are_refused(layer_class, settings, message):
    with pytest.raises(ValueError, match=message):
        layer_class(**settings)


def uniform(limit):
    return lambda array: 0.99 * limit < np.abs(array).max() <= limit


def normal(stddev):
    return lambda array: np.std(array) == pytest.approx(stddev, rel=0.02)


def constant(value):
    return lambda array: (array == value).all()


OF_GATES, OF_PROJECTION = uniform((6 / (50 + 50 + 800)) ** 0.5), uniform((6 / 250) ** 0.5)
PROJECTED = CharCNNConfig([(1, 400)], 5, num_highway=0)
# Layers with the shape of their input and the distributions of their weights.
INITIAL = [
    (CharCNN([(3, 900)], 16), (None, 8), [uniform(1), uniform(0.05), constant(0)]),
    (CharCNN([(3, 900)], 16, "tanh"), (None, 8), [uniform(1), normal(48**-0.5), constant(0)]),
    (HighwayStack(2), (None, 400), [normal(0.05), constant(-2), normal(0.05), constant(0)] * 2),
    (ProjectedLSTMCell(200, 50), (None, 50), [OF_GATES, OF_GATES, constant(0), OF_PROJECTION]),
    (SampledSoftmax(2000), (None, 25), [normal(0.2), constant(0)]),
    (TokenEmbedding(5000, 25), (None,), [normal(0.2)]),  # its rows have length one
    (
        TokenEncoder(PROJECTED, 300),
        (None, 9),
        [uniform(1), uniform(0.05), constant(0), normal(0.05), constant(0)],
    ),
]


@pytest.mark.parametrize(("layer", "shape", "distributions"), INITIAL)
def test_initial_weights_are_distributed_as_in_the_original(layer, shape, distributions):
    layer.build(shape)

    arrays = [weight.numpy() for weight in layer.trainable_weights]
    for array, is_drawn_from in zip(arrays, distributions, strict=True):
        assert is_drawn_from(array)
    kernels = [array.tobytes() for array in arrays if array.ndim > 1]
    assert len(set(kernels)) == len(kernels)


def model_of(name, **kwargs):
    """A model of one layer with random weights, and its input."""
    layer_class, settings, values = LAYERS[name]
    dtype = getattr(values.dtype, "name", values.dtype)
    shape = values.shape[1:] if len(values.shape) == 4 else (None, *values.shape[2:])
    inputs, layer = keras.Input(shape, dtype=dtype), layer_class(**settings, **kwargs)
    # In the dtype of the layer: Keras before 3.14 loses the mask of a tensor that it casts.
    masked = keras.layers.Masking(**kwargs)(inputs) if values is VECTORS else inputs
    model = keras.Model(inputs, layer(masked))
    rng = np.random.default_rng(0)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(size=weight.shape))
    return model, values


def flat(outputs):
    return [tf.cast(tensor, "float32").numpy() for tensor in tf.nest.flatten(outputs)]


@pytest.mark.parametrize("name", LAYERS)
def test_a_saved_layer_loads_and_gives_the_same(name, keras_round_trip):
    model, values = model_of(name)
    layer, settings = model.layers[-1], LAYERS[name][1]

    loaded = keras_round_trip(model)

    outputs = model(values)
    for old, new in zip(flat(outputs), flat(loaded(values)), strict=True):
        np.testing.assert_array_equal(new, old)
    config = layer.get_config()
    assert loaded.layers[-1].get_config() == config
    assert {key: config[key] for key in settings} == settings
    shapes = tf.nest.flatten(model.output)
    for symbolic, real in zip(shapes, tf.nest.flatten(outputs), strict=True):
        known = zip(symbolic.shape, real.shape, strict=True)
        assert all(size in (None, length) for size, length in known)


@pytest.mark.parametrize("name", [name for name in LAYERS if name != "CRF"])
def test_a_layer_in_mixed_precision_is_close_and_keeps_float32_weights(name):
    model, values = model_of(name)
    mixed, _ = model_of(name, dtype="mixed_bfloat16")
    mixed.set_weights(model.get_weights())
    assert {weight.dtype for weight in mixed.trainable_weights} <= {"float32"}
    assert {tensor.dtype for tensor in tf.nest.flatten(mixed(values))} == {tf.bfloat16}
    for old, new in zip(flat(model(values)), flat(mixed(values)), strict=True):
        np.testing.assert_allclose(new, old, atol=0.03 * max(1, np.abs(old).max()))


def test_a_saved_softmax_loads_and_gives_the_same(keras_round_trip):
    inputs, targets = keras.Input((4,)), keras.Input((), dtype="int32")
    first = SampledSoftmax(7, num_sampled=7, seed=7, name="softmax")
    model = keras.Model([inputs, targets], first(inputs, targets))
    batch = [VECTORS[:, 0], np.array([5, 2])]

    loaded = keras_round_trip(model)

    np.testing.assert_array_equal(loaded(batch), model(batch))
    again = loaded.get_layer("softmax")
    assert (again.vocabulary_size, again.num_sampled, again.seed) == (7, 7, 7)
    assert SampledSoftmax(9).num_sampled == 8192  # as published
