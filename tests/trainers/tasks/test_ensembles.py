"""Several trained models that predict together, by the commands."""

import gc
import json
import weakref

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.models.bilm import BiLM
from elmo_tf.tasks import PropositionTagger
from elmo_tf.tasks.registry import TASKS
from elmo_tf.trainers import load_task
from elmo_tf.trainers.tasks.predict import predict_examples
from task_files import FILES, config_of, plain_text, written_found_scores

pytestmark = pytest.mark.usefixtures("eager_module")
SETTINGS = {
    "classify": {"model": "bilstm", "characters": False},
    "srl": {"model_options": ["num_layers=2", "predicate_dim=3"]},
    "coref": {"batch_size": 32, "model_options": ["mention_loss=1", "hidden_units=4"]},
}


@pytest.fixture(scope="module")
def pair(run, tmp_path_factory, eager_module):
    """A function that trains a task with two seeds; returns the work directories."""
    folder = tmp_path_factory.mktemp("pairs")

    def train(task):
        workdirs = [folder / f"{task}-{seed}" for seed in (0, 1)]
        for seed, workdir in enumerate(workdirs):
            if not workdir.exists():
                run(task, workdir, epochs=1, seed=seed, **SETTINGS.get(task, {}))
        return workdirs

    return train


@pytest.mark.parametrize(
    "task",
    ["ner", "srl", *(pytest.param(task, marks=pytest.mark.more) for task in ("squad", "coref"))],
)
def test_written_predictions_of_an_ensemble_have_its_scores(task, pair, files, tmp_path, stdout_of):
    first, second = pair(task)
    out, again = tmp_path / "out", tmp_path / "again"

    scores = stdout_of("task", "evaluate", first, files[task], "--with", second, "--output", out)
    stdout_of("task", "predict", first, files[task], again, "--with", second)

    assert again.read_bytes() == out.read_bytes()
    description = TASKS[task]()
    examples = description.read([str(files[task])], config_of(task))
    ensemble = load_task(first, second)
    predicted = predict_examples(description, ensemble, examples, 4)
    assert "\n".join([*description.lines(examples, predicted), ""]) == out.read_text()
    gold = [description.gold(example) for example in examples]
    expected = description.scores(gold, predicted)
    if task == "srl":
        plain = tmp_path / "plain.txt"
        plain.write_text(plain_text(FILES["srl"][1]))
        stdout_of("task", "predict", first, plain, again, "--with", second, "--overwrite")
        expected |= written_found_scores(examples, again)
    assert json.loads(scores) == json.loads(json.dumps(expected))


@pytest.mark.usefixtures("unverified_exports")
def test_an_ensemble_is_exported(pair, tmp_path, stdout_of):
    first, second = pair("classify")

    stdout_of("task", "export", first, tmp_path, "--with", second)

    texts = ["a good film", "", "a bad , bad film"]
    exported = tf.saved_model.load(tmp_path / "1").signatures["default"]
    found = exported(strings=tf.constant(texts))
    expected = load_task(first, second).predictions(texts)
    np.testing.assert_array_equal(found["label"], expected["label"])
    np.testing.assert_allclose(found["probabilities"], expected["probabilities"], atol=1e-5)


def test_loaded_models_have_one_bilm_in_memory(pair, monkeypatch):
    workdirs = pair("srl")
    bilms, init = weakref.WeakSet(), BiLM.__init__

    def counted(self, *args, **kwargs):
        init(self, *args, **kwargs)
        bilms.add(self)

    monkeypatch.setattr(BiLM, "__init__", counted)
    tagger = PropositionTagger.load(*workdirs)
    gc.collect()

    members = (*tagger.predicate_tagger.members, *tagger.role_tagger.members)
    assert [member.elmo.bilm for member in members] == [*bilms] * 4
