import numpy as np
import pytest

from elmo_tf import Embedder
from elmo_tf.evaluation.senses.sense_corpus import Occurrence, SenseSentence
from elmo_tf.evaluation.senses.sense_vectors import mean_sense_vectors, occurrence_vectors

pytestmark = pytest.mark.usefixtures("eager_module")


def occurrence(*senses, lemma="bank", pos="noun", first=0, end=1):
    return Occurrence("id", lemma, pos, first, end, senses)


@pytest.fixture
def no_order(inventory):
    """An inventory without the lemmas of the tests."""
    return inventory("other n other%1")


# Two layers, three features.
NORTH, EAST, UP = np.eye(3, dtype=np.float32)


def test_the_nearest_mean_is_found_in_each_layer(no_order):
    senses = mean_sense_vectors(
        [
            (occurrence("river"), np.stack([NORTH, UP])),
            (occurrence("money"), np.stack([4 * EAST, 4 * NORTH])),
            (occurrence("river"), np.stack([NORTH + EAST, UP])),
        ],
        no_order,
    )["bank", "noun"]

    # In layer 0 the mean of "river" points to (2, 1, 0): 27° from north, and 18° from north-east.
    assert senses.nearest_by_cosine(np.stack([NORTH, UP])) == ["river", "river"]
    assert senses.nearest_by_cosine(np.stack([9 * NORTH + 8 * EAST, NORTH])) == ["river", "money"]
    assert senses.nearest_by_cosine(np.stack([EAST, UP + 0.9 * NORTH])) == ["money", "river"]
    np.testing.assert_allclose(senses.means[0], [NORTH + EAST / 2, 4 * EAST], atol=1e-6)


def test_an_occurrence_with_several_gold_keys_counts_for_each(no_order):
    senses = mean_sense_vectors(
        [(occurrence("a", "b"), np.stack([NORTH])), (occurrence("b"), np.stack([EAST]))], no_order
    )["bank", "noun"]

    assert senses.keys == ["b", "a"]
    np.testing.assert_allclose(senses.means, [[(NORTH + EAST) / 2, NORTH]], atol=1e-6)


def test_senses_are_ordered_by_frequency_and_then_by_inventory(inventory):
    senses = mean_sense_vectors(
        [(occurrence(key), np.stack([NORTH])) for key in ("new", "third", "first", "many", "many")],
        inventory("bank n first", "bank n many", "bank n third"),
    )["bank", "noun"]

    assert senses.keys == ["many", "first", "third", "new"]
    # All are equally near.
    assert senses.nearest_by_cosine(np.stack([NORTH])) == ["many"]


def test_zero_vectors_are_supported(no_order):
    senses = mean_sense_vectors([(occurrence("a"), np.zeros((2, 3), np.float32))], no_order)

    assert senses["bank", "noun"].nearest_by_cosine(np.zeros((2, 3))) == ["a", "a"]


def test_the_vector_of_an_occurrence_is_the_mean_over_its_tokens(embedder):
    tokens = ["The", "Grand", "Jury", "said"]
    sentence = SenseSentence(0, tokens, [occurrence("jury", lemma="grand_jury", first=1, end=3)])

    ((found, vectors),) = occurrence_vectors(embedder, [sentence], {("grand_jury", "noun")})

    (expected,) = embedder.embed([tokens])
    assert found == sentence.occurrences[0]
    np.testing.assert_allclose(vectors, (expected[:, 1] + expected[:, 2]) / 2, atol=1e-6)


def test_sentences_without_requested_lemmas_are_not_embedded(embedder):
    dog, cat = occurrence("dog%1", lemma="dog"), occurrence("cat%1", lemma="cat", first=1, end=2)
    sentences = [
        SenseSentence(0, ["dog", "cat"], [dog, cat]),
        SenseSentence(0, [""], [dog]),  # an embedder refuses an empty token
        SenseSentence(0, ["no", "senses"], []),
    ]

    found = list(occurrence_vectors(embedder, sentences, {("cat", "noun")}))

    assert [one for one, _ in found] == [cat]


def test_non_finite_vectors_are_an_error(fresh_bilm):
    bilm = fresh_bilm()
    weight = bilm.trainable_weights[-1]
    weight.assign(np.full(weight.shape, np.nan))
    sentence = SenseSentence(0, ["the", "bank"], [occurrence("bank%1", first=1, end=2)])

    with pytest.raises(ValueError, match="Vectors of 'id' are not finite"):
        list(occurrence_vectors(Embedder(bilm), [sentence], {("bank", "noun")}))
