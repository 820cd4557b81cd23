"""A written model that is not the live one is found out."""

import pytest
import tensorflow as tf

from elmo_tf.saved_models.exporting import verify as module
from elmo_tf.saved_models.exporting.signatures import Exported
from elmo_tf.saved_models.exporting.verify import SENTENCES, verify


class TwoWeights(tf.Module):
    """Its output depends on the second weight only if `uses_both`."""

    def __init__(self, uses_both):
        self.first = tf.Variable([1.0, 2.0], name="first")
        self.second = tf.Variable([[3.0, 4.0]], name="second")
        self.uses_both = uses_both

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string), tf.TensorSpec([], tf.bool)])
    def __call__(self, strings, training):
        lengths = tf.cast(tf.strings.length(strings), tf.float32)[:, tf.newaxis]
        elmo = lengths * (self.first + self.second if self.uses_both else self.first)
        return {"elmo": elmo, "sequence_len": tf.strings.length(strings)}


@pytest.fixture
def saved(tmp_path):
    """The path of two weights of 2 numbers each."""
    tf.saved_model.save(TwoWeights(True), str(tmp_path))
    return tmp_path


def test_another_mix_is_found_out(elmo, exported_elmo):
    exported = Exported(elmo)
    exported.variables[-1].assign(1.7001)  # aggregation/scaling, 1.7 in the file

    with pytest.raises(
        RuntimeError,
        match=r"exported model is wrong: the output (elmo|default) of signature default, loaded by "
        r"Python differs from that of the live model",
    ):
        verify(exported_elmo, exported)


def test_a_missing_output_is_found_out(elmo, exported_elmo):
    class WithMore(Exported):
        def _outputs(self, inputs, lengths):
            outputs = super()._outputs(inputs, lengths)
            return {**outputs, "more": outputs["default"]}

    with pytest.raises(
        RuntimeError, match=r"signature default, loaded by Python returns the outputs \[.*'more'"
    ):
        verify(exported_elmo, WithMore(elmo))


def test_an_output_of_another_shape_or_that_is_no_number_is_found_out():
    expected = {"elmo": tf.ones((2, 3)).numpy()}
    wrong = r"the output elmo of signature tokens differs from that of the live model"

    module._compare("signature tokens", {"elmo": tf.ones((2, 3))}, expected)
    for outputs in (tf.ones((1, 3)), tf.fill((2, 3), float("nan"))):
        with pytest.raises(RuntimeError, match=wrong):
            module._compare("signature tokens", {"elmo": outputs}, expected)


def test_a_session_answers_for_the_file_whatever_the_live_model_is(elmo, exported_elmo):
    inputs = {"tokens": {"tokens": tf.constant([["a"]]), "sequence_len": tf.constant([1])}}
    expected = {k: v.numpy() for k, v in Exported(elmo).of_tokens(**inputs["tokens"]).items()}

    ((name, outputs),) = module._session_outputs(exported_elmo, inputs)

    module._compare(f"signature {name}, loaded in a session", outputs, expected)
    with pytest.raises(RuntimeError, match=r"output elmo of signature tokens, loaded in a session"):
        module._compare(
            "signature tokens, loaded in a session",
            {**outputs, "elmo": 0.9 * outputs["elmo"]},
            expected,
        )


def test_a_weight_that_is_saved_twice_is_found_out(saved):
    module.check_weights(saved, TwoWeights(True).variables)
    live = tf.Module()
    live.first = tf.Variable([1.0, 2.0])
    with pytest.raises(RuntimeError, match=r"its files contain 4 weights instead of 2"):
        module.check_weights(saved, live.variables)


def test_a_weight_without_a_gradient_is_found_out():
    strings = tf.constant(SENTENCES)

    module._check_gradients(TwoWeights(True), strings)
    with pytest.raises(RuntimeError, match=r"no gradient reaches second:0"):
        module._check_gradients(TwoWeights(False), strings)
