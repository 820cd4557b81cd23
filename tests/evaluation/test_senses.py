"""Word sense disambiguation: vectors of senses, answers, held-out texts, and scores."""

import numpy as np
import pytest

from elmo_tf import Embedder
from elmo_tf.evaluation import (
    SenseCorpus,
    SenseInventory,
    SenseScore,
    evaluate_senses,
    sense_scores,
)
from elmo_tf.evaluation.sense_corpus import SenseInstance, SenseSentence
from elmo_tf.evaluation.sense_vectors import NearestSenses, instance_vectors, mean_sense_vectors
from elmo_tf.evaluation.senses import held_out_texts
from elmo_tf.evaluation.whitening import Whitening
from sense_files import word, write_corpus, write_inventory

pytestmark = pytest.mark.usefixtures("eager_module")

RIVER, MONEY = "bank%1:17:01::", "bank%1:14:00::"
METHODS = [
    *("first_sense", "most_frequent", "layer_0", "layer_1", "layer_2"),
    *("layer_0_mahalanobis", "layer_1_mahalanobis", "layer_2_mahalanobis"),
]


@pytest.fixture
def corpus(tmp_path):
    """Writes a sense-annotated text and its gold keys; returns the path of the text."""

    def write(sentences, name="text", **kwargs):
        return write_corpus(tmp_path / f"{name}.data.xml", sentences, **kwargs)

    return write


@pytest.fixture
def inventory(tmp_path):
    """Writes an inventory and reads it."""

    def read(*lines):
        return SenseInventory(write_inventory(tmp_path / "senses.tsv", *lines))

    return read


def bank(*senses):
    return word("bank", "bank", *senses)


RIVERSIDE = ["the", bank(RIVER), "of", "the", "river"]
DOG = word("dog", "dog", "dog%new")
SAVINGS = [bank(MONEY), "rates", "rose", word("sharply", "sharply", "sharply%4", pos="adv")]


@pytest.fixture
def senses(inventory):
    return inventory(f"bank n {MONEY}", f"bank n {RIVER}", "cat n cat%1", "dog n dog%1")


@pytest.fixture
def evaluate(corpus, embedder, senses):
    """Trains on some sentences and tests on others."""

    def call(train, *tests, embedder=embedder, texts=None, **kwargs):
        return evaluate_senses(
            embedder,
            [SenseCorpus(corpus(train, "train", texts=texts))],
            [SenseCorpus(corpus(test, f"test{n}")) for n, test in enumerate(tests)],
            senses,
            **kwargs,
        )

    return call


def answers(results, occurrence):
    return {method: given[occurrence] for method, given in results.answers.items()}


def test_a_training_sentence_gets_its_training_sense(evaluate):
    report = evaluate([RIVERSIDE, SAVINGS, SAVINGS], [RIVERSIDE, SAVINGS])

    (results,) = report.results
    # Layer 0 has no context: both senses are equally near, and the more frequent one wins.
    expected = [(MONEY,), (MONEY,), *[(MONEY,), (RIVER,), (RIVER,)] * 2]
    assert answers(results, "s0.w1") == dict(zip(METHODS, expected, strict=True))
    assert set(answers(results, "s1.w0").values()) == {(MONEY,)}
    assert (report.num_sentences, report.num_instances) == (3, 5)


def test_answers_equal_a_reference_nearest_neighbor_search(evaluate, embedder):
    rng = np.random.default_rng(3)
    keys = [f"bank%1:0{n}" for n in range(4)]

    def sentence():
        words = list(rng.choice(["to", "Tom", "a", "river", "in", "1.5"], size=rng.integers(2, 7)))
        return [*words[:2], bank(keys[rng.integers(4)]), *words[2:]]

    train, test = [sentence() for _ in range(40)], [sentence() for _ in range(25)]

    (results,) = evaluate(train, test).results

    def vectors(sentences):
        plain = [[one if isinstance(one, str) else one[0] for one in line] for line in sentences]
        return np.stack([array[:, 2] for array in embedder.embed(plain)])  # (sentence, layer, …)

    senses_of = np.array([line[2][3][0] for line in train])
    trained = vectors(train)
    means = np.stack([trained[senses_of == key].mean(axis=0) for key in keys])
    for number, vector in enumerate(vectors(test)):
        for layer in (1, 2):  # layer 0 does not depend on the context
            cosines = [mean[layer] @ vector[layer] / np.linalg.norm(mean[layer]) for mean in means]
            expected = keys[int(np.argmax(cosines))]
            assert results.answers[f"layer_{layer}"][f"s{number}.w2"] == (expected,)
            # The shrinkage of correlations for 40 vectors of `dim` features.
            share = 40 / (40 + trained.shape[2])
            covariance = np.cov(trained[:, layer].astype(np.float64).T, bias=True)
            covariance = share * covariance + (1 - share) * np.diag(np.diag(covariance))
            offsets = [mean[layer] - vector[layer] for mean in means]
            inverse = np.linalg.pinv(covariance)  # constant features are ignored
            distances = [offset @ inverse @ offset for offset in offsets]
            expected = keys[int(np.argmin(distances))]
            given = results.answers[f"layer_{layer}_mahalanobis"][f"s{number}.w2"]
            assert given == (expected,)
    right = sum(results.answers["layer_1"][f"s{n}.w2"] == line[2][3] for n, line in enumerate(test))
    assert results.scores["layer_1"]["noun"] == SenseScore(right, 25, 25)
    assert 0 < right < 25


def test_untrained_lemmas_get_the_first_sense_or_no_answer(evaluate):
    test = [
        [bank(RIVER), word("cat", "cat", "cat%1"), word("Oslo", "oslo", "oslo%1")],
        # A lemma is trained with its part of speech.
        [word("bank", "bank", "bank%2", pos="verb")],
    ]

    (results,) = evaluate([RIVERSIDE], test).results

    assert results.trained == {"s0.w0"}
    assert set(answers(results, "s0.w1").values()) == {("cat%1",)}
    assert (
        set(answers(results, "s0.w2").values()) == set(answers(results, "s1.w0").values()) == {()}
    )
    assert results.scores["layer_2"]["all"] == SenseScore(2.0, 2, 4)
    assert results.scores["first_sense"]["all"] == SenseScore(1.0, 2, 4)
    assert results.scores["layer_2"]["verb"] == SenseScore(0.0, 0, 1)
    assert results.trained_scores["layer_2"]["all"] == SenseScore(1.0, 1, 1)
    assert results.trained_scores["first_sense"]["all"] == SenseScore(0.0, 1, 1)
    untrained, outside = evaluate([[DOG]], [[bank(RIVER)]], [[DOG]]).results
    assert set(answers(untrained, "s0.w0").values()) == {(MONEY,)}
    # A sense outside the inventory can be answered.
    assert outside.scores["layer_0"]["all"].f1 == 1.0
    assert outside.scores["first_sense"]["all"].f1 == 0.0


def test_held_out_texts_are_tested_and_not_trained_on(evaluate):
    train = [RIVERSIDE, [word("dog", "dog", "dog%1"), bank(MONEY)]]

    report = evaluate(train, [[bank(RIVER)]], [[bank(RIVER), DOG]], texts=[1, 1], held_out=0.3)

    held_out = report.results[2]
    assert [results.name for results in report.results] == ["test0", "test1", "held_out"]
    assert (report.num_sentences, report.num_instances) == (1, 1)
    assert [one.id for one in held_out.instances] == ["s1.w0", "s1.w1"]
    assert held_out.trained == {"s1.w1"}
    assert held_out.answers["layer_2"] == {"s1.w0": ("dog%1",), "s1.w1": (RIVER,)}
    # The first two test sets, both with an instance s0.w0, are scored together.
    assert list(report.together()) == METHODS
    assert report.together()["layer_1"]["all"] == SenseScore(2.0, 3, 3)
    assert report.together()["layer_1"]["verb"] == SenseScore()
    assert evaluate(train, [[bank(RIVER)]]).together() is None


def test_wrong_corpora_and_embedders_are_refused(
    evaluate, bilm, embedder, senses, corpus, tmp_path
):
    (tmp_path / "other").mkdir()
    names = ("one", "two", "three", "other/one")
    one, two, three, other = (SenseCorpus(corpus([RIVERSIDE], name)) for name in names)
    for train, tests, held_out, message in (
        ([one], [], 0, "There is nothing to test on: name a test set, or hold"),
        ([], [one], 0, "There is no corpus to train on"),
        ([one], [one], 0, r"one\.data\.xml is given twice among the training"),
        ([two], [one, other], 0, "Two test sets are named 'one', after their files"),
        ([one, two, three], [], 0.6, r"Two training corpora have an instance 's0\.w1', and"),
    ):
        with pytest.raises(ValueError, match=message):
            evaluate_senses(embedder, train, tests, senses, held_out)
    with pytest.raises(ValueError, match=r"`embedder` must return all layers .* Received: 'top'"):
        evaluate([RIVERSIDE], [RIVERSIDE], embedder=Embedder(bilm, layers="top"))


def instance(*senses, lemma="bank", pos="noun", first=0, end=1):
    return SenseInstance("id", lemma, pos, first, end, senses)


NORTH, EAST, _ = np.eye(3, dtype=np.float32)


def test_senses_are_means_in_the_order_of_frequency_and_of_the_inventory(inventory):
    keys = ("new", "third", "first", "many", "many")
    instances = [(instance(key), np.stack([NORTH])) for key in keys]
    instances.append((instance("third", "many"), np.stack([EAST])))  # counts for both senses
    order = inventory("bank n first", "bank n many", "bank n third")

    whitening = Whitening(3)
    senses = mean_sense_vectors(iter(instances), order, [whitening])["bank", "noun"]

    assert senses.keys == ["many", "third", "first", "new"]
    many, third = (2 * NORTH + EAST) / 3, (NORTH + EAST) / 2
    np.testing.assert_allclose(senses.means, [[many, third, NORTH, NORTH]], atol=1e-6)
    assert whitening.count == len(instances)
    whitening.fit(0.5)
    nearest = NearestSenses({("bank", "noun"): senses}, [whitening])
    vectors = np.stack([NORTH, EAST, 0 * EAST])[None]
    north, unknown, zero = nearest([("bank", "noun"), ("bank", "verb"), ("bank", "noun")], vectors)
    assert north == ["many", "first", "first"]  # as near as "new"
    assert (unknown, zero) == ([], ["many", "many", "third"])


def test_the_vector_of_an_instance_is_the_mean_over_its_tokens(embedder):
    tokens = ["The", "Grand", "Jury", "said"]
    jury = instance("jury", lemma="grand_jury", first=1, end=3)
    dog = instance("dog%1", lemma="dog")
    sentences = [
        SenseSentence(0, tokens, [dog, jury]),
        SenseSentence(0, [""], [dog]),  # not embedded: an embedder refuses an empty token
        SenseSentence(0, ["no", "senses"], []),
    ]

    ((found, vectors),) = instance_vectors(embedder, sentences, {("grand_jury", "noun")})

    (expected,) = embedder.embed([tokens])
    assert found == jury
    np.testing.assert_allclose(vectors, (expected[:, 1] + expected[:, 2]) / 2, atol=1e-6)


def test_non_finite_vectors_are_an_error(fresh_bilm):
    bilm = fresh_bilm()
    weight = bilm.trainable_weights[-1]
    weight.assign(np.full(weight.shape, np.nan))
    sentence = SenseSentence(0, ["the", "bank"], [instance("bank%1", first=1, end=2)])

    with pytest.raises(ValueError, match="Vectors of 'id' are not finite"):
        list(instance_vectors(Embedder(bilm), [sentence], {("bank", "noun")}))


@pytest.fixture
def texts(corpus):
    """Two corpora with texts of 2, 1, 2, and 3 instances, and a sentence without instances."""
    cat = word("cat", "cat", "cat%1")
    one, two = [["a", cat, cat], ["b", cat], ["c"]], [["d", cat], ["e", cat], ["f", cat, cat, cat]]
    paths = corpus(one, "one", texts=[1, 2]), corpus(two, "two", texts=[2, 1])
    return [SenseCorpus(path) for path in paths]


@pytest.mark.parametrize(
    ("share", "held_out", "sentences", "instances"),
    [
        (0, set(), 6, 8),
        (0.01, {(1, 1)}, 5, 5),  # texts are not split
        (3 / 8, {(1, 1)}, 5, 5),
        (0.38, {(1, 0), (1, 1)}, 3, 3),
        (0.75, {(0, 1), (1, 0), (1, 1)}, 1, 2),
    ],
)
def test_the_last_texts_are_held_out_by_share(texts, share, held_out, sentences, instances):
    assert held_out_texts(texts, share) == (held_out, sentences, instances)


def test_holding_out_all_texts_is_an_error(texts):
    allowed = "`held_out` must be from 0 to below 1"
    none_left = r"Holding out 0\.76 of the instances would leave no text"
    for share, message in ((0.76, none_left), (-0.1, allowed), (1.0, allowed)):
        with pytest.raises(ValueError, match=message):
            held_out_texts(texts, share)


GOLD = {"a": ("s1",), "b": ("s1", "s2"), "c": ("s3",), "d": ("s4",)}
POS = {"a": "noun", "b": "verb", "c": "noun", "d": "adv"}


@pytest.mark.parametrize(
    ("answers", "precision", "recall", "f1"),
    [
        # a and b are right (one of several gold keys is enough), c and d wrong.
        ({"a": ["s1"], "b": ["s2"], "c": ["s1"], "d": ["s1"]}, 0.5, 0.5, 0.5),
        # Two of two answers are correct, for two of four instances: 2 · 1 · ½ / 1½.
        ({"a": ["s1"], "b": ["s1"], "c": [], "x": ["s1"]}, 1, 0.5, 2 / 3),
        # a: one of two is right, ½; b: two of three, ⅔; c: a repeated answer counts once, 1; d: 0.
        (
            {"a": ["s1", "s9"], "b": ["s1", "s2", "s3"], "c": ["s3", "s3"], "d": ["s1", "s2"]},
            *[(0.5 + 2 / 3 + 1) / 4] * 3,
        ),
        ({}, 0, 0, 0),
    ],
)
def test_answers_share_the_credit_of_an_instance(answers, precision, recall, f1):
    score = sense_scores(GOLD, answers, POS)["all"]

    assert score.instances == 4
    assert (score.precision, score.recall, score.f1) == pytest.approx((precision, recall, f1))


def test_parts_of_speech_are_scored_separately_and_together():
    scores = sense_scores(GOLD, {"a": ["s1"], "b": ["s1"], "c": ["s9"]}, POS)

    assert list(scores) == ["all", "noun", "verb", "adj", "adv"]
    assert scores["noun"] == SenseScore(1.0, 2, 2)
    assert scores["verb"] == SenseScore(1.0, 1, 1)
    assert scores["adj"] == SenseScore()
    assert scores["adv"] == SenseScore(0.0, 0, 1)
    assert sum(list(scores.values())[1:], SenseScore()) == scores["all"] == SenseScore(2.0, 3, 4)
