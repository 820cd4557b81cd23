"""Word sense disambiguation: vectors of senses, answers, and scores."""

import numpy as np
import pytest

from elmo_tf import Embedder
from elmo_tf.evaluation import evaluate_senses
from elmo_tf.evaluation.senses import (
    SenseInstance,
    SenseSentence,
    instance_vectors,
    mean_sense_vectors,
)

pytestmark = pytest.mark.usefixtures("eager_module")

BANK, RIVER, MONEY = ("bank", "noun"), "bank%1:17:01::", "bank%1:14:00::"
INVENTORY = {BANK: [MONEY, RIVER], ("cat", "noun"): ["cat%1"], ("dog", "noun"): ["dog%1"]}


def sentence(number, text, *senses, lemma="bank", pos="noun"):
    """A sentence with one instance, the word of its lemma."""
    tokens = text.split()
    place = tokens.index(lemma)
    instance = SenseInstance(f"s{number}", lemma, pos, place, place + 1, senses)
    return SenseSentence(tokens, [instance])


RIVERSIDE = sentence(0, "the bank of the river", RIVER)


def test_the_answers_equal_a_direct_search(embedder):
    rng = np.random.default_rng(3)
    keys = [f"bank%1:0{n}" for n in range(4)]

    def draw(number):
        words = rng.choice(["to", "Tom", "a", "river", "in", "1.5"], size=rng.integers(2, 7))
        text = " ".join([*words[:2], "bank", *words[2:]])
        return sentence(number, text, keys[rng.integers(4)])

    train, test = [draw(n) for n in range(40)], [draw(n) for n in range(25)]

    found = evaluate_senses(embedder, train, {"test": test}, {})

    def vectors(sentences):
        arrays = embedder.embed([one.tokens for one in sentences])
        return np.stack([array[:, 2] for array in arrays])  # (sentence, layer, feature)

    senses_of = np.array([one.instances[0].senses[0] for one in train])
    trained, right = vectors(train), 0
    means = np.stack([trained[senses_of == key].mean(axis=0) for key in keys])
    for one, vector in zip(test, vectors(test), strict=True):
        for layer in (1, 2):
            cosines = [mean[layer] @ vector[layer] / np.linalg.norm(mean[layer]) for mean in means]
            expected = keys[int(np.argmax(cosines))]
            assert found["answers"]["test"][f"layer_{layer}"][one.instances[0].id] == expected
        right += expected == one.instances[0].senses[0]
    assert found["f1"]["layer_2"]["test"] == found["f1"]["layer_2"]["noun"] == right / 25
    assert 0 < right < 25
    # In layer 0 all senses are equally near: the most frequent one is the answer.
    assert found["answers"]["test"]["layer_0"] == found["answers"]["test"]["most_frequent"]


def test_answers_depend_on_the_part_of_speech_and_may_be_outside_the_inventory(embedder):
    train = [RIVERSIDE, sentence(1, "the dog", "dog%new", lemma="dog")]
    test = [
        sentence(0, "they bank", "bank%2", pos="verb"),
        sentence(1, "a dog", "dog%new", lemma="dog"),
        # Not in the training data. Each gold key is a right answer.
        sentence(2, "a cat", "cat%2", "cat%1", lemma="cat"),
    ]

    found = evaluate_senses(embedder, train, {"test": test}, INVENTORY)

    answers = found["answers"]["test"]
    assert answers["first_sense"] == {"s0": None, "s1": "dog%1", "s2": "cat%1"}
    for method in ("most_frequent", "layer_0", "layer_1", "layer_2"):
        assert answers[method] == {"s0": None, "s1": "dog%new", "s2": "cat%1"}
        assert found["f1"][method]["test"] == 2 * 2 / (2 + 3)  # two answers, three instances


def test_senses_are_means_in_the_order_of_frequency_and_of_the_inventory():
    north, east, _ = np.eye(3, dtype=np.float32)
    instance = RIVERSIDE.instances[0]
    keys = ("new", "third", "first", "many", "many")
    instances = [(instance._replace(senses=(key,)), north[None]) for key in keys]
    instances.append((instance._replace(senses=("third", "many")), east[None]))  # for both

    senses = mean_sense_vectors(instances, {BANK: ["first", "many", "third"]})

    keys, units = senses[BANK]
    assert keys == ["many", "third", "first", "new"]
    many, third = (2 * north + east) / 5**0.5, (north + east) / 2**0.5
    np.testing.assert_allclose(units, [[many, third, north, north]], atol=1e-6)


def test_the_vector_of_an_instance_is_the_mean_over_its_tokens(embedder):
    tokens = ["The", "Grand", "Jury", "said"]
    jury = SenseInstance("id", "grand_jury", "noun", 1, 3, ("jury",))
    dog = SenseInstance("id", "dog", "noun", 0, 1, ("dog",))
    sentences = [
        SenseSentence(tokens, [dog, jury]),
        SenseSentence([""], [dog]),  # not embedded: an embedder refuses an empty token
        SenseSentence(["no", "senses"], []),
    ]

    ((found, vectors),) = instance_vectors(embedder, sentences, {("grand_jury", "noun")})

    (expected,) = embedder.embed([tokens])
    assert found == jury
    np.testing.assert_allclose(vectors, (expected[:, 1] + expected[:, 2]) / 2, atol=1e-6)


def test_non_finite_vectors_and_single_layers_are_errors(fresh_bilm, bilm):
    with pytest.raises(ValueError, match=r"`embedder` must return all layers.* Received: 'top'"):
        evaluate_senses(Embedder(bilm, layers="top"), [RIVERSIDE], {"test": [RIVERSIDE]}, {})
    bilm = fresh_bilm()
    weight = bilm.trainable_weights[-1]
    weight.assign(np.full(weight.shape, np.nan))
    with pytest.raises(ValueError, match="Vectors of 's0' are not finite"):
        list(instance_vectors(Embedder(bilm), [RIVERSIDE], {BANK}))
