"""The scores of task models, compared with plain NumPy."""

import keras
import numpy as np
import pytest

from reference import task_models as reference
from task_models import (
    new_model,
    padded,
    reference_weights,
    some_inputs,
    sublayers,
    with_random_weights,
)

SENTENCES = ["the cat sat on the mat", "ein", "Zürich cat 서울"]


def expected(kind, model, sentences):
    """The expected scores of each sentence, by the reference formulas."""
    weights = reference_weights(model)

    def vectors(sentence):
        found = model.token_vectors(padded([sentence]))
        return [found[name][0].numpy() if name in found else None for name in ("input", "output")]

    if kind != "esim":
        return [getattr(reference, kind)(*vectors(one), weights) for one in sentences]
    pairs = zip(*some_inputs(kind, sentences), strict=True)
    both = [(vectors(premise), vectors(hypothesis)) for premise, hypothesis in pairs]
    return [reference.esim(a, b, (a_out, b_out), weights) for (a, a_out), (b, b_out) in both]


@pytest.mark.parametrize(
    ("kind", "settings"),
    [("tagger", {}), ("classifier", {}), ("bcn", {}), ("bcn", {"batch_norm": True}), ("esim", {})],
)
@pytest.mark.parametrize("placement", ["none", "both"])
def test_scores_match_the_reference_formulas(kind, settings, placement, bilm):
    model = with_random_weights(new_model(kind, bilm, placement, **settings))

    scores = np.asarray(model(some_inputs(kind, SENTENCES)))

    for found, wanted in zip(scores, expected(kind, model, SENTENCES), strict=True):
        np.testing.assert_allclose(found[: len(wanted)], wanted, atol=2e-5)


@pytest.mark.parametrize(
    ("kind", "num_dropouts"),
    [("tagger", 3), ("classifier", 2), ("bcn", 4), ("esim", 4), ("srl", 3)],
)
def test_each_dropout_is_active_only_in_training(kind, num_dropouts):
    model = with_random_weights(new_model(kind))
    inputs = some_inputs(kind, SENTENCES)
    dropouts = [
        layer
        for layer in sublayers(model)
        if isinstance(layer, keras.layers.Dropout | keras.layers.SpatialDropout1D)
    ]
    assert len(dropouts) == num_dropouts
    scores = model(inputs).numpy()

    for one in dropouts:
        for layer in dropouts:
            layer.rate = 0.5 if layer is one else 0.0
        in_training = [model(inputs, training=True).numpy() for _ in range(2)]
        assert np.abs(in_training[0] - scores).max() > 1e-3
        assert np.abs(in_training[0] - in_training[1]).max() > 1e-3
        np.testing.assert_array_equal(model(inputs), scores)
