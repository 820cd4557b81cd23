"""The attention, answers and loss of BiDAF, against plain NumPy and brute force."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.tasks.layers import masked_softmax
from elmo_tf.tasks.question_answering.model import best_spans
from reference import bidaf as reference
from task_models import new_model, with_random_weights

PASSAGES = ["the cat sat on the mat ein cat", "Zürich", "ein cat sat", "the mat 서울 on Zürich"]
QUESTIONS = ["on the mat sat the", "cat the ein on", "Zürich", "ein mat"]
TEXTS = (PASSAGES, QUESTIONS)
LENGTHS = [8, 1, 3, 5]
SPANS = np.array([[2, 5], [0, 0], [1, 2], [4, 4]])


@pytest.fixture(scope="module")
def model(bilm):
    """A model with random weights and two mixes of ELMo. Tests must not change it."""
    keras.utils.set_random_seed(0)
    return with_random_weights(new_model("bidaf", bilm, "both"))


def test_attention_with_a_null_score_never_overflows():
    scores = tf.constant([[500.0, 499.0], [-500.0, -501.0]])
    null_score = tf.constant(-1.0)

    with tf.GradientTape() as tape:
        tape.watch([scores, null_score])
        weights = masked_softmax(scores, tf.constant(True), null_score)
    gradients = tape.gradient(weights, [scores, null_score])

    np.testing.assert_allclose(weights[0], reference.softmax(np.array([1.0, 0.0])), rtol=1e-4)
    assert not np.any(weights[1])
    assert all(np.isfinite(gradient).all() for gradient in gradients)


@pytest.mark.parametrize("max_answer", [1, 3, 20])
def test_best_spans_match_brute_force_search(max_answer):
    lengths = (9, 1, 4, 0, 2)
    scores = np.random.default_rng(0).normal(size=(5, 2, 9), scale=2).astype(np.float32)
    mask = np.arange(9) < np.array(lengths)[:, None]
    masked = np.where(mask[:, None], scores, -1e9)

    starts, ends, probabilities = best_spans(masked, tf.constant(mask), max_answer)

    for row, length in enumerate(lengths):
        found = starts[row], ends[row], probabilities[row]
        if length:
            expected = reference.best_span(scores[row, :, :length], max_answer)
            np.testing.assert_allclose(found, expected, rtol=1e-5)
        else:
            assert found == (0, 0, 0)


def test_predictions_are_the_best_spans_of_the_scores(model):
    found = {name: value.numpy() for name, value in model.predictions(TEXTS).items()}

    names = "answer_start", "answer_end", "probability"
    for row, (scores, length) in enumerate(zip(model(TEXTS).numpy(), LENGTHS, strict=True)):
        start, end, probability = reference.best_span(scores[:, :length], 3)
        predicted = [found[name][row] for name in names]
        np.testing.assert_allclose(predicted, (start, end, probability), rtol=1e-4)
        answer = " ".join(PASSAGES[row].split()[start : end + 1])
        assert found["answer"][row].decode("utf-8") == answer


def test_loss_matches_the_reference_formula(model):
    scores = model(TEXTS)

    losses = model.per_example_loss(SPANS, scores, TEXTS)

    expected = [
        reference.loss(found[:, :length], *span)
        for found, length, span in zip(scores.numpy(), LENGTHS, SPANS, strict=True)
    ]
    np.testing.assert_allclose(losses, expected, rtol=1e-5, atol=1e-6)


def test_invalid_targets_are_refused(model):
    scores = model(TEXTS)

    for span in ((5, 8), (-1, 2), (4, 3)):
        with pytest.raises(ValueError, match=r"first and the last token .* within its passage"):
            model.per_example_loss(np.array([span, *SPANS[1:]]), scores)
    with pytest.raises(ValueError, match=r"\[8 1 3 5\], \[2 0 1 4\], \[5 0 2 5\]"):
        model.per_example_loss(np.array([*SPANS[:3], (4, 5)]), scores, TEXTS)  # in the padding
