"""Exported models of answers, roles and coreference, queried over gRPC and REST."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.saved_models import Client, export_task, serve
from elmo_tf.tasks import BiDAF, CoreferenceModel, SRLTagger
from task_models import embeddings

PASSAGES = ["the cat sat on the mat .", "Zürich"]
QUESTIONS = ["where did the cat sit ?", "which city"]
SENTENCES = ["the cat sat on the mat", "Zürich"]
PREDICATES = [2, 0]
DOCUMENTS = ["the cat sat on the mat\nit saw the mat", "Zürich", "ein\n\nthe cat sat"]


# BiDAF is traced slowly.
KINDS = [pytest.param("answers", marks=pytest.mark.more), "roles", "documents"]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Returns the model of a kind, and its exported folder."""
    roles = ["O", "B-V", "I-V", "B-A0", "I-A0"]
    new = {
        "answers": lambda: BiDAF(embeddings(), units=4),
        "roles": lambda: SRLTagger(roles, embeddings(), units=4, num_layers=2, predicate_dim=3),
        "documents": lambda: CoreferenceModel(
            embeddings(), units=4, hidden_units=5, feature_dim=2, mention_loss=1.0
        ),
    }

    @functools.cache
    def export(kind):
        model, folder = new[kind](), tmp_path_factory.mktemp(kind)
        export_task(model, folder, check=kind == "documents")
        return model, folder

    return export


STRINGS = {
    "answers": list(map("\t".join, zip(PASSAGES, QUESTIONS, strict=True))),
    "roles": [f"{index} {text}" for index, text in zip(PREDICATES, SENTENCES, strict=True)],
    "documents": DOCUMENTS,
}
SEPARATELY = {
    "answers": {"passage": PASSAGES, "question": QUESTIONS},
    "roles": {"strings": SENTENCES, "predicate": PREDICATES},
}


def predictions(kind, model):
    """The predictions of the live model."""
    if kind == "answers":
        return model.predictions((PASSAGES, QUESTIONS))
    if kind == "roles":
        return model.predictions((SENTENCES, PREDICATES))
    found = [model.predictions(document.split("\n")) for document in DOCUMENTS]
    return {name: tf.ragged.stack([one[name] for one in found]).to_tensor(-1) for name in found[0]}


@pytest.mark.parametrize("kind", KINDS)
def test_served_predictions_equal_the_live_model(kind, exported):
    model, folder = exported(kind)
    expected = predictions(kind, model)

    with serve(folder, name="task", port=0, rest_port=0) as server:
        for address in (f"localhost:{server.port}", f"http://localhost:{server.rest_port}"):
            # A request for each string.
            with Client(address, "task", batch_size=1) as client:
                found = client.predict(STRINGS[kind], outputs=())
                assert set(found) == set(expected)
                for name, values in expected.items():
                    _assert_equal(found[name], values)


def test_streamed_documents_have_no_padding(exported):
    model, folder = exported("documents")

    with (
        serve(folder, name="task", port=0, rest_port=None) as server,
        Client(f"localhost:{server.port}", "task") as client,
    ):
        rows = list(client.stream(DOCUMENTS, outputs=()))

    for row, document in zip(rows, DOCUMENTS, strict=True):
        for name, values in model.predictions(document.split("\n")).items():
            np.testing.assert_array_equal(row[name], values)


@pytest.mark.parametrize(
    ("kind", "signature"),
    [pytest.param("answers", "pair", marks=pytest.mark.more), ("roles", "roles")],
)
def test_parts_of_an_example_can_be_passed_separately(kind, signature, exported):
    model, folder = exported(kind)
    served = tf.saved_model.load(str(folder / "1")).signatures[signature]

    found = served(**{name: tf.constant(values) for name, values in SEPARATELY[kind].items()})

    for name, values in predictions(kind, model).items():
        _assert_equal(found[name].numpy(), values)


def _assert_equal(found, expected):
    if expected.dtype == tf.string:
        texts = np.vectorize(lambda text: text.decode() if isinstance(text, bytes) else text)
        np.testing.assert_array_equal(texts(found), texts(expected.numpy()))
    else:
        np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "strings", "message"),
    [
        ("roles", "the cat sat", "the index of a token, from 0, and a sentence"),
        ("roles", "9 the cat sat", "predicate"),
        pytest.param(
            *("answers", "a passage without a question", "passage and a question with one tab"),
            marks=pytest.mark.more,
        ),
    ],
)
def test_invalid_strings_are_refused(kind, strings, message, exported):
    _, folder = exported(kind)
    served = tf.saved_model.load(str(folder / "1")).signatures["default"]

    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        served(strings=tf.constant([strings]))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        pytest.param("answers", "passage and a question", marks=pytest.mark.more),
        ("roles", "index of the predicate"),
        ("documents", "a document with one sentence per line"),
    ],
)
def test_the_model_card_describes_the_strings(kind, text, exported):
    _, folder = exported(kind)

    assert text in (folder / "1" / "assets.extra" / "README.md").read_text()
