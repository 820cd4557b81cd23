"""An exported model as a Keras layer."""

import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf
from masks import mask_of

from elmo_tf import char_ids
from elmo_tf.saved_models import load
from reference import scalar_mix as reference

SENTENCES = ["the cat sat", "", "one two three 서울", "a"]
TOKENS = [sentence.split() for sentence in SENTENCES]
PADDED = tf.ragged.constant(TOKENS).to_tensor("")
MASK = PADDED.numpy() != b""
MIX = [0.4, -1.1, 0.9], 1.7  # of the fixture `elmo`


@pytest.fixture(scope="module")
def layer(exported_elmo):
    return load(exported_elmo)


@pytest.fixture(scope="module")
def vectors(bilm):
    """The expected vectors, from the biLM's layers and the formula of the mix."""
    return reference.scalar_mix(bilm(SENTENCES)["layers"].numpy(), *MIX)


@pytest.fixture(scope="module")
def trained(exported_elmo):
    """A trained task model: initial weights, the exported layer, the losses, the model."""
    layer = load(exported_elmo, trainable=True)
    before = [weight.numpy() for weight in layer.weights]
    inputs = keras.Input((None,), dtype="string")
    hidden = keras.layers.LSTM(3)(layer(inputs))
    model = keras.Model(inputs, keras.layers.Dense(1)(hidden))
    model.compile(keras.optimizers.Adam(0.01), "mse", run_eagerly=True)
    history = model.fit(PADDED, tf.constant([[1.0], [0.0], [-1.0], [2.0]]), epochs=4, verbose=0)
    return before, layer, history.history["loss"], model


def test_all_kinds_of_inputs_agree_with_the_live_model(layer, vectors):
    kinds = (SENTENCES, tf.constant(SENTENCES), TOKENS, tf.ragged.constant(TOKENS), PADDED)
    for inputs in kinds:
        np.testing.assert_allclose(layer(inputs), vectors, atol=1e-5)
    junk = tf.where(MASK, PADDED, "junk")
    np.testing.assert_allclose(layer(junk, lengths=[3, 0, 4, 1]), vectors, atol=1e-5)


def test_a_frozen_layer_has_no_trainable_weight_and_passes_no_gradient(layer, bilm):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(SENTENCES, training=True) ** 2)

    assert layer.trainable_weights == []
    assert len(layer.weights) == len(bilm.weights) + 2
    assert layer.losses == []
    model = keras.Sequential([layer, keras.layers.LSTM(2)])  # without an `Input`
    model.compile("adam", "mse")
    model.fit(tf.constant(SENTENCES), np.ones((4, 2)), verbose=0)
    assert (len(model.trainable_weights), model.jit_compile) == (3, False)
    documents = keras.Input((None, None), dtype="string")
    assert keras.layers.TimeDistributed(layer)(documents).shape[1:] == (None, None, layer._dim)
    assert all(gradient is None for gradient in tape.gradient(loss, layer.weights))


def test_a_trainable_layer_trains_all_its_weights_with_their_penalty(trained):
    before, layer, losses, model = trained

    assert losses == sorted(losses, reverse=True)
    for old, weight in zip(before, layer.weights, strict=True):
        assert (old != weight.numpy()).any() == weight.trainable, weight.name
    assert 2 < len(layer.trainable_weights) < len(layer.weights)
    (mix,) = (weight for weight in layer.weights if weight.name == "aggregation_weights")
    model(PADDED, training=True)
    penalty = 0.3 * np.sum(np.square(mix))
    assert float(sum(model.losses)) == pytest.approx(penalty, rel=1e-5)


def test_the_mask_reaches_the_layers_above(layer):
    inputs = keras.Input((None,), dtype="string")
    sentences = keras.Input((), dtype="string")
    lstm = keras.layers.LSTM(3)
    of_tokens = keras.Model(inputs, lstm(layer(inputs)))
    of_sentences = keras.Model(sentences, lstm(layer(sentences)))
    wider = tf.pad(PADDED, [[0, 0], [0, 3]])

    np.testing.assert_allclose(of_tokens(wider), of_tokens(PADDED), atol=1e-6)
    np.testing.assert_allclose(of_sentences(tf.constant(SENTENCES)), of_tokens(PADDED), atol=1e-6)
    np.testing.assert_array_equal(mask_of(layer(PADDED)), MASK)


def test_a_keras_file_keeps_trained_weights(trained, keras_round_trip):
    _, layer, _, model = trained

    loaded = keras_round_trip(model)

    np.testing.assert_array_equal(loaded(PADDED), model(PADDED))
    assert loaded.get_layer(layer.name).get_config() == layer.get_config()
    assert len(loaded.trainable_weights) == len(model.trainable_weights)


def test_a_folder_of_versions_loads_the_newest(exported_elmo, exported_bilm, tmp_path, layer):
    shutil.copytree(exported_bilm, tmp_path / "9")
    shutil.copytree(exported_elmo, tmp_path / "10")

    newest = load(tmp_path)

    np.testing.assert_array_equal(newest(SENTENCES), layer(SENTENCES))


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        (".", FileNotFoundError, r"no exported model in .*: expected saved_model.pb, or"),
        ("damaged", ValueError, r"Cannot load .*damaged: "),
        ("empty", ValueError, r"of another kind: it needs the signatures serving_default"),
        ("lengths", ValueError, r"of another kind: it needs .* the list trainable_variables"),
    ],
)
def test_other_folders_are_refused(tmp_path, model_directory, name, error, message):
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "saved_model.pb").write_bytes(b"no protocol buffer")
    tf.saved_model.save(tf.Module(), str(tmp_path / "empty"))
    with pytest.raises(error, match=message):
        load(model_directory if name == "lengths" else tmp_path / name)


def test_char_ids_are_refused(layer):
    with pytest.raises(TypeError, match=r"over sentences and tokens.*int32 of shape \(4, 4, 14\)"):
        layer(char_ids(PADDED, 14))
    with pytest.raises(TypeError, match=r"over sentences and tokens.*int32 of shape \(None, 5\)"):
        layer(keras.Input((5,), dtype="int32"))
