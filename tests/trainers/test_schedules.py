import math

import pytest
import tensorflow as tf

from elmo_tf.trainers.optimizers import learning_rate_schedule

RATE, TOTAL = 0.3, 20
STEPS = range(30)  # the optimizer counts from 0


def warmed_up(step, warmup):
    """The factor by which the warm-up scales the rate: 1 / warmup in the first step."""
    return min(1, (1 + (warmup - 1) * step / warmup) / warmup) if warmup else 1


def constant(step, warmup):
    return RATE * warmed_up(step, warmup)


def inverse_sqrt(step, warmup):
    return RATE * min((step + 1) / warmup, math.sqrt(warmup / (step + 1)))


def cosine(step, warmup):
    progress = min(max(step - warmup, 0) / (TOTAL - warmup), 1)
    return constant(step, warmup) * (0.1 + 0.9 * (1 + math.cos(math.pi * progress)) / 2)


FORMULAS = {"constant": constant, "inverse_sqrt": inverse_sqrt, "cosine": cosine}


@pytest.mark.parametrize(
    ("name", "warmup"),
    [
        *(("constant", warmup) for warmup in (0, 1, 7)),
        *(("inverse_sqrt", warmup) for warmup in (1, 7)),
        *(("cosine", warmup) for warmup in (0, 1, 7)),
    ],
)
def test_a_schedule_follows_its_formula(name, warmup):
    schedule = learning_rate_schedule(name, RATE, warmup, TOTAL)
    expected = [FORMULAS[name](step, warmup) for step in STEPS]
    assert [float(schedule(step)) for step in STEPS] == pytest.approx(expected, rel=1e-5)
    assert expected[0] > 0


@pytest.mark.parametrize("name", FORMULAS)
def test_the_rate_depends_only_on_the_step(name):
    schedule = learning_rate_schedule(name, RATE, 5, TOTAL)
    traced = tf.function(schedule, autograph=False)
    for step in (17, 3, 17):
        rate = traced(tf.constant(step, tf.int64))
        assert rate.dtype == tf.float32
        assert float(rate) == pytest.approx(float(schedule(step)))


def test_a_warm_up_takes_at_most_half_of_the_steps():
    for name in FORMULAS:
        short, clipped = (learning_rate_schedule(name, RATE, steps, 6) for steps in (3, 200))
        assert [float(short(step)) for step in STEPS] == [float(clipped(step)) for step in STEPS]
        assert float(learning_rate_schedule(name, RATE, 200, 1)(0)) == pytest.approx(RATE)
