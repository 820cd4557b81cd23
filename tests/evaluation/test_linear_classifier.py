import numpy as np
import pytest

from elmo_tf.evaluation import probing
from elmo_tf.evaluation.probing import LinearClassifier

MEANS = np.array([[0.0, 1.0], [1.5, -0.5], [-1.0, -1.0]])


def examples(count, seed=0):
    """Points of three overlapping clouds; one feature is 100 times as large as the other."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(0, 3, count)
    points = MEANS[classes] + rng.normal(0, 0.8, (count, 2))
    return (points * [1, 100] + [7, -30]).astype(np.float32), classes


def reference(points, classes, c, steps=4000):
    """Weights and bias at the minimum, by gradient descent in float64."""
    weights, bias = np.zeros((3, points.shape[1])), np.zeros(3)
    for _ in range(steps):
        logits = points @ weights.T + bias
        errors = np.exp(logits - logits.max(1, keepdims=True))
        errors /= errors.sum(1, keepdims=True)
        errors[np.arange(len(classes)), classes] -= 1
        weights -= (errors.T @ points + weights / c) / len(points)
        bias -= errors.mean(0)
    return weights, bias


@pytest.mark.parametrize("c", [10.0, 0.01])
def test_the_minimum_is_found_on_decorrelated_features(c, monkeypatch):
    monkeypatch.setattr(probing, "_ROWS_PER_CHUNK", 150)
    points, classes = examples(400)
    others, _ = examples(3000, seed=1)
    mean = points.mean(0, np.float64)
    # All ways to decorrelate differ by a rotation, which does not change the minimum.
    matrix = np.linalg.inv(np.linalg.cholesky(np.cov(points.T, bias=True))).T
    weights, bias = reference((points - mean) @ matrix, classes, c)
    expected = ((others - mean) @ matrix @ weights.T + bias).argmax(1)

    classifier = LinearClassifier(points, classes, c, max_iterations=100)

    assert classifier.converged
    assert 1 < classifier.iterations < 100
    # Only points between two classes may differ.
    assert (classifier.predict(others) != expected).mean() < 0.01


def test_large_values_of_a_feature_do_not_change_the_accuracy():
    points, classes = examples(300)
    noise = np.random.default_rng(2).normal(0, 1, (300, 1)).astype(np.float32)

    shares = [
        (LinearClassifier(found, classes, 1.0, 50).predict(found) == classes).mean()
        for found in (np.hstack([points / [1, 100], noise * size]) for size in (1, 1e5))
    ]

    assert shares[0] == pytest.approx(shares[1], abs=0.01)


def test_features_that_vary_only_by_rounding_are_ignored():
    points, classes = examples(300)
    rounded = np.float32(1000) + np.random.default_rng(2).choice([0, 1e-4], (300, 1))

    found = LinearClassifier(np.hstack([points, rounded]), classes, 1.0, 50)

    others, _ = examples(300, seed=1)
    expected = LinearClassifier(points, classes, 1.0, 50).predict(others)
    far = np.hstack([others, np.full((300, 1), 990)])
    np.testing.assert_array_equal(found.predict(far), expected)


def test_fewer_vectors_than_features_are_supported():
    rng = np.random.default_rng(4)
    vectors = rng.normal(size=(10, 50)).astype(np.float16)
    classes = np.array([0, 1, 2, 1, 0] * 2)

    classifier = LinearClassifier(vectors, classes, 1.0, 100)

    assert classifier.predict(vectors).tolist() == classes.tolist()
    assert classifier.converged


def test_stopping_before_convergence_is_reported_without_a_warning():
    points, classes = examples(300)

    classifier = LinearClassifier(points, classes, 1.0, max_iterations=2)

    assert not classifier.converged
    assert classifier.iterations == 2
