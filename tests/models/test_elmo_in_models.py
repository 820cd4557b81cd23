"""An `Elmo` within Keras models: training, masks, saving, exports."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from elmo_inputs import MASK, SENTENCES, TOKENS, WIDTH, set_mix

from elmo_tf import Elmo, char_ids
from elmo_tf.layers import MeanOverTokens
from elmo_tf.models.copies import model_digest
from nested_arrays import assert_close


@pytest.fixture(autouse=True)
def seed():
    keras.utils.set_random_seed(0)


def task_model(bilm, inputs, **kwargs):
    """A model with task layers on top of an `Elmo`, and the `Elmo`."""
    elmo = Elmo(bilm, name="elmo", **kwargs)
    hidden = keras.layers.Bidirectional(keras.layers.LSTM(3, return_sequences=True))(elmo(inputs))
    return keras.Model(inputs, keras.layers.Dense(2)(hidden)), elmo


@pytest.mark.parametrize("shape", [(None,), ()], ids=["tokens", "sentences"])
def test_a_task_model_trains_in_phases_and_loads_without_the_checkpoint(
    fresh_bilm, keras_round_trip, shape
):
    bilm = fresh_bilm()
    num_weights = len(bilm.trainable_weights)
    model, elmo = task_model(bilm, keras.Input(shape, dtype="string"), dropout=0.0, l2=0.01)
    data = TOKENS if shape else tf.constant(SENTENCES)

    for trainable in (False, True, False):
        outputs, before = model(data).numpy(), [weight.numpy() for weight in bilm.weights]
        start = elmo.mixes[0].layer_weights.numpy()
        elmo.trainable_bilm = trainable
        np.testing.assert_array_equal(model(data), outputs)
        model.compile("sgd", "mse", run_eagerly=True)
        losses = [model.train_on_batch(data, tf.ones((4, 5, 2))) for _ in range(2)]

        assert losses[1] < losses[0]
        assert (elmo.mixes[0].layer_weights.numpy() != start).any()
        changed = [(a != b.numpy()).any() for a, b in zip(before, bilm.weights, strict=True)]
        assert any(changed) == trainable == bilm.trainable
        assert len(elmo.trainable_weights) == 2 + (num_weights if trainable else 0)
        loaded = keras_round_trip(model)
        np.testing.assert_array_equal(loaded(data), model(data))
        loaded_elmo = loaded.get_layer("elmo")
        assert loaded_elmo.trainable_bilm == loaded_elmo.get_config()["trainable_bilm"] == trainable
        assert len(loaded.trainable_weights) == len(model.trainable_weights)
        assert model_digest(loaded_elmo.bilm) == model_digest(bilm)


def test_a_clone_of_a_model_has_a_new_bilm(bilm):
    inputs = keras.Input((None,), dtype="string")
    pool = keras.layers.GlobalAveragePooling1D
    model = keras.Model(inputs, pool()(Elmo(bilm, dropout=0.0, name="elmo")(inputs)))

    clone = keras.models.clone_model(model)

    assert clone.get_layer("elmo").bilm is not bilm
    clone.set_weights(model.get_weights())
    np.testing.assert_allclose(clone(TOKENS), model(TOKENS), atol=1e-6)
    second = keras.Model(clone.input, [clone.output, pool()(clone.get_layer("elmo")(clone.input))])
    np.testing.assert_array_equal(*second(TOKENS))


def test_documents_are_read_sentence_by_sentence(bilm):
    elmo = Elmo(bilm)
    inputs = keras.Input((None, None), dtype="string")
    model = keras.Model(inputs, keras.layers.TimeDistributed(elmo)(inputs))
    documents = tf.stack([TOKENS[:2], TOKENS[2:]])  # (document, sentence, token)

    vectors = model(documents)

    assert model.output_shape == (None, None, None, WIDTH)
    np.testing.assert_allclose(tf.reshape(vectors, (4, 5, WIDTH)), elmo(TOKENS), atol=1e-6)


def test_batches_of_blank_texts_train_without_nan(bilm):
    blank, inputs = tf.constant(["", " "]), keras.Input((), dtype="string")
    vectors = Elmo(bilm, dropout=0.0)(inputs)
    read = keras.layers.Bidirectional(keras.layers.LSTM(2, return_sequences=True))(vectors)
    model = keras.Model(inputs, keras.layers.Dense(1)(MeanOverTokens()(read)))
    model.compile("adam", "mse", run_eagerly=True)

    for _ in range(2):
        model.train_on_batch(blank, tf.ones((2, 1)))

    assert all(np.isfinite(weight).all() for weight in model.get_weights())


@pytest.mark.parametrize("inputs", [np.array(SENTENCES), TOKENS])
def test_a_sequential_model_needs_no_input_layer(bilm, keras_round_trip, inputs):
    lstm = keras.layers.LSTM(3)
    model = keras.Sequential([Elmo(bilm), lstm])

    outputs = model(inputs)

    expected = lstm(Elmo(bilm)(SENTENCES))
    np.testing.assert_allclose(outputs, expected, atol=1e-5)
    np.testing.assert_allclose(model(inputs[:2]), expected[:2], atol=1e-5)
    np.testing.assert_array_equal(keras_round_trip(model)(inputs), outputs)


@pytest.mark.parametrize("kind", ["tokens", "char ids"])
def test_ragged_inputs_reach_the_layers_above_with_their_mask(bilm, kind):
    ragged = tf.RaggedTensor.from_tensor(TOKENS, lengths=MASK.sum(axis=1))
    inputs = keras.Input((None,), dtype="string")
    if kind == "char ids":
        ragged, inputs = char_ids(ragged, 14), keras.Input((None, 14), dtype="int32")
    lstm = keras.layers.LSTM(3)
    model = keras.Model(inputs, lstm(Elmo(bilm)(inputs)))
    expected = lstm(Elmo(bilm)(TOKENS))

    np.testing.assert_allclose(model(ragged), expected, atol=1e-6)
    np.testing.assert_allclose(model.predict(ragged, verbose=0), expected, atol=1e-6)
    model.compile("sgd", "mse", run_eagerly=True)
    model.fit(ragged, tf.ones((4, 3)), verbose=0)


def test_char_ids_and_lengths_may_be_symbolic(bilm, keras_round_trip):
    ids = keras.Input((None, 14), dtype="int32")
    lengths = keras.Input((), dtype="int32")
    pooled = keras.layers.GlobalAveragePooling1D()(Elmo(bilm)(ids, lengths=lengths))
    model = keras.Model([ids, lengths], pooled)
    data = [char_ids(TOKENS, 14), tf.constant([2, 1, 0, 4])]

    assert model.output_shape == (None, WIDTH)
    np.testing.assert_array_equal(keras_round_trip(model)(data), model(data))
    alone = keras.Model(ids, Elmo(bilm)(ids))
    np.testing.assert_allclose(alone(data[0]), Elmo(bilm)(SENTENCES), atol=1e-6)


def test_several_mixes_and_options_survive_saving(bilm, keras_round_trip):
    inputs = keras.Input((None,), dtype="string")
    elmo = Elmo(bilm, 2, dropout=0.1, layer_norm=True, l2=0.2, top_only=True, name="elmo")
    model = keras.Model(inputs, elmo(inputs))
    set_mix(elmo, 1)

    loaded = keras_round_trip(model)

    assert_close(loaded(TOKENS), model(TOKENS))
    config = loaded.get_layer("elmo").get_config()
    names = ("num_mixes", "dropout", "layer_norm", "l2", "top_only")
    assert [config[name] for name in names] == [2, 0.1, True, 0.2, True]


@pytest.mark.parametrize(("shared", "trainable"), [(True, False), (True, True), (False, False)])
def test_two_elmo_layers_survive_saving_with_or_without_a_shared_bilm(
    bilm, fresh_bilm, keras_round_trip, shared, trainable
):
    other = bilm if shared else fresh_bilm()
    if not shared:
        for weight in other.weights:
            weight.assign(0.7 * weight)
    inputs = keras.Input((None,), dtype="string")
    layers = [Elmo(below, trainable_bilm=trainable) for below in (bilm, other)]
    set_mix(layers[0])
    hidden = [keras.layers.LSTM(3)(elmo(inputs)) for elmo in layers]
    model = keras.Model(inputs, keras.layers.Concatenate()(hidden))

    loaded = keras_round_trip(model)

    np.testing.assert_array_equal(loaded(TOKENS), model(TOKENS))
    np.testing.assert_array_equal(keras_round_trip(loaded)(TOKENS), model(TOKENS))
    one, two = (loaded.get_layer(elmo.name).bilm for elmo in layers)
    assert (one is two) == shared
    if shared:  # its parameters are counted and saved once
        outputs = keras.Model(inputs, [elmo(inputs) for elmo in layers])
        assert outputs.count_params() == bilm.count_params() + 2 * 4


@keras.saving.register_keras_serializable(package="tests")
class Subclassed(keras.Model):
    def __init__(self, elmo):
        super().__init__()
        self.elmo = elmo
        self.lstm = keras.layers.LSTM(3)

    def call(self, inputs, training=False):
        return self.lstm(self.elmo(inputs, training=training))

    def get_config(self):
        return {"elmo": keras.saving.serialize_keras_object(self.elmo)}

    @classmethod
    def from_config(cls, config):
        return cls(keras.saving.deserialize_keras_object(config["elmo"]))


@pytest.mark.parametrize("kind", ["sentences", "tokens", "ids"])
def test_subclassed_models_load_the_weights_of_all_layers(bilm, keras_round_trip, kind):
    inputs = {"sentences": tf.constant(SENTENCES), "tokens": TOKENS, "ids": bilm.char_ids(TOKENS)}
    model = Subclassed(Elmo(bilm))
    expected = model(inputs[kind])

    np.testing.assert_array_equal(keras_round_trip(model)(inputs[kind]), expected)


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "bfloat16"])
def test_all_parts_have_the_dtype_policy_of_the_layer(bilm, keras_round_trip, dtype):
    elmo = Elmo(bilm, dtype=dtype, name="elmo")
    inputs = keras.Input((None,), dtype="string")
    model = keras.Model(inputs, elmo(inputs))

    for part in (elmo, elmo.mixes[0], elmo.dropout):
        assert part.dtype_policy.name == dtype
    assert model(TOKENS).dtype == model.output.dtype == elmo.dtype_policy.compute_dtype
    np.testing.assert_allclose(tf.cast(model(TOKENS), tf.float32), Elmo(bilm)(TOKENS), atol=0.02)
    assert keras_round_trip(model).get_layer("elmo").mixes[0].dtype_policy.name == dtype
