"""TensorFlow's checkpoints and SavedModels of Keras models and modules that hold a biLM."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from elmo_tf import BiLM, BiLMConfig, CharCNNConfig, Elmo, LSTMConfig
from elmo_tf.config import LexiconConfig
from elmo_tf.text.lexicon import Lexicon
from task_models import KINDS, new_model, with_random_weights


def sentence_model(bilm, **kwargs):
    inputs = keras.Input((), dtype="string")
    return keras.Model(inputs, keras.layers.Dense(2)(Elmo(bilm, **kwargs)(inputs)))


def lexicon_bilm():
    specials = ["<oov>", "<bos>", "<eos>", "<pad>"]
    lexicon = Lexicon([*specials, "<bow>", "<eow>", "a", "b"], [*specials, "a", "b"])
    sizes = LexiconConfig(lexicon.num_characters, lexicon.num_words, word_dim=3)
    cnn = CharCNNConfig(embedding_dim=2, filters=((1, 3),), num_highway=1, lexicon=sizes)
    return BiLM(BiLMConfig(cnn, LSTMConfig(dim=7, projection_dim=4)), lexicon=lexicon)


@pytest.mark.parametrize(
    ("kind", "by_keras"),
    [("characters", False), ("characters", True), ("tokens", False), ("lexicon", True)],
)
def test_a_saved_keras_model_has_the_tables_of_its_bilm(bilm, word_bilm, tmp_path, kind, by_keras):
    bilm = {"characters": bilm, "tokens": word_bilm, "lexicon": lexicon_bilm()}[kind]
    model = sentence_model(bilm, trainable_bilm=by_keras)
    sentences = tf.constant(["a b a", "b", ""])
    expected = model(sentences)

    if by_keras:
        model.export(tmp_path / "model", verbose=False)
    else:
        tf.saved_model.save(model, tmp_path / "model")

    loaded = tf.saved_model.load(tmp_path / "model")
    (output,) = loaded.signatures["serving_default"](sentences).values()
    np.testing.assert_allclose(output, expected, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_a_checkpoint_has_all_weights_of_a_task_model(bilm, tmp_path, kind):
    written, read = with_random_weights(new_model(kind, bilm)), new_model(kind, bilm)
    path = tf.train.Checkpoint(model=written).save(tmp_path / "state")

    tf.train.Checkpoint(model=read).restore(path).assert_consumed()

    for old, new in zip(written.weights, read.weights, strict=True):
        if "seed_generator" not in old.path:
            np.testing.assert_array_equal(old, new, err_msg=old.path)
