"""A language model over a small vocabulary, with random weights."""

import dataclasses

import numpy as np
import pytest

from elmo_tf import BiLM, Vocabulary
from elmo_tf.layers import SampledSoftmax
from elmo_tf.models.language_model import LanguageModel

VOCABULARY = Vocabulary.build(["the the cat cat sat on"])


@pytest.fixture(scope="session")
def new_language_model():
    """Adds a softmax to a biLM."""

    def new(bilm):
        model = LanguageModel(bilm, SampledSoftmax(len(VOCABULARY), 3), VOCABULARY)
        rng = np.random.default_rng(0)
        for weight in model.softmax.trainable_weights:
            weight.assign(rng.normal(size=weight.shape))
        return model

    return new


@pytest.fixture(scope="session")
def language_model(bilm, new_language_model):
    """Shared by all tests: do not change it."""
    return new_language_model(bilm)


@pytest.fixture(scope="session")
def forward_model(bilm, new_language_model):
    """A language model without the backward direction."""
    return new_language_model(BiLM(dataclasses.replace(bilm.config, bidirectional=False)))
