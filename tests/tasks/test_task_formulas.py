"""What task models compute, against plain NumPy."""

import keras
import numpy as np
import pytest

from reference import task_models as reference
from task_models import KINDS, new_model, padded, some_inputs

SENTENCES = ["the cat sat on the mat", "ein", "Zürich cat 서울"]


def with_random_weights(model):
    """Every weight of the task, biases too, is drawn; variances stay above 0."""
    rng = np.random.default_rng(3)
    of_elmo = {id(weight) for weight in (model.elmo.weights if model.elmo else ())}
    for weight in model.weights:
        if id(weight) not in of_elmo and "seed_generator" not in weight.path:
            drawn = rng.normal(scale=0.5, size=weight.shape)
            weight.assign(np.abs(drawn) if weight.path.endswith("variance") else drawn)
    return model


def expected(kind, model, sentences):
    """The scores of each sentence by the formulas, from its vectors."""
    weights = {
        weight.path.partition("/")[2]: weight.numpy().astype(np.float64) for weight in model.weights
    }

    def vectors(sentence):
        found = model.token_vectors(padded([sentence]))
        return [found[name][0].numpy() if name in found else None for name in ("input", "output")]

    if kind != "esim":
        return [getattr(reference, kind)(*vectors(one), weights) for one in sentences]
    pairs = zip(*some_inputs(kind, sentences), strict=True)
    both = [(vectors(premise), vectors(hypothesis)) for premise, hypothesis in pairs]
    return [reference.esim(a, b, (a_out, b_out), weights) for (a, a_out), (b, b_out) in both]


@pytest.mark.parametrize("placement", ["input", "both"])
@pytest.mark.parametrize(
    ("kind", "settings"), [*((kind, {}) for kind in KINDS), ("bcn", {"batch_norm": True})]
)
def test_the_scores_are_those_of_the_formulas(kind, settings, placement, bilm):
    model = with_random_weights(new_model(kind, bilm, placement, **settings))

    scores = np.asarray(model(some_inputs(kind, SENTENCES)))

    for found, wanted in zip(scores, expected(kind, model, SENTENCES), strict=True):
        np.testing.assert_allclose(found[: len(wanted)], wanted, atol=2e-5)


@pytest.mark.parametrize(
    ("kind", "num_dropouts"), [("tagger", 3), ("classifier", 2), ("bcn", 4), ("esim", 4)]
)
def test_each_dropout_is_active_in_training_alone(kind, num_dropouts):
    model = with_random_weights(new_model(kind))
    inputs = some_inputs(kind, SENTENCES)
    dropouts = [
        layer
        for layer in model._flatten_layers()
        if isinstance(layer, keras.layers.Dropout | keras.layers.SpatialDropout1D)
    ]
    assert len(dropouts) == num_dropouts
    scores = model(inputs).numpy()

    for one in dropouts:
        for layer in dropouts:
            layer.rate = 0.5 if layer is one else 0.0
        assert np.abs(model(inputs, training=True) - scores).max() > 1e-3
        np.testing.assert_array_equal(model(inputs), scores)
