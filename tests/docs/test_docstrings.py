"""Runs the examples in the docstrings of the public names that are used most."""

import doctest
import operator

import keras
import numpy as np
import pytest
import tensorflow as tf

import elmo_tf
from task_files import NER

pytestmark = pytest.mark.more

NAMES = [
    *("BiLM", "BiLMConfig", "Elmo", "Embedder", "Vocabulary"),
    *("Embedder.embed_file", "Embedder.encode", "Embedder.similarity"),
    *("char_ids", "load_bilm", "load_language_model", "portable", "save_bilm"),
    *("layers.CharCNN", "layers.ProjectedLSTM", "layers.SampledSoftmax", "layers.ScalarMix"),
    *("tasks.CRFTagger", "tasks.load_task", "trainers.pretrain"),
    *("saved_models.Client", "saved_models.export", "saved_models.load"),
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("The bank raised its rates .\nI like it .\n" * 20)
    return tmp_path


@pytest.fixture
def exported(folder):
    elmo_tf.saved_models.export(elmo_tf.load_bilm("small-en"), folder / "exported", check=False)


@pytest.fixture
def address(exported):
    server = elmo_tf.saved_models.serve("exported", port=0, rest_port=0)
    yield f"localhost:{server.port}"
    server.stop()


@pytest.fixture
def task_run(folder):
    (folder / "ner.conll").write_text(NER)
    files = {"train": ["ner.conll"], "dev": ["ner.conll"], "workdir": "ner"}
    config = elmo_tf.trainers.TaskConfig(task="ner", **files, units=4, epochs=1)
    elmo_tf.trainers.train_task(config)


NEEDED = {"saved_models.load": "exported", "tasks.load_task": "task_run"}


@pytest.mark.parametrize("name", NAMES)
def test_example_of_a_docstring_runs(name, folder, request):
    if name in NEEDED:
        request.getfixturevalue(NEEDED[name])
    text = operator.attrgetter(name)(elmo_tf).__doc__
    if name == "saved_models.Client":
        text = text.replace("localhost:8500", request.getfixturevalue("address"))
    names = {"elmo_tf": elmo_tf, "keras": keras, "np": np, "tf": tf}
    if name.startswith("Embedder."):
        names["embedder"] = elmo_tf.Embedder("small-en")
    example = doctest.DocTestParser().get_doctest(text, names, name, None, None)
    assert example.examples

    failures = []
    doctest.DocTestRunner().run(example, out=failures.append)

    assert not failures, "".join(failures)
