import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.tasks import Ensemble, PropositionTagger
from reference import srl as reference
from task_models import new_model, predicate_tagger, with_random_weights

SENTENCES = ["the cat sat on mat", "ein", "", "Zürich cat 서울 sat"]
PREDICATES = [2, 0, 0, 3]
LENGTHS = [len(sentence.split()) for sentence in SENTENCES]
INPUTS = (SENTENCES, PREDICATES)
TAGS = np.array([[1, 2, 3, 4, 0], [3] + [-1] * 4, [-1] * 5, [0, 1, 2, 3, -1]])


@pytest.fixture(scope="module")
def model():
    """A model with random weights. Tests must not change it."""
    return with_random_weights(new_model("srl"), 0.6)


def test_weights_are_initialized_as_published():
    model = new_model("srl", units=40, predicate_dim=200)

    for kernel in (model.predicate_embedding.kernel, model.scores.kernel):
        assert 0.008 < np.std(kernel.numpy()) < 0.012
        assert abs(np.mean(kernel.numpy())) < 0.002
    assert not model.scores.bias.numpy().any()
    for lstm in model.lstms:
        for block in np.split(lstm.recurrent_kernel.numpy(), 5, axis=1):
            np.testing.assert_allclose(block.T @ block, np.eye(40), atol=1e-5)


def test_loss_is_summed_over_tokens_and_averaged_over_examples(model):
    outputs = model(INPUTS)

    losses = model.per_example_loss(TAGS, outputs, INPUTS).numpy()

    for row, length in enumerate(LENGTHS):
        scores = outputs[row, :length].numpy().astype(np.float64)
        wanted = reference.loss(scores, TAGS[row, :length])
        np.testing.assert_allclose(losses[row], wanted, rtol=1e-5)
    np.testing.assert_allclose(model.compute_loss(INPUTS, TAGS, outputs), losses.mean(), rtol=1e-6)


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


def test_invalid_inputs_are_refused(model):
    for predicate in (-1, 1, 4):
        with pytest.raises(ValueError, match=rf"and lengths: \[ ?1 +{predicate}\], \[2 1\]"):
            model((["the cat", "ein"], [1, predicate]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be the index of a token of its"):
        model.tag((["the cat", "ein"], [1, 1]))  # in a graph
    with pytest.raises(ValueError, match=r"one predicate for each sentence.*: 1, 2"):
        model((["the cat", "ein"], [0]))
    with pytest.raises(ValueError, match=r"predicate must be int32 of shape \(None,\)"):
        model((["the cat"], [[0]]))
