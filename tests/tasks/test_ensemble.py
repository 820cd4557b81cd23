"""Ensembles: the averages of their members, and the members that they refuse."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from elmo_tf import Elmo
from elmo_tf.models.bilm import copied_bilm
from elmo_tf.tasks import Ensemble
from elmo_tf.tasks.tag_schemes import spans_of
from task_models import (
    KINDS,
    SENTENCES,
    every_model,
    new_model,
    real_outputs,
    some_inputs,
    with_random_weights,
)

LISTS = {"tagger": "tag", "srl": "tag", "bidaf": "answer_spans", "coref": "entities"}


@pytest.fixture(scope="module")
def members(bilm):
    """Two models of a kind with different weights."""

    def new(kind, **kwargs):
        return [with_random_weights(new_model(kind, bilm, **kwargs), 0.4, n) for n in (1, 2)]

    return new


def lists(kind, model):
    """The predictions as lists, which the commands write."""
    return getattr(model, LISTS.get(kind, "classify"))(some_inputs(kind, SENTENCES))


@every_model
def test_two_equal_members_predict_what_one_predicts(kind, members, eager_functions):
    model, inputs = members(kind)[0], some_inputs(kind, SENTENCES)

    found = Ensemble([model, model]).predictions(inputs)

    for name, expected in model.predictions(inputs).items():
        if expected.dtype.is_floating:
            np.testing.assert_allclose(found[name], expected, atol=1e-5)
        else:
            np.testing.assert_array_equal(found[name], expected)
    assert lists(kind, Ensemble([model])) == lists(kind, model)
