"""Runs the examples in the docstrings of the public names that are used most."""

import contextlib
import doctest
import operator
from pathlib import Path

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


@pytest.mark.parametrize("name", NAMES)
def test_example_of_a_docstring_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = operator.attrgetter(name)(elmo_tf).__doc__
    names = {"elmo_tf": elmo_tf, "keras": keras, "np": np, "tf": tf}
    with contextlib.ExitStack() as servers:
        if name == "tasks.load_task":
            train_tagger()
        if name in ("saved_models.load", "saved_models.Client"):
            bilm = elmo_tf.load_bilm("small-en")
            elmo_tf.saved_models.export(bilm, "exported", check=False)
        if name == "saved_models.Client":
            server = elmo_tf.saved_models.serve("exported", port=0, rest_port=0)
            servers.enter_context(server)
            text = text.replace("localhost:8500", f"localhost:{server.port}")
        if name.startswith("Embedder."):
            names["embedder"] = elmo_tf.Embedder("small-en")
        Path("text.txt").write_text("The bank raised its rates .\nI like it .\n" * 20)
        example = doctest.DocTestParser().get_doctest(text, names, name, None, None)
        assert example.examples

        failures = []
        doctest.DocTestRunner().run(example, out=failures.append)

    assert not failures, "".join(failures)


def train_tagger():
    Path("ner.conll").write_text(NER)
    files = {"train": ["ner.conll"], "dev": ["ner.conll"], "workdir": "ner"}
    config = elmo_tf.trainers.TaskConfig(task="ner", **files, units=4, epochs=1)
    elmo_tf.trainers.train_task(config)
