import contextlib

import pytest
import tensorflow as tf

from elmo_tf.tasks import TaskModel
from elmo_tf.tasks.config import TaskConfig
from elmo_tf.trainers.tasks.training import train_task
from task_files import FILES, SMALL


@contextlib.contextmanager
def eagerly():
    """A context in which functions run eagerly, which is faster for a few steps or predictions.

    Predictions use a separate concrete function, which `run_functions_eagerly` does not affect.
    """

    def call_itself(model, function):
        return lambda inputs: function(model.named_inputs(inputs))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TaskModel, "_traced", call_itself)
        tf.config.run_functions_eagerly(True)
        try:
            yield
        finally:
            tf.config.run_functions_eagerly(False)


@pytest.fixture
def eager_functions():
    with eagerly():
        yield


@pytest.fixture(scope="module")
def eager_module():
    with eagerly():
        yield


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """A file of each task."""
    folder = tmp_path_factory.mktemp("tasks")
    for name, content in FILES.values():
        (folder / name).write_text(content, encoding="utf-8")
    return {task: folder / name for task, (name, _) in FILES.items()}


@pytest.fixture(scope="session")
def run(files, tmp_path_factory, checkpoint_directory):
    """A function that trains a task on its file, and evaluates on the same file."""
    cache = tmp_path_factory.mktemp("cache")

    def train(task, workdir, has_elmo=True, **settings):
        settings = {**SMALL, "cache": cache, "epochs": 3, **settings}
        elmo = checkpoint_directory if has_elmo else None
        return train_task(
            TaskConfig(task, files[task], files[task], workdir, elmo=elmo, **settings)
        )

    return train


@pytest.fixture(scope="session")
def ner(run, tmp_path_factory):
    """The work directory and the record of an NER model that has memorized its file."""
    workdir = tmp_path_factory.mktemp("work") / "ner"
    return workdir, run(
        "ner", workdir, elmo_dropout=0.0, units=40, learning_rate=0.01, epochs=30, patience=30
    )
