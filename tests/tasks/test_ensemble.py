"""Ensembles: the averages of their members, and the members that they refuse."""

import itertools

import numpy as np
import pytest
from scipy.special import softmax

from elmo_tf.models.bilm import BiLM
from elmo_tf.models.copies import copied_bilm
from elmo_tf.tasks import Ensemble
from task_models import SENTENCES, every_model, new_model, some_inputs, with_random_weights

pytestmark = pytest.mark.usefixtures("eager_module")


def two_models(kind, bilm, **settings):
    """Two models of a kind with different weights."""
    return [with_random_weights(new_model(kind, bilm, **settings), seed=n) for n in (1, 2)]


def lists(kind, model):
    """The predictions as lists, which the commands write."""
    return model.predict_lists(some_inputs(kind, SENTENCES))


@every_model
def test_two_equal_members_predict_what_one_predicts(kind, bilm):
    model, inputs = two_models(kind, bilm)[0], some_inputs(kind, SENTENCES)

    found = Ensemble([model, model]).predictions(inputs)

    for name, expected in model.predictions(inputs).items():
        if expected.dtype.is_floating:
            np.testing.assert_allclose(found[name], expected, atol=1e-5)
        else:
            np.testing.assert_array_equal(found[name], expected)
    assert lists(kind, Ensemble([model])) == lists(kind, model)


@pytest.mark.parametrize("kind", ["classifier", "esim"])
def test_probabilities_of_labels_are_averaged(kind, bilm):
    members = two_models(kind, bilm, placement="both")
    inputs = some_inputs(kind, SENTENCES)

    found = Ensemble(members).predictions(inputs)

    expected = np.mean([softmax(model(inputs), axis=-1) for model in members], axis=0)
    np.testing.assert_allclose(found["probabilities"], expected, atol=1e-5)
    labels = [members[0].labels[index] for index in expected.argmax(axis=-1)]
    assert lists(kind, Ensemble(members)) == labels


def test_the_answer_has_the_highest_average_probabilities(bilm):
    members, inputs = two_models("bidaf", bilm), some_inputs("bidaf", SENTENCES)

    found = lists("bidaf", Ensemble(members))

    average = np.mean([softmax(model(inputs), axis=-1) for model in members], axis=0)
    for (start, end), sentence, span in zip(average, SENTENCES, found, strict=True):
        num_tokens = len(sentence.split())
        spans = {
            (s, e): start[s] * end[e]
            for s in range(num_tokens)
            for e in range(s, min(s + 3, num_tokens))
        }
        assert span == max(spans, key=spans.get, default=(0, 0))


@pytest.mark.parametrize("kind", ["tagger", "srl"])
def test_the_tags_are_the_allowed_sequence_with_the_highest_product_of_averages(kind, bilm):
    members, inputs = two_models(kind, bilm), some_inputs(kind, SENTENCES)
    if kind == "tagger":
        parts = [model.predictions(inputs)["probabilities"] for model in members]
    else:
        parts = [softmax(model(inputs), axis=-1) for model in members]
    average = np.mean(parts, axis=0)

    ensemble = Ensemble(members)

    if kind == "tagger":
        found = ensemble.predictions(inputs)["probabilities"]
        np.testing.assert_allclose(found, average, atol=1e-5)
    first, between, last = map(np.asarray, members[0].constraints)
    for row, tags in enumerate(lists(kind, ensemble)):
        ids = np.array([*itertools.product(range(len(first)), repeat=len(tags))], int)
        if len(tags):
            allowed = first[ids[:, 0]] & last[ids[:, -1]] & between[ids[:, :-1], ids[:, 1:]].all(1)
            products = average[row, np.arange(len(tags)), ids].prod(axis=1) * allowed
            assert tags == [members[0].labels[tag] for tag in ids[products.argmax()]]


def test_average_scores_select_and_link_the_mentions(bilm):
    settings = {"max_width": 1, "mention_loss": 1.0}
    members = two_models("coref", bilm, span_ratio=1.0, **settings)  # which keep all tokens
    outputs = [model(SENTENCES) for model in members]
    mean = np.mean([each["antecedent_scores"] for each in outputs], axis=0)
    scores = np.mean([each["mention_scores"][:, 0] for each in outputs], axis=0)

    found = Ensemble(members).predictions(SENTENCES)

    entity = {}  # of each token
    for token, nearest in enumerate(mean.argmax(axis=1)):
        entity[token] = entity[token - nearest] if nearest else token
    counts = np.bincount([*entity.values()], minlength=len(mean))
    mentions = [t for t, first in entity.items() if counts[first] > 1 or scores[first] > 0]
    assert found["mention_start"].numpy().tolist() == mentions
    names = list(dict.fromkeys(entity[token] for token in mentions))
    assert found["entity"].numpy().tolist() == [names.index(entity[token]) for token in mentions]

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
