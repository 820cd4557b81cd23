import pytest

from elmo_tf.tasks.config import TaskConfig
from elmo_tf.trainers.tasks.training import train_task
from task_files import FILES, SMALL


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """A file of each task."""
    folder = tmp_path_factory.mktemp("tasks")
    for name, content in FILES.values():
        (folder / name).write_text(content, encoding="utf-8")
    return {task: folder / name for task, (name, _) in FILES.items()}


@pytest.fixture(scope="session")
def run(files, checkpoint_directory):
    """A function that trains a task on its file, and evaluates on the same file."""

    def train(task, workdir, has_elmo=True, **settings):
        settings = {**SMALL, "epochs": 3, **settings}
        elmo = checkpoint_directory if has_elmo else None
        return train_task(
            TaskConfig(task, files[task], files[task], workdir, elmo=elmo, **settings)
        )

    return train


@pytest.fixture(scope="session")
def ner(run, tmp_path_factory):
    """The work directory and the record of an NER model that has memorized its file."""
    workdir = tmp_path_factory.mktemp("work") / "ner"
    settings = {"elmo_dropout": 0.0, "units": 40, "learning_rate": 0.01}
    return workdir, run("ner", workdir, epochs=30, patience=30, **settings)
