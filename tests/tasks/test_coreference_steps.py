"""The steps of `CoreferenceModel` that have no weights: pruning, links and their loss."""

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.tasks.coreference.antecedents import antecedent_loss, antecedents_of
from elmo_tf.tasks.coreference.spans import candidates, kept_spans
from reference import coreference as reference


def random_spans(rng, num_tokens, max_width):
    """Sentence lengths and span scores (token, width), some rounded to tie, some higher if long."""
    lengths = []
    while sum(lengths) < num_tokens:
        lengths.append(int(min(rng.integers(1, 25), num_tokens - sum(lengths))))
    scores = rng.normal(size=(num_tokens, max_width)) * rng.choice([1, 5])
    scores += rng.choice([0, 2]) * np.arange(max_width)
    scores += rng.choice([0, 1]) * np.arange(num_tokens)[:, None]
    return lengths, (scores if rng.random() < 0.5 else np.round(scores)).astype(np.float32)


@pytest.mark.parametrize("max_width", [1, 2, 5, 10])
def test_kept_spans_match_the_reference_loop(max_width):
    rng = np.random.default_rng(max_width)
    dtypes = {tf.float32: (None, max_width), tf.bool: (None, max_width), tf.int32: ()}
    signature = [tf.TensorSpec(shape, dtype) for dtype, shape in dtypes.items()]
    keep = tf.function(kept_spans, input_signature=signature, autograph=False)
    for _ in range(60):
        num_tokens = int(rng.integers(1, 60))
        lengths, scores = random_spans(rng, num_tokens, max_width)
        sentences = np.repeat(np.arange(len(lengths)), lengths)
        is_candidate = candidates(tf.constant(sentences), max_width).numpy()
        spans = reference.candidates(lengths, max_width)
        assert is_candidate.sum() == len(spans)
        by_span = {(i, j): scores[i, j - i] for i, j in spans if is_candidate[i, j - i]}
        num_spans = int(rng.integers(0, 2 * num_tokens))

        found = keep(scores, is_candidate, num_spans).numpy().tolist()

        kept = reference.kept_spans(by_span, num_spans)
        assert [(each // max_width, each // max_width + each % max_width) for each in found] == kept


def test_loss_of_confident_correct_scores_is_zero_with_finite_gradients():
    scores = tf.Variable([[0.0, -1e9], [0.0, 50.0], [0.0, -50.0]])
    antecedents = antecedents_of(tf.range(3), 1)
    with tf.GradientTape() as tape:
        loss = antecedent_loss(scores, antecedents, tf.constant([4, 4, -1]))

    assert loss == 0
    assert np.isfinite(tape.gradient(loss, scores)).all()
