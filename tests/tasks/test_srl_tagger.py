import numpy as np
import pytest

from elmo_tf.tasks import Ensemble, PropositionTagger
from reference import srl as reference
from task_models import (
    SENTENCES,
    new_model,
    predicate_tagger,
    real_outputs,
    some_inputs,
    truth,
    with_random_weights,
)


def test_weights_are_initialized_as_published():
    model = new_model("srl", units=40, predicate_dim=200)

    for kernel in (model.predicate_embedding.kernel, model.scores.kernel):
        assert 0.008 < np.std(kernel.numpy()) < 0.012
        assert abs(np.mean(kernel.numpy())) < 0.002
    assert not model.scores.bias.numpy().any()
    for lstm in model.lstms:
        for block in np.split(lstm.recurrent_kernel.numpy(), 5, axis=1):
            np.testing.assert_allclose(block.T @ block, np.eye(40), atol=1e-5)


def test_loss_matches_the_reference_formula():
    model, inputs, tags = new_model("srl"), some_inputs("srl", SENTENCES), truth("srl")
    outputs = model(inputs)

    losses = model.per_example_loss(tags, outputs, inputs)

    scores = real_outputs("srl", outputs, SENTENCES)
    for loss, one, row in zip(losses, scores, tags, strict=True):
        wanted = reference.loss(one.astype(np.float64), row[: len(one)])
        np.testing.assert_allclose(loss, wanted, rtol=1e-5)


def test_propositions_have_the_tags_of_the_predicates_that_the_tagger_finds(bilm, eager_functions):
    models = [with_random_weights(new_model("srl", bilm), seed=seed) for seed in (1, 2)]
    taggers = [predicate_tagger(bilm, seed) for seed in (1, 2)]
    for tagger, model in ((taggers[0], models[0]), (Ensemble(taggers), Ensemble(models))):
        both = PropositionTagger(tagger, model)
        marked = tagger.predict_lists(SENTENCES)
        places = [[i for i, tag in enumerate(tags) if tag == "V"] for tags in marked]
        pairs = [(row, place) for row, found in enumerate(places) for place in found]
        inputs = [SENTENCES[row] for row, _ in pairs], [place for _, place in pairs]
        expected = iter(model.predict_lists(inputs))

        found = both.propositions(SENTENCES)

        assert [[one.predicate for one in each] for each in found] == places
        for row, each in enumerate(found):
            for one in each:
                assert (one.tokens, one.tags) == (SENTENCES[row].split(), next(expected))
        assert both.propositions([""]) == [[]]
    with pytest.raises(ValueError, match=r"must have the label V\. Labels: O, B-X, I-X"):
        PropositionTagger(new_model("tagger", bilm), model)
    taggers[0].tokenizer = "xx"
    with pytest.raises(ValueError, match="both models must have the same biLM"):
        PropositionTagger(taggers[0], new_model("srl"))
