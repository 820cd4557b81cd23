import numpy as np
import pytest

from elmo_tf import Embedder
from elmo_tf.evaluation.senses.sense_corpus import Occurrence, SenseSentence
from elmo_tf.evaluation.senses.sense_vectors import (
    LemmaSenses,
    OccurrenceMoments,
    mean_sense_vectors,
    occurrence_vectors,
)
from elmo_tf.evaluation.whitening import Moments, Whitening


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


def test_the_frequent_sense_comes_first_then_that_of_the_inventory(inventory):
    senses = mean_sense_vectors(
        [(occurrence(key), np.stack([NORTH])) for key in ("new", "third", "first", "many", "many")],
        inventory("bank n first", "bank n many", "bank n third"),
    )["bank", "noun"]

    assert senses.keys == ["many", "first", "third", "new"]
    # All are equally near.
    assert senses.nearest_by_cosine(np.stack([NORTH])) == ["many"]


def test_parts_of_speech_of_a_lemma_have_senses_of_their_own(no_order):
    senses = mean_sense_vectors(
        [
            (occurrence("bank%1"), np.stack([NORTH])),
            (occurrence("bank%2", pos="verb"), np.stack([EAST])),
        ],
        no_order,
    )

    assert {lemma_pos: found.keys for lemma_pos, found in senses.items()} == {
        ("bank", "noun"): ["bank%1"],
        ("bank", "verb"): ["bank%2"],
    }


def test_vectors_without_a_length_are_no_trouble(no_order):
    senses = mean_sense_vectors([(occurrence("a"), np.zeros((2, 3), np.float32))], no_order)

    assert senses["bank", "noun"].nearest_by_cosine(np.zeros((2, 3))) == ["a", "a"]


def test_a_distance_may_be_measured_by_how_vectors_vary():
    """Along the line on which most vectors differ, a step is shorter than across it."""
    rng = np.random.default_rng(0)
    spread = rng.normal(size=(3000, 3)).astype(np.float32) * [10, 1, 1]
    moments = OccurrenceMoments(1, 3)
    taken = list(moments.update((occurrence("a"), vector[np.newaxis]) for vector in spread))
    means = np.stack([[5 * NORTH, 2 * EAST]])
    origin = np.zeros((1, 3), np.float32)

    found = LemmaSenses(["far", "near"], means).nearest_by_mahalanobis(origin, moments.whitenings())

    np.testing.assert_array_equal([vectors[0] for _, vectors in taken], spread)
    assert found == ["far"]  # half a deviation, beside two
    plain = [Whitening(moments_of(rng.normal(size=(3000, 3)).astype(np.float32)))]
    assert LemmaSenses(["far", "near"], means).nearest_by_mahalanobis(origin, plain) == ["near"]


def test_of_few_vectors_correlations_count_less_than_of_many():
    few = np.float32([[1, 1, 2], [2, 2, 1], [3, 3, 2]])
    (whiten,) = whitenings_of(few)
    (other,) = whitenings_of(np.tile(few, (1000, 1)))

    # Half of the correlation of 1 between the first two is left, beside 3,000 / 3,003 of it.
    expected = np.linalg.inv([[1, 0.5, 0], [0.5, 1, 0], [0, 0, 1]])
    scale = few.std(0)
    np.testing.assert_allclose(inverse_of(whiten) * np.outer(scale, scale), expected, atol=1e-4)
    assert np.linalg.norm(other(few[0]) - other(few[1])) < 3
    assert inverse_of(other)[0, 0] > 100 * inverse_of(whiten)[0, 0]


def test_without_an_occurrence_there_is_nothing_to_whiten_by():
    assert OccurrenceMoments(2, 3).whitenings() == []


def moments_of(vectors):
    moments = Moments(vectors.shape[1])
    moments.add(vectors)
    return moments


def whitenings_of(vectors):
    moments = OccurrenceMoments(1, vectors.shape[1])
    for _ in moments.update((occurrence("a"), vector[np.newaxis]) for vector in vectors):
        pass
    return moments.whitenings()


def inverse_of(whiten):
    """The inverse of the covariance by which it whitens."""
    return whiten.matrix @ whiten.matrix.T


def test_an_occurrence_has_the_mean_of_its_tokens_vectors(embedder):
    tokens = ["The", "Grand", "Jury", "said"]
    sentence = SenseSentence(0, tokens, [occurrence("jury", lemma="grand_jury", first=1, end=3)])

    ((found, vectors),) = occurrence_vectors(embedder, [sentence], {("grand_jury", "noun")})

    (expected,) = embedder.embed([tokens])
    assert found == sentence.occurrences[0]
    np.testing.assert_allclose(vectors, (expected[:, 1] + expected[:, 2]) / 2, atol=1e-6)


def test_sentences_without_a_lemma_that_is_asked_for_are_not_embedded(embedder):
    dog, cat = occurrence("dog%1", lemma="dog"), occurrence("cat%1", lemma="cat", first=1, end=2)
    sentences = [
        SenseSentence(0, ["dog", "cat"], [dog, cat]),
        SenseSentence(0, [""], [dog]),  # an embedder refuses an empty token
        SenseSentence(0, ["no", "senses"], []),
    ]

    found = list(occurrence_vectors(embedder, sentences, {("cat", "noun")}))

    assert [one for one, _ in found] == [cat]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_vectors_that_are_not_finite_are_an_error(fresh_bilm, value):
    bilm = fresh_bilm()
    weight = bilm.trainable_weights[-1]
    weight.assign(np.full(weight.shape, value))
    sentence = SenseSentence(0, ["the", "bank"], [occurrence("bank%1", first=1, end=2)])

    with pytest.raises(ValueError, match="Vectors of 'id' are not finite"):
        list(occurrence_vectors(Embedder(bilm), [sentence], {("bank", "noun")}))
