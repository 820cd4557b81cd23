import math

import pytest

from elmo_tf.trainers.schedules import learning_rate_schedule

RATE, TOTAL = 0.3, 20
STEPS = range(30)  # the optimizer counts from 0


def constant(step, warmup):
    """During the warm-up, the rate rises from RATE / warmup."""
    return RATE * (min(1, (1 + (warmup - 1) * step / warmup) / warmup) if warmup else 1)


def inverse_sqrt(step, warmup):
    return RATE * min((step + 1) / warmup, math.sqrt(warmup / (step + 1)))


def cosine(step, warmup):
    progress = min(max(step - warmup, 0) / (TOTAL - warmup), 1)
    return constant(step, warmup) * (0.1 + 0.9 * (1 + math.cos(math.pi * progress)) / 2)


@pytest.mark.parametrize("formula", [constant, inverse_sqrt, cosine])
@pytest.mark.parametrize("warmup", [0, 1, 7, 200])
def test_a_schedule_follows_its_formula(formula, warmup):
    """The warm-up takes at most half of the steps."""
    if warmup == 0 and formula is inverse_sqrt:
        return
    schedule = learning_rate_schedule(formula.__name__, RATE, warmup, TOTAL)
    expected = [formula(step, min(warmup, TOTAL // 2)) for step in STEPS]
    assert [float(schedule(step)) for step in STEPS] == pytest.approx(expected, rel=1e-5)
    alone = learning_rate_schedule(formula.__name__, RATE, warmup, 1)
    assert float(alone(0)) == pytest.approx(RATE)
