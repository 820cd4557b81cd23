"""Exported task models of every kind, queried over gRPC and REST."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.models.copies import copied_bilm
from elmo_tf.saved_models import Client, export_task, serve
from elmo_tf.saved_models.exporting.task_exporting import ExportedTask
from elmo_tf.tasks import Ensemble, PropositionTagger
from serving_requests import outputs_over_rest
from task_models import new_model, padded, predicate_tagger, some_inputs

PASSAGES = ["the cat sat on the mat .", "Zürich"]
QUESTIONS = ["where did the cat sit ?", "which city"]
SENTENCES = ["the cat sat on the mat", "Zürich", "", "ein cat"]
PREDICATES = [2, 0]
PAIR = some_inputs("esim", SENTENCES)
DOCUMENTS = ["the cat sat on the mat\nit saw the mat", "Zürich", "ein\n\nthe cat sat"]


# Traced slowly.
SLOW = [pytest.param(kind, marks=pytest.mark.more) for kind in ("answers", "ensemble")]
KINDS = [*SLOW, "roles", "documents", "tags", "pairs"]


@pytest.fixture(scope="module")
def exported(bilm, tmp_path_factory):
    """Returns the model of a kind, and its exported folder. Tests must not change them."""

    def plain_roles():
        return PropositionTagger(predicate_tagger(bilm), new_model("srl", bilm, num_layers=2))

    new = {
        "answers": lambda: new_model("bidaf"),
        "roles": lambda: new_model("srl", num_layers=2),
        "plain": plain_roles,
        "documents": lambda: new_model("coref", genres=(), mention_loss=1.0),
        "tags": lambda: new_model("tagger", bilm, "both", units=5),
        "pairs": lambda: new_model("esim"),
        "ensemble": lambda: Ensemble(  # each with its own copy of the biLM
            [new_model("tagger", copied_bilm(bilm, "float32"), units=(n,)) for n in (4, 5)]
        ),
    }

    @functools.cache
    def export(kind):
        model, folder = new[kind](), tmp_path_factory.mktemp(kind)
        export_task(model, folder, check=kind in ("documents", "ensemble"))
        return model, folder

    return export


# Inputs of the signature of strings, and of the model.
INPUTS = {
    "answers": (list(map("\t".join, zip(PASSAGES, QUESTIONS, strict=True))), (PASSAGES, QUESTIONS)),
    "roles": (
        [f"{PREDICATES[0]} {SENTENCES[0]}", f"{PREDICATES[1]}\u00a0{SENTENCES[1]}"],
        (SENTENCES[:2], PREDICATES),
    ),
    "documents": (DOCUMENTS, DOCUMENTS),
    "tags": (SENTENCES, SENTENCES),
    "pairs": (list(map("\t".join, zip(*PAIR, strict=True))), PAIR),
    "ensemble": (SENTENCES, SENTENCES),
}


def predictions(kind, model):
    """The predictions of the live model."""
    if kind != "documents":
        return model.predictions(INPUTS[kind][1])
    found = [model.predictions(document.split("\n")) for document in DOCUMENTS]
    return {name: tf.ragged.stack([one[name] for one in found]).to_tensor(-1) for name in found[0]}


# The signature of separate inputs, and their names.
SEPARATE = {
    "answers": ("pair", ("passage", "question")),
    "roles": ("roles", ("strings", "predicate")),
    "pairs": ("pair", ("premise", "hypothesis")),
}


@pytest.mark.parametrize("kind", KINDS)
def test_served_predictions_equal_the_live_model(kind, exported):
    model, folder = exported(kind)
    expected, answers = predictions(kind, model), []
    with serve(folder, name="task", port=0, rest_port=0) as server:
        answers.append(outputs_over_rest(server, INPUTS[kind][0], "/v1/models/task"))
        with Client(f"localhost:{server.port}", "task", batch_size=2) as client:
            answers.append(client.predict(INPUTS[kind][0], outputs=()))
    if kind in SEPARATE:
        signature, names = SEPARATE[kind]
        loaded = tf.saved_model.load(str(folder / "1")).signatures[signature]
        inputs = zip(names, map(tf.constant, INPUTS[kind][1]), strict=True)
        answers.append({name: value.numpy() for name, value in loaded(**dict(inputs)).items()})
    for answer in answers:
        assert set(answer) == set(expected)
        for name, values in expected.items():
            if values.dtype == tf.string:
                np.testing.assert_array_equal(answer[name], values)
            else:
                np.testing.assert_allclose(answer[name], values, atol=1e-5)


def test_served_propositions_of_plain_sentences_equal_those_of_the_live_model(exported):
    model, folder = exported("plain")
    expected = model.propositions(SENTENCES)
    assert any(expected)
    with (
        serve(folder, name="task", port=0, rest_port=0) as server,
        Client(f"localhost:{server.port}", "task", timeout=300, batch_size=1) as client,
    ):
        joined = client.predict(SENTENCES, (), "propositions")
        rows = [client.predict([sentence], (), "propositions") for sentence in SENTENCES]
        of_roles = client.predict([f"1 {SENTENCES[0]}"], "tags")["tags"]
        over_rest = outputs_over_rest(server, SENTENCES, "/v1/models/task", "propositions")
    assert joined["predicate"].shape == joined["roles"].shape
    for name, array in over_rest.items():
        np.testing.assert_array_equal(array, joined[name])
    for row, each in zip(rows, expected, strict=True):
        assert row["predicate"].tolist() == [[one.predicate for one in each]]
        assert [tags.decode().split() for tags in row["roles"][0]] == [one.tags for one in each]
    assert [[tag.decode() for tag in of_roles[0]]] == model.role_tagger.tag((SENTENCES[:1], [1]))


@pytest.mark.parametrize(
    ("kind", "strings", "message"),
    [
        ("roles", "the cat sat", "the index of a token, from 0, and a sentence"),
        ("roles", "9 the cat sat", "predicate"),
        ("pairs", "one\ttab\ttoo many", "premise and a hypothesis with one tab"),
    ],
)
def test_invalid_strings_are_refused(kind, strings, message, exported):
    served = tf.saved_model.load(str(exported(kind)[1] / "1")).signatures["default"]

    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        served(strings=tf.constant([strings]))


def test_labels_are_saved_and_tokens_beyond_the_lengths_are_ignored(exported, eager_functions):
    model, folder = exported("tags")
    assert (folder / "1" / "assets" / "labels.txt").read_text() == "O\nB-X\nI-X\n"
    signature = ExportedTask(model).signatures["tokens"]
    tokens, lengths = padded(SENTENCES), tf.constant([6, 1, 0, 2])
    junk = tf.where(tokens == "", "junk", tokens)

    found = signature(tokens=junk, sequence_len=lengths)

    for name, values in signature(tokens=tokens, sequence_len=lengths).items():
        np.testing.assert_array_equal(found[name], values)
