"""Exported models whose signatures cache token vectors."""

import numpy as np
import pytest
import tensorflow as tf
from exported_models import asked_in_a_session, asked_in_python

from elmo_tf.saved_models import export, load
from elmo_tf.saved_models.exporting.signatures import Exported, TokenCache
from elmo_tf.saved_models.exporting.verify import verify

# Known and new tokens, an empty sentence, and more tokens than the cache has room for.
REQUESTS = (["the cat sat", "", "the dog"], ["the cat"], [""], ["a b c d e f g h the"], ["h g the"])


@pytest.fixture(scope="module")
def exported(bilm, tmp_path_factory):
    return export(bilm, tmp_path_factory.mktemp("exported"), cache_tokens=6, check=False)


@pytest.mark.parametrize("loaded", [asked_in_python, asked_in_a_session])
def test_answers_equal_those_of_the_bilm(exported, bilm, loaded):
    ask = loaded(exported)

    for strings in REQUESTS:
        layers = bilm(strings)["layers"].numpy()
        found = ask("serving_default", strings=np.array(strings, object))
        np.testing.assert_allclose(found["word_emb"], layers[:, 0, :, :6], atol=1e-6)
        np.testing.assert_allclose(found["lstm_outputs2"], layers[:, 2], atol=1e-5)


@pytest.mark.more
def test_the_written_model_equals_the_live_one(exported, bilm):
    verify(exported, Exported(bilm, cache_tokens=6))  # its gradients too


def test_known_tokens_are_not_encoded_again_up_to_the_capacity(bilm, monkeypatch):
    encoded = []
    encode = bilm.encode_tokens

    def watched(tokens):
        encoded.append(tokens.numpy().tolist())
        return encode(tokens)

    monkeypatch.setattr(bilm, "encode_tokens", watched)
    cache = TokenCache(bilm, 4)

    for tokens in (["a", "b"], ["b", "a", "b"], ["c"], ["d", "e", "f"], ["d", "a"]):
        cache.token_vectors(tf.constant([tokens]), tf.constant([len(tokens)]))

    assert encoded == [[b"a", b"b"], [b"c"], [b"d", b"e", b"f"], [b"d"]]
    assert cache.table.size() == 2 + 4  # with both boundaries


@pytest.mark.more
def test_a_trainable_layer_does_not_use_the_cache(exported):
    layer = load(exported, trainable=True)
    gradients = []
    for inputs in (tf.constant([["the", "cat"]]), tf.constant(["the cat"])):
        layer(inputs)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(inputs) ** 2)
        gradients.append(tape.gradient(loss, layer.trainable_weights))
    for of_tokens, of_sentences in zip(*gradients, strict=True):
        np.testing.assert_allclose(*map(tf.convert_to_tensor, (of_tokens, of_sentences)), atol=1e-6)


def test_calls_use_changed_weights(exported, bilm):
    loaded = tf.saved_model.load(exported)
    strings = tf.constant(["the cat"])
    loaded.signatures["serving_default"](strings)

    loaded.trainable_variables[0].assign_add(tf.ones_like(loaded.trainable_variables[0]))
    assert abs(loaded(strings)["word_emb"] - bilm(["the cat"])["layers"][0, 0, :, :6]).numpy().any()
