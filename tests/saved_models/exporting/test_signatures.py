"""Signatures and variables of `Exported`, before the model is written."""

import numpy as np
import pytest
import tensorflow as tf
from elmo_inputs import set_mix

from elmo_tf import BiLM, BiLMConfig, Elmo, LSTMConfig, char_ids
from elmo_tf.saved_models.exporting.signatures import Exported
from reference import scalar_mix as reference

SENTENCES = ["the cat sat", "", "one two three four"]
LENGTHS = np.array([3, 0, 4])
MASK = np.arange(4) < LENGTHS[:, np.newaxis]


@pytest.fixture(scope="module")
def exported(elmo):
    return Exported(elmo)


def test_training_mode_has_no_dropout(exported):
    outputs, trained = (exported(tf.constant(SENTENCES), training=on) for on in (False, True))

    np.testing.assert_array_equal(trained["elmo"], outputs["elmo"])


def test_later_changes_do_not_affect_an_exported_top_only_elmo(bilm):
    elmo = Elmo(bilm, top_only=True)
    exported = Exported(elmo)  # it was never called
    np.testing.assert_array_equal(exported.variables[-2], np.zeros(1))
    set_mix(elmo)
    exported = Exported(elmo)
    elmo.mixes[0].scaling.assign(0.0)

    outputs = exported(tf.constant(SENTENCES))

    np.testing.assert_allclose(outputs["elmo"], 1.7 * outputs["lstm_outputs2"], atol=1e-5)


def test_an_exported_average_elmo_has_fixed_mixing_weights(bilm):
    elmo = Elmo(bilm, average=True)
    elmo.build()
    elmo.mixes[0].scaling.assign(1.7)
    exported = Exported(elmo)

    vectors = exported(tf.constant(SENTENCES))["elmo"]

    expected = 1.7 * bilm(SENTENCES)["layers"].numpy().mean(axis=1)
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    trained = {variable.ref() for variable in exported.trainable_variables}
    assert exported.mixes[0].scaling.value.ref() in trained
    assert exported.mixes[0].layer_weights.value.ref() not in trained


def test_layer_norm_equals_the_reference(bilm):
    elmo = Elmo(bilm, layer_norm=True)
    mix = set_mix(elmo)

    vectors = Exported(elmo)(tf.constant(SENTENCES))["elmo"]

    layers = bilm(SENTENCES)["layers"].numpy().astype(np.float64)
    expected = reference.scalar_mix(reference.normalised(layers, MASK), *mix)
    np.testing.assert_allclose(vectors, expected, atol=1e-4)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("stateful", r"stateful biLM cannot be exported.*stateful=False"),
        ("keep_boundaries", r"keeps the boundaries cannot be.*keep_boundaries=False"),
    ],
)
def test_a_stateful_bilm_or_one_with_boundaries_is_refused(fresh_bilm, option, message):
    bilm = fresh_bilm(**{option: True})
    with pytest.raises(ValueError, match=message):
        Exported(bilm)
    with pytest.raises(ValueError, match=f"{option}=False"):
        Exported(Elmo(bilm))


def test_other_objects_are_refused():
    for source in ("checkpoint", None, tf.Module()):
        with pytest.raises(TypeError, match=r"A BiLM or an Elmo can be exported. Received: .*of t"):
            Exported(source)
    bilm = BiLM(BiLMConfig(None, LSTMConfig(dim=7, projection_dim=4), num_tokens=5))
    with pytest.raises(ValueError, match=r"needs a vocabulary to read strings"):
        Exported(bilm)


@pytest.mark.parametrize("sentences", [[["one", "two"], ["b"]], [[], ["one"]]])
def test_char_ids_padding_of_a_batching_server_is_not_a_token(exported, sentences):
    ids = char_ids(tf.ragged.constant(sentences, dtype=tf.string), 14).to_tensor(
        shape=(len(sentences), 2, 14)
    )
    of_char_ids = exported.signatures["char_ids"]
    expected = of_char_ids(char_ids=ids)
    first = tf.reshape(ids, [-1])[0]
    padded = tf.pad(ids, [(0, 0), (0, 3), (0, 0)], constant_values=first)
    outputs = of_char_ids(char_ids=padded)
    np.testing.assert_array_equal(outputs["sequence_len"], expected["sequence_len"])
    np.testing.assert_allclose(outputs["elmo"][:, :2], expected["elmo"], atol=1e-5)
    np.testing.assert_allclose(outputs["elmo"][:, 2:], 0)
