import numpy as np
import pytest

from elmo_tf.layers.log_uniform import draws_for_distinct, log_uniform_probability
from reference import softmax as reference


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
