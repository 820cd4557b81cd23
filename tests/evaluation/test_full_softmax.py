import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.evaluation import full_softmax
from elmo_tf.evaluation.full_softmax import token_losses
from reference import softmax as reference


@pytest.fixture(scope="module")
def softmax(language_model):
    return language_model.softmax


def tokens(softmax, count):
    rng = np.random.default_rng(1)
    inputs = rng.normal(size=(count, softmax.kernel.shape[1])).astype("float32")
    return inputs, rng.integers(0, softmax.vocabulary_size, count)


# Logits in memory: of less than one token, of three (the last chunk is short), and of all.
@pytest.mark.parametrize("num_tokens_in_memory", [0.1, 3, 100])
def test_losses_are_exact_for_any_chunk_size(softmax, monkeypatch, num_tokens_in_memory):
    inputs, targets = tokens(softmax, 11)
    size = int(num_tokens_in_memory * softmax.vocabulary_size)
    monkeypatch.setattr(full_softmax, "_LOGITS_IN_MEMORY", size)

    losses = token_losses(softmax, tf.constant(inputs), tf.constant(targets, tf.int32))

    expected = reference.full_loss(inputs, targets, softmax.kernel.numpy(), softmax.bias.numpy())
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    assert losses.dtype == tf.float32


def test_an_empty_input_has_no_losses(softmax):
    inputs, targets = tokens(softmax, 0)

    assert token_losses(softmax, tf.constant(inputs), tf.constant(targets, tf.int32)).shape == (0,)
