"""Ensembles: the averages of their members, and the members that they refuse."""

import numpy as np
import pytest
from scipy.special import softmax

from elmo_tf.models.bilm import BiLM
from elmo_tf.models.copies import copied_bilm
from elmo_tf.tasks import Ensemble
from reference import bidaf, coreference, crf
from task_models import SENTENCES, new_model, some_inputs, with_random_weights

pytestmark = pytest.mark.usefixtures("eager_module")


def two_models(kind, bilm, **settings):
    """Two models of a kind with different weights."""
    return [with_random_weights(new_model(kind, bilm, **settings), seed=n) for n in (1, 2)]


@pytest.mark.parametrize("kind", ["classifier", "bcn", "esim"])
def test_probabilities_of_labels_are_averaged(kind, bilm, monkeypatch):
    monkeypatch.setattr("elmo_tf.tasks.text_model._ROWS", 3)
    members = two_models(kind, bilm, placement="both")
    inputs = some_inputs(kind, SENTENCES)

    found = Ensemble(members).predictions(inputs)

    expected = np.mean([softmax(model(inputs), axis=-1) for model in members], axis=0)
    np.testing.assert_allclose(found["probabilities"], expected, atol=1e-5)
    labels = [members[0].labels[index] for index in expected.argmax(axis=-1)]
    assert Ensemble(members).predict_lists(inputs) == labels


def test_the_answer_has_the_highest_average_probabilities(bilm):
    members, inputs = two_models("bidaf", bilm), some_inputs("bidaf", SENTENCES)

    found = Ensemble(members).predictions(inputs)

    average = np.mean([softmax(model(inputs), axis=-1) for model in members], axis=0)
    names = "answer_start", "answer_end", "probability"
    for row, (scores, sentence) in enumerate(zip(average, SENTENCES, strict=True)):
        scores = np.log(scores[:, : len(sentence.split())])
        expected = bidaf.best_span(scores, 3) if sentence else (0, 0, 0)
        np.testing.assert_allclose([found[name][row] for name in names], expected, rtol=1e-4)


@pytest.mark.parametrize("kind", ["tagger", "srl"])
def test_the_tags_are_the_allowed_sequence_with_the_highest_product_of_averages(kind, bilm):
    members, inputs = two_models(kind, bilm), some_inputs(kind, SENTENCES)
    if kind == "tagger":
        parts = [model.predictions(inputs)["probabilities"] for model in members]
    else:
        parts = [softmax(model(inputs), axis=-1) for model in members]
    average = np.mean(parts, axis=0)

    ensemble = Ensemble(members)

    probabilities = ensemble.predictions(inputs)["probabilities"].numpy()
    size = len(members[0].labels)
    no_weights = np.zeros(size), np.zeros((size, size)), np.zeros(size)
    for row, tags in enumerate(ensemble.predict_lists(inputs)):
        products = np.log(np.maximum(average[row, : len(tags)], 1e-37))
        best, marginals = crf.best(products, *no_weights, members[0].constraints)
        assert tags == [members[0].labels[tag] for tag in best]
        expected = average[row, : len(tags)] if kind == "tagger" else marginals
        np.testing.assert_allclose(probabilities[row, : len(tags)], expected, atol=1e-5)


def test_average_scores_select_and_link_the_mentions(bilm):
    settings = {"max_width": 1, "mention_loss": 1.0}
    members = two_models("coref", bilm, span_ratio=1.0, **settings)  # which keep all tokens
    outputs = [model(SENTENCES) for model in members]
    mean = np.mean([each["antecedent_scores"] for each in outputs], axis=0)
    scores = np.mean([each["mention_scores"][:, 0] for each in outputs], axis=0)

    found = Ensemble(members).predictions(SENTENCES)

    rows = [row[: token + 1] for token, row in enumerate(mean)]  # of antecedents that exist
    entities = coreference.entities(rows, [(token, token) for token in range(len(rows))], scores)
    mentions = sorted((first, n) for n, entity in enumerate(entities) for first, _ in entity)
    names = "mention_start", "entity"
    assert list(zip(*(found[name].numpy().tolist() for name in names), strict=True)) == mentions

    few = two_models("coref", bilm, span_ratio=0.5, **settings)
    kept = set(np.argsort(-scores)[: len(scores) // 2].tolist())
    found = set(Ensemble(few).predictions(SENTENCES)["mention_start"].numpy().tolist())
    assert {token for token in kept if scores[token] > 0} <= found <= kept


def test_the_bilm_is_computed_once_for_all_members(bilm, monkeypatch):
    members = two_models("tagger", bilm)
    members[1] = new_model("tagger", copied_bilm(bilm, "float32"))
    calls, call = [], BiLM.call

    def counted(self, *args, **kwargs):
        calls.append(self)
        return call(self, *args, **kwargs)

    monkeypatch.setattr(BiLM, "call", counted)
    Ensemble(members).predictions(SENTENCES)

    assert calls == [bilm]


def test_members_that_differ_are_refused_by_name(bilm):
    model = new_model("tagger", bilm)
    other = copied_bilm(bilm, "float32")
    other.weights[0].assign_add(np.ones(other.weights[0].shape))
    for member, message in (
        (new_model("srl", bilm), r"same inputs\. Received: .*tokens.*\(a\) and .*predicate.*\(b\)"),
        (new_model("tagger", bilm, labels=["O", "I-X", "B-X"]), r"same labels.*'I-X', 'B-X'\) \(b"),
        (new_model("tagger", other), r"same biLM\. Received: \w{12} \(a\) and \w{12} \(b\)\."),
        (new_model("tagger", bilm, scheme=None), r"settings.* \{'scheme': None\} \(b\)"),
    ):
        with pytest.raises(ValueError, match=message):
            Ensemble([model, member], ["a", "b"])
