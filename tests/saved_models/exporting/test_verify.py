"""Differences between the written and the live model are errors."""

from types import SimpleNamespace

import pytest
import tensorflow as tf

from elmo_tf.saved_models.exporting import verify as module
from elmo_tf.saved_models.exporting.verify import EXAMPLES, check_weights, compare_signatures

INPUTS = {"default": {"strings": tf.constant(EXAMPLES)}}


class TwoWeights(tf.Module):
    """Its output depends on the second weight only if `uses_both`."""

    def __init__(self, uses_both):
        self.first = tf.Variable([1.0, 2.0], name="first")
        self.second = tf.Variable([[3.0, 4.0]], name="second")
        self.uses_both = uses_both

    @tf.function
    def __call__(self, strings, training=False):
        lengths = tf.cast(tf.strings.length(strings), tf.float32)[:, tf.newaxis]
        elmo = lengths * (self.first + self.second if self.uses_both else self.first)
        return {"elmo": elmo, "sequence_len": tf.strings.length(strings)}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The path of two weights of 2 numbers each."""
    path = str(tmp_path_factory.mktemp("saved"))
    model = TwoWeights(True)
    signature = model.__call__.get_concrete_function(tf.TensorSpec([None], tf.string, "strings"))
    tf.saved_model.save(model, path, {"default": signature})
    return path


@pytest.mark.parametrize("loaded", ["loaded by Python", "loaded in a session"])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"elmo": tf.fill((4, 2), float("nan"))}, "output elmo of signature default, {} differs"),
        ({"more": tf.ones(4)}, r"signature default, {} returns the outputs .* instead of .*'more'"),
    ],
)
def test_different_outputs_are_an_error(saved, monkeypatch, loaded, changes, message):
    """`changes` are outputs of the live model that differ from those of the written one."""
    signatures = {"default": lambda strings: {**TwoWeights(True)(strings), **changes}}
    if loaded == "loaded in a session":
        same = SimpleNamespace(signatures=signatures)
        monkeypatch.setattr(tf.saved_model, "load", lambda path: same)
    with pytest.raises(RuntimeError, match="exported model is wrong: .*" + message.format(loaded)):
        compare_signatures(saved, signatures, INPUTS, 1e-5)


def test_a_weight_that_is_saved_twice_is_an_error(saved):
    model = TwoWeights(True)
    check_weights(saved, model.variables)
    with pytest.raises(RuntimeError, match=r"its files contain 4 weights instead of 2"):
        check_weights(saved, [model.first])


def test_a_weight_without_a_gradient_is_an_error():
    strings = tf.constant(EXAMPLES)

    module._check_gradients(TwoWeights(True), strings)
    with pytest.raises(RuntimeError, match=r"no gradient reaches second:0"):
        module._check_gradients(TwoWeights(False), strings)
