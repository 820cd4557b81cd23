import numpy as np
import pytest

from elmo_tf import Embedder
from elmo_tf.evaluation import Occurrences

pytestmark = pytest.mark.usefixtures("eager_module")

SENTENCES = [
    ["the", "bank", "raised", "its", "rates"],
    ["no", "such", "word"],
    ["a", "bank", "of", "the", "bank"],
    ["banks", "are", "another"],
    ["they", "sat", "on", "the", "bank"],
    ["bank"],
]
PLACES = [
    (0, 1),
    (1, 1),
    (1, 4),
    (2, 4),
    (3, 0),
]  # sentences are counted among those that contain the word


@pytest.fixture(scope="module")
def occurrences(embedder):
    return Occurrences(embedder, iter(SENTENCES), "bank")


@pytest.fixture(scope="module")
def cosines(bilm):
    """The cosines of all pairs of occurrences, (layer, occurrence, occurrence)."""
    sentences = [sentence for sentence in SENTENCES if "bank" in sentence]
    vectors = np.array(
        [bilm([sentences[number]])["layers"][0, :, position] for number, position in PLACES]
    ).transpose(1, 0, 2)
    norms = np.linalg.norm(vectors, axis=2)
    return vectors @ vectors.transpose(0, 2, 1) / (norms[:, :, None] * norms[:, None, :])


def test_all_occurrences_of_the_token_are_found_with_positions(occurrences):
    assert occurrences.sentences == [s for s in SENTENCES if "bank" in s]
    assert occurrences.places == PLACES


@pytest.mark.parametrize("layer", [1, 2])
def test_nearest_occurrences_are_from_other_sentences_by_cosine(occurrences, cosines, layer):
    for occurrence, (here, _) in enumerate(PLACES):
        expected = sorted(
            (i for i in range(5) if PLACES[i][0] != here),
            key=lambda i: -cosines[layer, occurrence, i],
        )

        found = occurrences.nearest(occurrence, layer)

        assert [(near.sentence, near.position) for near in found] == [PLACES[i] for i in expected]
        assert occurrences.nearest(occurrence, layer, top_n=2) == found[:2]
        similarities = [near.similarity for near in found]
        np.testing.assert_allclose(similarities, cosines[layer, occurrence, expected], atol=1e-5)


@pytest.mark.parametrize("layer", [1, 2])
def test_the_least_similar_pair_has_the_lowest_cosine(occurrences, cosines, layer):
    first, second = occurrences.least_alike(layer)

    assert cosines[layer, first, second] == pytest.approx(cosines[layer].min(), abs=1e-5)


def test_a_word_that_does_not_occur_is_an_error(embedder):
    with pytest.raises(ValueError, match=r"The word 'river' does not occur in the text"):
        Occurrences(embedder, SENTENCES, "river")


def test_an_embedder_without_all_layers_is_refused(bilm):
    with pytest.raises(ValueError, match=r"`embedder` must return all layers.*Received: 'top'"):
        Occurrences(Embedder(bilm, layers="top"), SENTENCES, "bank")
