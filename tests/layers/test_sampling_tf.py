import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.layers.sampled_softmax import log_uniform_probability
from elmo_tf.layers.sampling_tf import distinct_log_uniform, draws_for_distinct
from reference import softmax as reference


def test_the_same_seed_gives_the_same_sample_in_a_graph_too():
    in_graph = tf.function(lambda seed: distinct_log_uniform(7, 90, seed))

    eager, graph = distinct_log_uniform(7, 90, [1, 2]), in_graph(tf.constant([1, 2]))

    np.testing.assert_array_equal(eager[0], graph[0])
    assert eager[1] == graph[1]
    assert (distinct_log_uniform(7, 90, [2, 2])[0].numpy() != eager[0].numpy()).any()


def test_unfilled_places_of_a_sample_are_minus_one():
    samples = [distinct_log_uniform(499, 500, [0, seed])[0].numpy() for seed in range(5)]
    real = [sample[sample >= 0] for sample in samples]

    assert min(map(len, real)) < 499
    for sample, tokens in zip(samples, real, strict=True):
        assert len(set(tokens)) == len(tokens) > 480
        assert (sample[len(tokens) :] == -1).all()


def test_the_distribution_is_log_uniform_and_sums_to_one():
    probability = log_uniform_probability(np.arange(50), 50)

    np.testing.assert_allclose(probability, reference.log_uniform(50), rtol=1e-5)
    assert np.sum(probability) == pytest.approx(1, rel=1e-5)


@pytest.mark.parametrize(("num_sampled", "size"), [(1, 2), (5, 23), (22, 23), (100, 5000)])
def test_the_expected_number_of_distinct_tokens_is_the_requested_one(num_sampled, size):
    draws = draws_for_distinct(num_sampled, size)

    miss = 1 - reference.log_uniform(size)
    assert (1 - miss**draws).sum() >= num_sampled - 1e-9
    assert draws == num_sampled or (1 - miss ** (draws - 1)).sum() < num_sampled + 1e-9
