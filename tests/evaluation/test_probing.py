import random

import keras
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from elmo_tf import BiLM, BiLMConfig, Embedder
from elmo_tf.evaluation import probe, probing
from elmo_tf.evaluation.probing import classify, whitening
from elmo_tf.tasks.tagging import TaggedSentence

pytestmark = pytest.mark.usefixtures("eager_module")

TRAIN = [
    TaggedSentence(["the", "dog", "saw", "a", "saw"], ["D", "N", "V", "D", "N"]),
    TaggedSentence(["a", "dog", "saw", "cats"], ["D", "N", "V", "N"]),
]
TEST = [
    TaggedSentence(["the", "saw", "saw", "a", "house"], ["D", "N", "V", "D", "N"]),
    TaggedSentence(["cats", "sleep", "well"], ["N", "V", "ADV"]),
]
WORDS = ["one", "two", "three", "four", "stop"]


def follows_stop(count, seed):
    """Sentences of random words; the tag of each says whether `stop` precedes it."""
    draw = random.Random(seed)
    sentences = []
    for _ in range(count):
        tokens = draw.choices(WORDS, weights=[1, 1, 1, 1, 3], k=draw.randint(1, 9))
        before = ["", *tokens[:-1]]
        sentences.append(TaggedSentence(tokens, ["no" if t != "stop" else "yes" for t in before]))
    return sentences


def test_data_are_counted_and_the_baseline_uses_the_most_frequent_tags(embedder):
    found = probe(embedder, TRAIN, TEST)

    # the/D saw/V saw/V a/D house/N cats/N sleep/N well/N: "saw" is mostly V; N is the commonest.
    assert found["baseline"] == {"all": 5 / 8, "known": 4 / 5, "unknown": 1 / 3}
    assert found["tags"] == 3
    assert (found["train_sentences"], found["train_tokens"]) == (2, 9)
    assert (found["test_sentences"], found["test_tokens"]) == (2, 8)
    assert found["test_unknown"] == 3
    assert found["test_unseen_tags"] == 1  # ADV
    assert [one["layer"] for one in found["layers"]] == [0, 1, 2]
    for one in found["layers"]:
        assert one["accuracy"]["unknown"] <= 2 / 3


def test_only_layers_above_0_depend_on_the_context():
    keras.utils.set_random_seed(0)  # the vectors of an untrained biLM encode much of the context
    embedder = Embedder(BiLM(BiLMConfig.preset("tiny")))
    train, test = follows_stop(300, seed=1), follows_stop(100, seed=2)

    found = probe(embedder, train, test, c=10.0, max_iterations=1000)

    accuracies = [one["accuracy"] for one in found["layers"]]
    tokens_alone, first, _ = (accuracy["all"] for accuracy in accuracies)
    assert tokens_alone == pytest.approx(found["baseline"]["all"], abs=0.05)
    assert first > 0.9 > found["baseline"]["all"] + 0.2
    assert all(one["converged"] and 1 < one["iterations"] < 1000 for one in found["layers"])
    for accuracy in (*accuracies, found["baseline"]):
        assert accuracy["unknown"] is None
        assert accuracy["known"] == accuracy["all"]


@pytest.mark.parametrize(
    ("train", "settings", "message"),
    [
        ([], {}, r"There is no token in the training data"),
        ([TaggedSentence(["a"], ["_"])], {}, r"All training tokens have the tag '_'.*--tag-column"),
        (TRAIN, {"c": 0.0}, r"`c` above 0\. Received: 200, 500000 and 0\.0"),
        (TRAIN, {"max_iterations": 0}, "must be at least 1"),
    ],
)
def test_invalid_data_and_settings_are_errors(embedder, train, settings, message):
    with pytest.raises(ValueError, match=message):
        probe(embedder, train, TEST, **settings)


@pytest.mark.parametrize(("dtype", "shift"), [(np.float32, 0), (np.float16, 100)])
def test_whitened_vectors_have_zero_mean_and_identity_covariance(monkeypatch, dtype, shift):
    monkeypatch.setattr(probing, "_ROWS_PER_CHUNK", 150)
    rng = np.random.default_rng(0)
    # Correlated features of different scales, without variance, and repeated.
    mixed = rng.normal(size=(400, 5)) @ rng.normal(size=(5, 5)) * [1, 1e3, 0.1, 1, 3] + 100 - shift
    vectors = np.hstack([mixed, np.full((400, 1), 7), mixed]).astype(dtype)

    mean, matrix = whitening(vectors)

    white = (vectors - mean) @ matrix
    assert white.shape == (400, 5)
    np.testing.assert_allclose(white.mean(0), np.zeros(5), atol=1e-4)
    np.testing.assert_allclose(np.cov(white.T, bias=True), np.eye(5), atol=1e-3)
    same = np.full((3, 5), 2.5, np.float32)
    mean, matrix = whitening(same)
    np.testing.assert_array_equal((same - mean) @ matrix, np.zeros((3, 1)))


MEANS = np.array([[0.0, 1.0], [1.5, -0.5], [-1.0, -1.0]])


def examples(count, seed=0):
    """Points of three overlapping clouds; one feature is 100 times as large as the other."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(0, 3, count)
    points = MEANS[classes] + rng.normal(0, 0.8, (count, 2))
    return (points * [1, 100] + [7, -30]).astype(np.float32), classes


@pytest.mark.parametrize("c", [10.0, 0.01])
def test_the_minimum_is_found_on_decorrelated_features(c, monkeypatch):
    monkeypatch.setattr(probing, "_ROWS_PER_CHUNK", 150)
    points, classes = examples(400)
    others, _ = examples(3000, seed=1)
    mean = points.mean(0, np.float64)
    # All ways to decorrelate differ by a rotation, which does not change the minimum.
    covariance = np.cov(points.astype(np.float64).T, bias=True)
    matrix = np.linalg.inv(np.linalg.cholesky(covariance)).T
    exact = LogisticRegression(C=c, tol=1e-9, max_iter=4000).fit((points - mean) @ matrix, classes)
    expected = exact.predict((others - mean) @ matrix)

    found, iterations = classify(points, classes, others, c, max_iterations=100)

    assert 1 < iterations < 100
    # Only points between two classes may differ.
    assert (found != expected).mean() < 0.01
    assert classify(points, classes, others, c, max_iterations=2)[1] == 2
