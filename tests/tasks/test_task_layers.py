import keras
import numpy as np
import pytest
import tensorflow as tf

from elmo_tf import char_ids
from elmo_tf.layers import CharCNN, ProjectedLSTM
from elmo_tf.tasks import CharacterEmbedding, WordEmbedding
from elmo_tf.tasks.layers import BiRNN

TOKENS = tf.constant([["Die", "Katze", "die"], ["Ärger", "", ""]])


def test_each_word_has_a_row_and_unknown_words_share_one():
    layer = WordEmbedding(["Katze", "die"], 3)

    vectors = layer(TOKENS).numpy()

    table = layer.embedding.numpy()
    np.testing.assert_array_equal(vectors[0], table[[0, 1, 2]])
    np.testing.assert_array_equal(vectors[1], [table[0], np.zeros(3), np.zeros(3)])
    layer = WordEmbedding(["katze", "die", "ärger"], 3, lowercase=True)
    vectors = tf.boolean_mask(layer(TOKENS), TOKENS != "")
    np.testing.assert_array_equal(vectors, layer.embedding.numpy()[[2, 1, 2, 3]])


def test_from_texts_respects_lowercase_and_min_count():
    texts = [["IT", "it", "10 000", "ÄR", "\udcff"], ["10 000", "är", "är", "\udcff", "once"]]

    cased = WordEmbedding.from_texts(texts, 3)
    lowercased = WordEmbedding.from_texts(texts, 3, lowercase=True)
    all_words = WordEmbedding.from_texts(texts, 3, min_count=1)

    assert cased.words == ("10 000", "är")
    assert lowercased.words == ("är", "it", "10 000")
    assert len(all_words.words) == 6
    with pytest.raises(ValueError, match="`words` is empty"):
        WordEmbedding.from_texts(texts, 3, min_count=9)


def test_words_have_their_vectors_and_are_frozen_after_the_first_num_trained(keras_round_trip):
    vectors = {"die": np.array([1.0, 2]), "Hund": np.array([3, 6]), "Katze": np.array([5, 7])}
    tokens = tf.constant([["Katze", "die", "Hund", "Maus", ""]])
    assert WordEmbedding.from_vectors(vectors).words == tuple(vectors)
    # Words that are not valid UTF-8 are left out. Words without a vector get the mean vector.
    layer = WordEmbedding.from_vectors(vectors, [*vectors, "\udcff"], num_trained=1)
    before = layer(tokens).numpy()
    np.testing.assert_array_equal(before[0], [[5, 7], [1, 2], [3, 6], [3, 5], [0, 0]])
    optimizer = keras.optimizers.SGD(1.0)

    with tf.GradientTape() as tape:
        total = tf.reduce_sum(layer(tokens))
    gradients = tape.gradient(total, layer.trainable_variables)
    optimizer.apply(gradients, layer.trainable_variables)

    change = layer(tokens).numpy() - before
    np.testing.assert_array_equal(change[0, :, 0], [0, -1, 0, -1, 0])
    inputs = keras.Input((None,), dtype="string")
    loaded = keras_round_trip(keras.Model(inputs, layer(inputs)))
    np.testing.assert_array_equal(loaded(tokens), layer(tokens))
    assert [variable.shape[0] for variable in layer.trainable_variables] == [2]


LAYERS = WordEmbedding(["die"], 3, lowercase=True), CharacterEmbedding(((2, 3),), 4, "tanh", 9)


@pytest.mark.parametrize("layer", LAYERS, ids=["words", "characters"])
def test_repeated_words_and_characters_get_a_single_adam_step(layer):
    """Adam's first step is the learning rate, however often a word or character occurs."""
    tokens = tf.constant([["Katze", "die", "katze"], ["Maus", "Hund", "Katze"]])
    layer(tokens)
    before = [variable.numpy() for variable in layer.trainable_variables]

    with tf.GradientTape() as tape:
        total = tf.reduce_sum(layer(tokens) ** 2)
    gradients = tape.gradient(total, layer.trainable_variables)
    keras.optimizers.Adam(0.01).apply(gradients, layer.trainable_variables)

    for variable, old in zip(layer.trainable_variables, before, strict=True):
        steps = np.abs(variable.numpy() - old)
        assert steps.max() <= 0.01001
        assert steps.max() > 0.0099


def test_character_embeddings_match_the_char_cnn():
    layer = CharacterEmbedding(((2, 3), (4, 5)), embedding_dim=6, max_chars=11)
    char_cnn = CharCNN(((2, 3), (4, 5)), 6)
    char_cnn.build((None, 11))

    vectors = layer(TOKENS).numpy()

    char_cnn.set_weights(layer.get_weights())
    expected = char_cnn(char_ids(TOKENS, 11)).numpy()
    np.testing.assert_allclose(vectors[0], expected[0], atol=1e-6)
    np.testing.assert_allclose(vectors[1, 0], expected[1, 0], atol=1e-6)
    assert not vectors[1, 1:].any()


@pytest.mark.parametrize("layer", [BiRNN(2), CharacterEmbedding(), ProjectedLSTM(3, 2)])
def test_a_frozen_layer_stays_frozen_in_a_copy(layer):
    layer.trainable = False
    copy = type(layer).from_config(layer.get_config())
    copy.build((None, None, 3))
    assert keras.Sequential([copy]).trainable_weights == []
