"""Interrupted and resumed runs, and work directories that are already in use."""

import json
import shutil

import pytest

from elmo_tf.files import locked_directory
from elmo_tf.tasks.config import TaskConfig
from elmo_tf.trainers import load_task
from elmo_tf.trainers.tasks import training
from elmo_tf.trainers.tasks.predict import evaluate_task
from elmo_tf.trainers.tasks.training import train_task
from nested_arrays import assert_close
from reference import checkpoint
from task_files import NER, SMALL

pytestmark = pytest.mark.usefixtures("eager_module")


@pytest.fixture(scope="module")
def two_epochs(run, tmp_path_factory, eager_module):
    """The work directory of a run of two epochs, without ELMo."""
    workdir = tmp_path_factory.mktemp("work") / "two_epochs"
    run("ner", workdir, has_elmo=False, epochs=2)
    return workdir


@pytest.fixture
def workdir(two_epochs, tmp_path):
    """A copy of `two_epochs`, which a test may change."""
    return shutil.copytree(two_epochs, tmp_path / "run")


def test_a_run_can_be_resumed_from_its_work_directory_alone(workdir, stdout_of):
    before = json.loads((workdir / "task.json").read_text())

    resumed = train_task(TaskConfig(workdir=workdir, epochs=3, resume=True))

    assert len(resumed["epochs"]) == 3
    assert resumed["epochs"][:2] == before["epochs"]
    out = stdout_of("task", "train", "--workdir", workdir, "--resume")
    assert json.loads(out)["score"] == resumed["best"]["score"]


def kill_in(patch, owner, name, num_epochs):
    """Raises an error in a method as soon as the record has a number of epochs."""
    original = getattr(owner, name)

    def killed(self, *arguments, **named):
        record = self.record if hasattr(self, "record") else arguments[0]
        if len(record["epochs"]) == num_epochs:
            raise KeyboardInterrupt
        original(self, *arguments, **named)

    patch.setattr(owner, name, killed)


def test_a_run_killed_at_any_time_resumes_to_the_scores_of_an_uninterrupted_run(
    run, tmp_path, monkeypatch
):
    """With dropout and averages of the weights, whose state must be restored too."""
    settings = {"has_elmo": False, "epochs": 4, "dropout": 0.3, "ema": 0.9, "batch_size": 2}
    whole = run("ner", tmp_path / "whole", **settings)
    # During the first epoch, after the model of the second was written, and in the fourth.
    for owner, name, epoch in (
        (training._Epochs, "on_train_batch_end", 0),
        (training._State, "save", 2),
        (training._Epochs, "on_train_batch_end", 3),
    ):
        with monkeypatch.context() as patch:
            kill_in(patch, owner, name, epoch)
            with pytest.raises(KeyboardInterrupt):
                run("ner", tmp_path / "parts", **settings, resume=True)

    parts = run("ner", tmp_path / "parts", **settings, resume=True)

    for record in (whole, parts):
        for epoch in record["epochs"]:
            del epoch["seconds"]
    assert parts == {**whole, "settings": parts["settings"]}
    models = [load_task(tmp_path / name).get_weights() for name in ("whole", "parts")]
    assert_close(*models)
    lines = (tmp_path / "parts" / "log.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == [1, 2, 3, 4]


def test_a_work_directory_in_use_is_refused_before_a_file_changes(run, workdir):
    """`test_workdir.py` of pretraining, which has the same work directories, has more cases."""
    before = {path: path.stat().st_mtime_ns for path in workdir.iterdir()}
    with pytest.raises(FileExistsError, match=r"run already holds a training run\. Add --resume"):
        run("ner", workdir, has_elmo=False)
    with pytest.raises(ValueError, match="`max_width` must be at least 1"):
        run("coref", workdir, batch_size=32, model_options=("max_width=0",), overwrite=True)
    with pytest.raises(ValueError, match=r"\(--set\) cannot set placement: another setting does"):
        run("ner", workdir, model_options=("placement=both",), overwrite=True)
    assert {path: path.stat().st_mtime_ns for path in workdir.iterdir()} == before
    with pytest.raises(ValueError, match=r"dropout was 0\.0"):
        run("ner", workdir, has_elmo=False, dropout=0.5, resume=True)
    with (
        locked_directory(workdir, ""),
        pytest.raises(FileExistsError, match="Another process trains in"),
    ):
        run("ner", workdir, has_elmo=False, epochs=3, resume=True)


def test_resume_refuses_changed_data_or_a_damaged_state(run, files, tmp_path, workdir):
    settings = {**SMALL, "resume": True}

    (tmp_path / "other.conll").write_text(NER.replace("Berg", "Dorf"))
    with pytest.raises(ValueError, match="`data` changed"):
        train_task(TaskConfig("ner", tmp_path / "other.conll", files["ner"], workdir, **settings))
    state = workdir / "state.npz"
    state.write_bytes(state.read_bytes()[:1000])
    with pytest.raises(ValueError, match=r"state\.npz is damaged"):
        run("ner", workdir, has_elmo=False, resume=True)


def test_a_run_resumes_after_its_inputs_have_moved(files, tmp_path, options, weights):
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("Bonn 0.5 1.5\nlives -1 2\n")
    elmo = checkpoint.write(tmp_path / "elmo", options, weights)
    sources = {"elmo": elmo, "word_vectors": vectors}
    settings = {**SMALL, "workdir": tmp_path / "run", "resume": True}
    train_task(TaskConfig("ner", files["ner"], files["ner"], epochs=1, **settings, **sources))
    moved = {name: path.rename(tmp_path / f"moved_{name}") for name, path in sources.items()}

    record = train_task(TaskConfig(workdir=tmp_path / "run", epochs=2, **moved, resume=True))

    assert len(record["epochs"]) == 2
    others = {name: array * 1.5 for name, array in weights.items()}
    for changed in (None, checkpoint.write(tmp_path / "moved_elmo", options, others)):
        again = TaskConfig(
            workdir=tmp_path / "run", epochs=3, **moved | {"elmo": changed}, resume=True
        )
        with pytest.raises(ValueError, match="`bilm` changed"):
            train_task(again)


def test_resuming_deletes_temporary_files_of_a_killed_run(run, workdir):
    before = {path.name for path in workdir.iterdir()}
    for name in ("model.keras.01ab.part.keras", "state.npz.89cd.part.npz"):
        (workdir / f".{name}").touch()

    run("ner", workdir, has_elmo=False, epochs=3, resume=True)

    assert {path.name for path in workdir.iterdir()} == before


def test_a_folder_without_a_model_is_refused(tmp_path, two_epochs, files):
    with pytest.raises(FileNotFoundError, match=r"no trained task model: there is no model\.keras"):
        evaluate_task(tmp_path, ["x"])
    (tmp_path / "model.keras").touch()
    for content in ("{", "{}", "[]"):
        (tmp_path / "task.json").write_text(content)
        with pytest.raises(ValueError, match=r"task\.json is damaged"):
            evaluate_task(tmp_path, ["x"])
    (tmp_path / "model.keras").write_bytes((two_epochs / "model.keras").read_bytes()[:1000])
    (tmp_path / "task.json").write_bytes((two_epochs / "task.json").read_bytes())
    with pytest.raises(ValueError, match=r"Cannot read .*model\.keras"):
        evaluate_task(tmp_path, [files["ner"]])
