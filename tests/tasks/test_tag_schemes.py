import itertools

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.tasks.tag_schemes import (
    Span,
    TagConstraints,
    TokenError,
    constraints_of,
    converted,
    renamed,
    scheme_tags,
    spans_of,
    tags_of,
)
from elmo_tf.tasks.tagging.crf import CRF, tag_marginals
from reference import crf as reference

# One sentence in all schemes: two people side by side, a place of one token, a group of three.
TAGS = {
    "BIO": "O B-PER I-PER B-PER O B-LOC B-GRP I-GRP I-GRP",
    "IOB1": "O I-PER I-PER B-PER O I-LOC I-GRP I-GRP I-GRP",
    "BIOUL": "O B-PER L-PER U-PER O U-LOC B-GRP I-GRP L-GRP",
    "BILUO": "O B-PER L-PER U-PER O U-LOC B-GRP I-GRP L-GRP",
    "BIOES": "O B-PER E-PER S-PER O S-LOC B-GRP I-GRP E-GRP",
}
SPANS = [Span("PER", 1, 3), Span("PER", 3, 4), Span("LOC", 5, 6), Span("GRP", 6, 9)]
SCHEMES = tuple(TAGS)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_spans_are_read_from_any_scheme_and_written_in_others(scheme):
    tags = TAGS[scheme].split()

    assert spans_of(tags, scheme) == SPANS
    for target in ("BIO", "BIOUL", "BIOES"):
        assert tags_of(SPANS, len(tags), target) == TAGS[target].split()
        assert converted(tags, scheme, target) == TAGS[target].split()
    assert renamed(TAGS["BIOUL"].split(), "BIOUL", "BIO" if scheme == "IOB1" else scheme) == (
        converted(tags, scheme, scheme)
    )


def test_iob1_reads_what_is_broken_bio():
    spans = [Span("PER", 0, 1), Span("LOC", 2, 3), Span("PER", 3, 4), Span("PER", 4, 5)]
    assert spans_of(["I-PER", "O", "I-LOC", "I-PER", "B-PER"], "IOB1") == spans


@pytest.mark.parametrize(
    ("scheme", "tags", "position", "message"),
    [
        ("BIO", "I-PER", 0, "I-PER may not come first in BIO"),
        ("BIO", "B-LOC I-PER", 1, "I-PER may not follow B-LOC in BIO"),
        ("BIOUL", "B-PER O", 1, "O may not follow B-PER in BIOUL"),
        ("BIOUL", "O B-PER I-PER", 2, "I-PER may not come last in BIOUL"),
        ("BIO", "O U-PER", 1, "'U-PER' is not a tag of BIO (--scheme): O, or one of B, I with a"),
        ("BIOUL", "O O B-", 2, "'B-' is not a tag of BIOUL"),
        ("IOB1", "-PER", 0, "'-PER' is not a tag of IOB1"),
    ],
)
def test_what_a_scheme_does_not_allow_is_refused_with_its_place(scheme, tags, position, message):
    with pytest.raises(TokenError) as error:
        spans_of(tags.split(), scheme)

    assert message in str(error.value)
    assert error.value.position == position


@pytest.mark.parametrize("scheme", SCHEMES)
def test_constraints_allow_exactly_what_can_be_read(scheme):
    labels = scheme_tags(["PER", "LOC"], scheme)
    first, between, last = constraints_of(labels, scheme)

    for length in (1, 2, 3):
        for indices in itertools.product(range(len(labels)), repeat=length):
            allowed = first[indices[0]] and last[indices[-1]]
            allowed &= all(between[a][b] for a, b in itertools.pairwise(indices))
            try:
                spans_of([labels[index] for index in indices], scheme)
            except TokenError:
                assert not allowed
            else:
                assert allowed


NUM_TAGS = 3
LENGTHS = (4, 1, 0, 6, 2, 3, 5)
MASK = np.arange(7) < np.array(LENGTHS)[:, None]  # one padding token after the longest


def random_crf(rng, constraints=None, num_tags=NUM_TAGS):
    crf = CRF(num_tags, constraints)
    crf.build((None, None, num_tags))
    weights = [rng.normal(size=weight.shape) * 2 for weight in crf.weights]
    crf.set_weights(weights)
    return crf, [weight.astype(np.float32).astype(np.float64) for weight in weights]


def random_emissions(rng, num_tags=NUM_TAGS):
    return (rng.normal(size=(*MASK.shape, num_tags)) * 2).astype(np.float32)


def random_constraints(rng, num_tags=NUM_TAGS):
    """Random constraints. Sequences of the first tag alone are always allowed."""
    between = rng.random((num_tags, num_tags)) < 0.5
    first, last = rng.random((2, num_tags)) < 0.5
    between[0, 0] = first[0] = last[0] = True
    return TagConstraints(first.tolist(), between.tolist(), last.tolist())


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("is_constrained", [False, True])
@pytest.mark.parametrize(
    ("num_tokens", "dtype"), [(7, "float32"), (7, "bfloat16"), (1, "float32"), (0, "float32")]
)
def test_likelihood_tags_and_marginals_match_enumeration_of_all_sequences(
    seed, num_tokens, dtype, is_constrained
):
    """In float32, also for emissions in bfloat16."""
    rng, mask = np.random.default_rng(seed), MASK[:, :num_tokens]
    constraints = random_constraints(rng) if is_constrained else None
    crf, weights = random_crf(rng, constraints)
    emissions = tf.cast(random_emissions(rng)[:, :num_tokens], dtype)
    exact = tf.cast(emissions, tf.float64).numpy()
    tags = rng.integers(NUM_TAGS, size=mask.shape)

    likelihoods = crf.log_likelihood(emissions, tags, mask)
    best_tags = crf(emissions, mask=mask).numpy()
    marginals = tag_marginals(emissions, crf.allowed_weights(), mask)

    for row, length in enumerate(mask.sum(axis=1)):
        real = exact[row, :length]
        wanted = reference.log_likelihood(real, tags[row, :length], *weights)
        np.testing.assert_allclose(likelihoods[row], wanted, rtol=1e-5, atol=1e-5)
        best, wanted = reference.best(real, *weights, constraints)
        assert tuple(best_tags[row, :length]) == best
        np.testing.assert_allclose(marginals[row, :length], wanted, rtol=1e-5, atol=1e-5)
    assert likelihoods.dtype == marginals.dtype == tf.float32
    assert not best_tags[~mask].any()
    assert not marginals.numpy()[~mask].any()


def test_gradients_of_the_likelihood_are_tags_minus_their_marginals():
    rng = np.random.default_rng(3)
    crf, _ = random_crf(rng)
    emissions, tags = tf.constant(random_emissions(rng)), rng.integers(NUM_TAGS, size=MASK.shape)

    @tf.function
    def gradients():
        with tf.GradientTape() as tape:
            tape.watch(emissions)
            total = tf.reduce_sum(crf.log_likelihood(emissions, tags, MASK))
        return tape.gradient(total, [emissions, *crf.trainable_variables])

    of_emissions, *of_weights = gradients()

    one_hot = np.eye(NUM_TAGS)[tags] * MASK[..., None]
    wanted = one_hot - tag_marginals(emissions, crf.allowed_weights(), MASK).numpy()
    np.testing.assert_allclose(of_emissions, wanted, atol=1e-5)
    assert all(np.abs(gradient).max() > 0 for gradient in of_weights)
