"""A model of a single layer, saved as `.keras` and loaded again."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from elmo_tf import char_ids
from elmo_tf.layers import CharCNN, HighwayStack, ScalarMix
from elmo_tf.models.token_encoder import TokenEncoder
from elmo_tf.tasks import CharacterEmbedding, WordEmbedding
from elmo_tf.tasks.crf import CRF

TOKENS = tf.constant([["Die", "Katze", "die"], ["Ärger", "", ""]])
CHAR_IDS = char_ids(TOKENS, 14)
FLOATS = np.random.default_rng(1).normal(2, 3, (2, 3, 5, 4)).astype(np.float32)
CNN = {"filters": [[1, 2], [2, 4], [3, 7]], "embedding_dim": 5, "activation": "tanh"}
# First, following and last tags.
CONSTRAINTS = [[True, False, True], [[True] * 3, [False, False, True], [True] * 3], [True] * 3]
WORDS = {"words": ["katze", "die"], "dim": 3, "lowercase": True}


@pytest.mark.parametrize(
    ("layer_class", "settings", "shape", "values"),
    [
        (CharCNN, CNN, (None, 14), CHAR_IDS),
        (HighwayStack, {"num_layers": 3}, (None, 4), FLOATS[0]),
        (ScalarMix, {"l2": 0.3, "layer_norm": False}, FLOATS.shape[1:], FLOATS),
        (ScalarMix, {"l2": 0.3, "layer_norm": True}, FLOATS.shape[1:], FLOATS),
        (TokenEncoder, {**CNN, "num_highway": 2, "projection_dim": 13}, (None, 14), CHAR_IDS),
        (TokenEncoder, {**CNN, "num_highway": 2, "projection_dim": 6}, (None, 14), CHAR_IDS),
        (CRF, {"num_tags": 3, "constraints": CONSTRAINTS}, (None, 3), FLOATS[0, ..., :3]),
        (WordEmbedding, WORDS, (None,), TOKENS),
        (CharacterEmbedding, {**CNN, "max_chars": 9}, (None,), TOKENS),
    ],
)
def test_a_saved_layer_loads_and_gives_the_same(
    layer_class, settings, shape, values, keras_round_trip
):
    dtype = getattr(values.dtype, "name", values.dtype)
    inputs, layer = keras.Input(shape, dtype=dtype), layer_class(**settings)
    model = keras.Model(inputs, layer(inputs))
    rng = np.random.default_rng(0)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(size=weight.shape))

    loaded = keras_round_trip(model)

    outputs = model(values)
    np.testing.assert_array_equal(loaded(values), outputs)
    assert loaded.layers[-1].get_config() == layer.get_config()
    assert settings.items() <= layer.get_config().items()
    known = zip(model.output_shape, outputs.shape, strict=True)
    assert all(size in (None, real) for size, real in known)
