import contextlib
import re
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.saved_models import Client, export_task, serve
from elmo_tf.saved_models.exporting import task_exporting as module
from elmo_tf.saved_models.exporting.task_signatures import ExportedTask
from elmo_tf.tasks import BiLSTMClassifier
from task_models import new_model, padded, some_inputs

SENTENCES = ["the cat sat on the mat", "ein", "", "Zürich cat"]


@pytest.fixture(scope="module")
def models(bilm):
    return {"tagger": new_model("tagger", bilm, "both", units=(5,)), "esim": new_model("esim")}


@pytest.fixture(scope="module")
def exported(models, tmp_path_factory):
    """Folders of exported models. Tests must not change them."""
    folders = {}
    for kind, model in models.items():
        folders[kind] = tmp_path_factory.mktemp(kind)
        export_task(model, folders[kind], check=False)
    return folders


@pytest.fixture(scope="module")
def servers(exported):
    with contextlib.ExitStack() as stack:
        yield {
            kind: stack.enter_context(serve(folder, "task", port=0, rest_port=0))
            for kind, folder in exported.items()
        }


def strings(kind):
    """The input strings for an exported model of a kind."""
    inputs = some_inputs(kind, SENTENCES)
    return SENTENCES if kind != "esim" else ["\t".join(pair) for pair in zip(*inputs, strict=True)]


@pytest.mark.parametrize("kind", ["tagger", "esim"])
def test_served_predictions_equal_the_live_model(kind, models, servers):
    expected = models[kind].predictions(some_inputs(kind, SENTENCES))
    server = servers[kind]

    for address in (f"localhost:{server.port}", f"http://localhost:{server.rest_port}"):
        with Client(address, "task") as client:
            found = client.predict(strings(kind), outputs=())
        assert set(found) == set(expected)
        for name, values in expected.items():
            if values.dtype == tf.string:
                assert _texts(found[name]) == _texts(values.numpy())
            else:
                np.testing.assert_allclose(found[name], values, atol=1e-5)


@pytest.mark.more
@pytest.mark.parametrize("kind", ["tagger", "esim"])
def test_the_written_model_equals_the_live_one(models, tmp_path, kind):
    export_task(models[kind], tmp_path, check=True)


def test_a_custom_embedding_may_have_a_lookup_table(tmp_path):
    words = keras.layers.StringLookup(vocabulary=["cat", "mat"], mask_token="")
    embedding = keras.Sequential([keras.Input((None,), dtype="string"), words])
    embedding.add(keras.layers.Embedding(4, 3))
    model = BiLSTMClassifier(["bad", "good"], [embedding], units=4)

    export_task(model, tmp_path, check=False)

    served = tf.saved_model.load(str(tmp_path / "1")).signatures["serving_default"]
    expected = model.predictions(SENTENCES)["probabilities"]
    found = served(strings=tf.constant(SENTENCES))["probabilities"]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_streamed_tags_have_no_padding(models, servers):
    with Client(f"localhost:{servers['tagger'].port}", "task") as client:
        rows = list(client.stream([sentence.split() for sentence in SENTENCES], "tags"))

    assert [_texts(row["tags"]) for row in rows] == models["tagger"].tag(SENTENCES)


def test_tokens_beyond_the_lengths_are_ignored(models, eager_functions):
    signature = ExportedTask(models["tagger"]).signatures["tokens"]
    tokens, lengths = padded(SENTENCES), tf.constant([6, 1, 0, 2])
    junk = tf.where(tokens == "", "junk", tokens)

    found = signature(tokens=junk, sequence_len=lengths)

    for name, values in signature(tokens=tokens, sequence_len=lengths).items():
        np.testing.assert_array_equal(found[name], values)


def test_two_texts_are_passed_in_one_string_or_separately(exported):
    loaded = tf.saved_model.load(str(exported["esim"] / "1"))
    premises, hypotheses = some_inputs("esim", SENTENCES)

    apart = loaded.signatures["pair"](
        premise=tf.constant(premises), hypothesis=tf.constant(hypotheses)
    )
    together = loaded.signatures["default"](tf.constant(strings("esim")))

    for name, values in together.items():
        np.testing.assert_array_equal(apart[name], values)
    for wrong in ("no tab", "one\ttab\ttoo many"):
        with pytest.raises(
            tf.errors.InvalidArgumentError, match="premise and a hypothesis with one tab"
        ):
            loaded.signatures["default"](tf.constant([wrong]))


def test_labels_and_a_card_are_beside_the_model(exported):
    labels = (exported["tagger"] / "1" / "assets" / "labels.txt").read_text()
    card = (exported["esim"] / "1" / "assets.extra" / "README.md").read_text()
    card_of_tagger = (exported["tagger"] / "1" / "assets.extra" / "README.md").read_text()

    assert labels == "O\nB-X\nI-X\n"
    assert "| labels | no, maybe, yes |" in card
    assert "at the input and the output" in card_of_tagger
    assert re.search(r"`probabilities` \| float32 \(\?, 3\)", card)
    assert "a premise and a hypothesis, with a tab between them" in card


def test_an_existing_version_and_invalid_arguments_are_refused(models, exported, tmp_path):
    with pytest.raises(FileExistsError, match=r"1 exists\. Add `--version 2` or `--overwrite`"):
        export_task(models["esim"], exported["esim"])
    with pytest.raises(ValueError, match="`version` must be an integer of at least 0"):
        export_task(models["esim"], tmp_path, version=-1)
    with pytest.raises(TypeError, match="A task model can be exported"):
        export_task("ner", tmp_path)


def test_an_export_that_differs_from_the_live_model_is_discarded(tmp_path, monkeypatch):
    write = module.write_saved_model

    def changed_between(exported, *paths):
        write(exported, *paths)
        bias = exported.variables[-1]  # of the labels' scores: each gets another change
        bias.assign_add(tf.range(bias.shape[0], dtype=bias.dtype))

    monkeypatch.setattr(module, "write_saved_model", changed_between)

    with pytest.raises(RuntimeError, match="The exported model is wrong"):
        export_task(new_model("classifier"), tmp_path)

    assert list(Path(tmp_path).iterdir()) == []


def _texts(array):
    return [
        _texts(one) if isinstance(one, np.ndarray | list) else _text(one) for one in list(array)
    ]


def _text(value):
    return value.decode() if isinstance(value, bytes) else str(value)
