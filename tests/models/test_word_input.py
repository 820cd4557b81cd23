"""Language models with word input, whose embedding table may be tied to the softmax."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf import BiLMConfig, LSTMConfig, Vocabulary
from elmo_tf.layers.sampled_softmax import TiedSoftmax
from elmo_tf.models.copies import model_digest
from elmo_tf.models.language_model import LanguageModel
from elmo_tf.text.windows import LMWindows

VOCABULARY = Vocabulary.build(["the the cat cat sat on"])
SENTENCE = ["the", "cat", "<S>", "unseen", "sat", "the"]
WIDTH = 4
CONFIG = BiLMConfig(
    None, LSTMConfig(dim=5, projection_dim=WIDTH, cell_clip=0.6), num_tokens=len(VOCABULARY)
)
KINDS = pytest.mark.parametrize("kind", [{"tie_softmax": True}, {"bidirectional": False}], ids=str)


def model_of(dtype="float32", **kind):
    config = dataclasses.replace(CONFIG, **kind)
    model = LanguageModel.create(config, VOCABULARY, num_sampled=3, dtype=dtype)
    rng = np.random.default_rng(0)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(0, 0.7, weight.shape))
    return model


def test_the_digest_depends_on_the_vocabulary():
    bilm = model_of().bilm
    before = model_digest(bilm)

    bilm.vocabulary = Vocabulary([*VOCABULARY.tokens[:3], *VOCABULARY.tokens[:2:-1]])

    assert model_digest(bilm) != before


def window():
    lines = tf.data.Dataset.from_tensors(" ".join(SENTENCE)).repeat(2)
    return next(LMWindows(lines, 2, len(SENTENCE) + 1))


def loss_and_gradients(model):
    """The sampled loss of training."""
    inputs, targets = window()["inputs"], window()["targets"]
    with tf.GradientTape() as tape:
        outputs, _ = model.top_layer_outputs(inputs, model.bilm.zero_states(2), training=True)
        loss = sum(
            tf.reduce_mean(model.softmax(tf.reshape(top, (-1, WIDTH)), ids, seed=[1, 2]))
            for top, ids in zip(outputs, model.targets(targets), strict=True)
        )
    gradients = tape.gradient(loss, [weight.value for weight in model.trainable_weights])
    paths = [weight.path for weight in model.trainable_weights]
    return loss, dict(zip(paths, gradients, strict=True))


@KINDS
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_only_the_table_rows_that_are_read_get_gradients(dtype, kind):
    _, gradients = loss_and_gradients(model_of(dtype, **kind))

    tables = {"bilm/token_embedding/embedding", "softmax/b"}
    tables |= set() if "tie_softmax" in kind else {"softmax/W"}
    sparse = {path for path, one in gradients.items() if isinstance(one, tf.IndexedSlices)}
    assert sparse == tables
    assert all(gradient.dtype == tf.float32 for gradient in gradients.values())


@pytest.mark.parametrize("bidirectional", [True, False])
def test_a_tied_table_is_one_variable(bidirectional):
    model = model_of(tie_softmax=True, bidirectional=bidirectional)
    untied = model_of(bidirectional=bidirectional)

    table = model.bilm.token_encoder.embedding
    assert isinstance(model.softmax, TiedSoftmax)
    assert model.softmax.kernel is table
    for weights in (model.weights, model.trainable_weights):
        assert len({id(weight) for weight in weights}) == len(weights)
        assert [weight.path for weight in weights].count("bilm/token_embedding/embedding") == 1
    numbers = [sum(np.prod(w.shape) for w in one.trainable_weights) for one in (untied, model)]
    assert numbers[0] - numbers[1] == len(VOCABULARY) * WIDTH
    with pytest.raises(ValueError, match=r"width of the shared table, 4. Received: 5"):
        TiedSoftmax(model.bilm.token_encoder).build((None, WIDTH + 1))


def test_a_tied_softmax_equals_an_untied_one_and_its_gradient_is_the_sum_of_both_uses():
    tied, untied = model_of(tie_softmax=True), model_of()
    for name in ("forward_lstm", "backward_lstm", "token_encoder"):
        getattr(untied.bilm, name).set_weights(getattr(tied.bilm, name).get_weights())
    untied.softmax.kernel.assign(tied.softmax.kernel)
    untied.softmax.bias.assign(tied.softmax.bias)

    loss, gradients = loss_and_gradients(tied)
    expected_loss, expected = loss_and_gradients(untied)

    assert float(loss) == pytest.approx(float(expected_loss), rel=1e-6)
    both = [expected["bilm/token_embedding/embedding"], expected["softmax/W"]]
    found = tf.convert_to_tensor(gradients["bilm/token_embedding/embedding"])
    np.testing.assert_allclose(found, sum(map(tf.convert_to_tensor, both)), atol=1e-6)
    inputs, ids = np.eye(WIDTH, dtype="float32"), np.array([0, 6, 3, 4])
    sampled = [model.softmax(inputs, ids, seed=[3, 4]) for model in (tied, untied)]
    np.testing.assert_array_equal(*sampled)
    losses = [model.softmax.full_loss(inputs, ids) for model in (tied, untied)]
    np.testing.assert_array_equal(*losses)
