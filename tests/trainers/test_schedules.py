import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.trainers.schedules import (
    ConstantWithWarmup,
    CosineWithWarmup,
    InverseSqrtWithWarmup,
    learning_rate_schedule,
)

STEPS = range(30)


def constant(t, warmup):
    return 0.3 * min(1, t / warmup) if warmup else 0.3


def inverse_sqrt(t, warmup):
    return 0.3 * min(t / warmup, math.sqrt(warmup / t))


def cosine(t, warmup, total=20, final=0.1):
    if t < warmup:
        falling = 1
    elif t > total:
        falling = final
    else:
        share = (t - warmup) / (total - warmup)
        falling = final + (1 - final) * (1 + math.cos(math.pi * share)) / 2
    return constant(t, warmup) * falling


FORMULAS = {"constant": constant, "inverse_sqrt": inverse_sqrt, "cosine": cosine}


@pytest.mark.parametrize(
    ("name", "warmup"),
    [
        *(("constant", warmup) for warmup in (0, 1, 7)),
        *(("inverse_sqrt", warmup) for warmup in (1, 7)),
        *(("cosine", warmup) for warmup in (0, 1, 7)),
    ],
)
def test_a_schedule_follows_its_formula_with_steps_counted_from_one(name, warmup):
    schedule = learning_rate_schedule(name, 0.3, warmup, 20)
    expected = [FORMULAS[name](step + 1, warmup) for step in STEPS]
    np.testing.assert_allclose([float(schedule(step)) for step in STEPS], expected, rtol=1e-5)


@pytest.mark.parametrize("name", FORMULAS)
def test_the_first_step_learns_and_the_highest_rate_ends_the_rise(name):
    schedule = learning_rate_schedule(name, 0.3, 5, 20)
    rates = [float(schedule(step)) for step in STEPS]
    assert rates[0] == pytest.approx(0.3 / 5)
    assert max(rates) == rates[4] == pytest.approx(0.3)


def test_a_cosine_ends_at_its_final_fraction():
    schedule = CosineWithWarmup(0.3, 2, 12, final_fraction=0.25)
    assert [float(schedule(step)) for step in (11, 12, 10**6)] == pytest.approx([0.075] * 3)


@pytest.mark.parametrize("name", FORMULAS)
def test_the_rate_depends_on_the_step_alone(name):
    schedule = learning_rate_schedule(name, 0.3, 5, 20)
    traced = tf.function(schedule, autograph=False)
    for step in (17, 3, 17):
        rate = traced(tf.constant(step, tf.int64))
        assert rate.dtype == tf.float32
        assert float(rate) == pytest.approx(float(schedule(step)))


@pytest.mark.parametrize(
    "schedule",
    [
        ConstantWithWarmup(0.3, 5),
        InverseSqrtWithWarmup(0.3, 5),
        CosineWithWarmup(0.3, 5, 20, 0.2),
    ],
)
def test_a_schedule_survives_its_configuration(schedule):
    content = keras.saving.serialize_keras_object(schedule)
    assert content["registered_name"] == f"elmo_tf>{type(schedule).__name__}"
    copy = keras.saving.deserialize_keras_object(content)
    assert copy.get_config() == schedule.get_config()
    assert [float(copy(step)) for step in STEPS] == [float(schedule(step)) for step in STEPS]


def test_an_unknown_name_is_refused_with_those_that_are_known():
    with pytest.raises(
        ValueError, match=r"must be one of constant, inverse_sqrt, cosine. Received: 'linear'"
    ):
        learning_rate_schedule("linear", 0.1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("constant", 0.0), r"`learning_rate` must be a finite number above 0. Received: 0.0"),
        (("constant", "0.1"), r"`learning_rate` must be a finite number .* Received: '0.1'"),
        (("constant", math.nan), r"`learning_rate` must be a finite number .* Received: nan"),
        (("cosine", math.inf, 1, 9), r"`learning_rate` must be a finite number .* Received: inf"),
        (("constant", 0.1, -1), r"`warmup_steps` must be an integer of at least 0. Received: -1"),
        (("constant", 0.1, 1.5), r"`warmup_steps` must be an integer .* Received: 1.5"),
        (("inverse_sqrt", 0.1, 0), r"`warmup_steps` must be an integer of at least 1.* 0"),
        (("cosine", 0.1, 5, 5), r"`total_steps` .* at least 6, more than `warmup_steps`. .* 5"),
        (("cosine", 0.1, 5), r"`total_steps` must be an integer of at least 6, .*None"),
    ],
)
def test_values_out_of_their_range_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        learning_rate_schedule(*arguments)


@pytest.mark.parametrize("fraction", [-0.1, 1.1])
def test_a_final_fraction_out_of_its_range_is_refused(fraction):
    with pytest.raises(ValueError, match=r"`final_fraction` must be from 0 to 1. Received"):
        CosineWithWarmup(0.1, 1, 9, fraction)
