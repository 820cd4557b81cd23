import numpy as np
import pytest

from elmo_tf import Embedder
from elmo_tf.evaluation import SenseCorpus, SenseScore, evaluate_senses
from sense_files import word

pytestmark = pytest.mark.usefixtures("eager_module")

RIVER, MONEY = "bank%1:17:01::", "bank%1:14:00::"
METHODS = [
    *("first_sense", "most_frequent", "layer_0", "layer_1", "layer_2"),
    *("layer_0_mahalanobis", "layer_1_mahalanobis", "layer_2_mahalanobis"),
]


def bank(*senses):
    return word("bank", "bank", *senses)


RIVERSIDE = ["the", bank(RIVER), "of", "the", "river"]
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
    assert (report.num_sentences, report.num_occurrences) == (3, 5)


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
    (untrained,) = evaluate([[word("dog", "dog", "dog%1")]], [[bank(RIVER)]]).results
    assert set(answers(untrained, "s0.w0").values()) == {(MONEY,)}


def test_senses_outside_the_inventory_can_be_answered(evaluate):
    (results,) = evaluate([[bank("bank%new")]], [[bank("bank%new")]]).results

    assert results.scores["layer_0"]["all"].f1 == 1.0
    assert results.scores["first_sense"]["all"].f1 == 0.0


def test_held_out_texts_are_tested_and_not_trained_on(evaluate):
    train = [RIVERSIDE, [word("dog", "dog", "dog%1"), bank(MONEY)]]

    report = evaluate(train, [[bank(RIVER)]], texts=[1, 1], held_out=0.3)

    tested, held_out = report.results
    assert (tested.name, held_out.name) == ("test0", "held_out")
    assert (report.num_sentences, report.num_occurrences) == (1, 1)
    assert [one.id for one in held_out.occurrences] == ["s1.w0", "s1.w1"]
    assert held_out.trained == {"s1.w1"}
    assert held_out.answers["layer_2"] == {"s1.w0": ("dog%1",), "s1.w1": (RIVER,)}
    assert report.together() is None


def test_scores_of_several_test_sets_are_summed_over_occurrences(evaluate):
    # Both test sets have an instance s0.w0; held-out texts are not included in the sum.
    report = evaluate(
        [[bank(MONEY)], [bank(MONEY)]],
        *([[bank(MONEY), bank(RIVER)]], [[bank(MONEY)]]),
        texts=[1, 1],
        held_out=0.5,
    )

    assert list(report.together()) == METHODS
    assert report.together()["layer_1"]["all"] == SenseScore(2.0, 3, 3)
    assert report.together()["layer_1"]["verb"] == SenseScore()


def test_embedders_of_one_layer_are_refused(evaluate, bilm):
    with pytest.raises(ValueError, match=r"`embedder` must return all layers .* Received: 'top'"):
        evaluate([RIVERSIDE], [RIVERSIDE], embedder=Embedder(bilm, layers="top"))


def test_missing_training_or_test_data_is_an_error(evaluate, embedder, senses, corpus):
    with pytest.raises(ValueError, match="There is nothing to test on: name a test set, or hold"):
        evaluate([RIVERSIDE])
    with pytest.raises(ValueError, match="There is no corpus to train on"):
        evaluate_senses(embedder, [], [SenseCorpus(corpus([RIVERSIDE]))], senses)


def test_a_text_for_both_training_and_test_is_refused(embedder, senses, corpus):
    path = corpus([RIVERSIDE])

    with pytest.raises(ValueError, match=r"text\.data\.xml is given twice among the training"):
        evaluate_senses(embedder, [SenseCorpus(path)], [SenseCorpus(path)], senses)


def test_equal_names_of_test_sets_are_refused(embedder, senses, corpus, tmp_path):
    (tmp_path / "other").mkdir()
    paths = corpus([RIVERSIDE], "one"), corpus([RIVERSIDE], "other/one")

    with pytest.raises(ValueError, match="Two test sets are named 'one', after their files"):
        evaluate_senses(
            embedder,
            [SenseCorpus(corpus([RIVERSIDE], "train"))],
            [SenseCorpus(path) for path in paths],
            senses,
        )


def test_repeated_ids_of_held_out_instances_are_refused(embedder, senses, corpus):
    train = [SenseCorpus(corpus([RIVERSIDE], name)) for name in ("one", "two", "three")]

    with pytest.raises(ValueError, match=r"Two training corpora have an instance 's0\.w1', and"):
        evaluate_senses(embedder, train, [], senses, held_out=0.6)
