"""Signatures and variables of `Exported`."""

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf import BiLM, BiLMConfig, Elmo, LSTMConfig
from elmo_tf.saved_models.exporting.signatures import Exported
from reference import scalar_mix as reference

SENTENCES = ["the cat sat", "", "one two three four"]
LENGTHS = np.array([3, 0, 4])
MASK = np.arange(4) < LENGTHS[:, np.newaxis]


@pytest.mark.parametrize(
    ("kind", "shares"),
    [("top_only", [0.0]), ("average", [0.0, 0.0, 0.0]), ("layer_norm", [0.3, -1.0, 0.8])],
)
def test_an_exported_mix_equals_the_reference_after_later_changes(bilm, kind, shares):
    elmo = Elmo(bilm, **{kind: True})
    never_called = Exported(elmo)
    np.testing.assert_array_equal(never_called.mixes[0].layer_weights, np.zeros(len(shares)))
    elmo.mixes[0].layer_weights.assign(shares)
    elmo.mixes[0].scaling.assign(1.7)
    exported = Exported(elmo)
    elmo.mixes[0].scaling.assign(0.0)

    vectors = exported(tf.constant(SENTENCES))["elmo"]

    layers = bilm(SENTENCES)["layers"].numpy().astype(np.float64)[:, -len(shares) :]
    if kind == "layer_norm":
        layers = reference.normalized(layers, MASK)
    atol = 1e-4 if kind == "layer_norm" else 1e-5
    np.testing.assert_allclose(vectors, reference.scalar_mix(layers, shares, 1.7), atol=atol)
    trained = {variable.ref() for variable in exported.trainable_variables}
    assert exported.mixes[0].scaling.value.ref() in trained
    assert (exported.mixes[0].layer_weights.value.ref() in trained) == (kind != "average")


@pytest.mark.parametrize("option", ["stateful", "keep_boundaries"])
def test_a_stateful_bilm_or_one_with_boundaries_is_refused(fresh_bilm, option):
    bilm = fresh_bilm(**{option: True})
    with pytest.raises(ValueError, match=f"{option}=True cannot be exported.*{option}=False"):
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
