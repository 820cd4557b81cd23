"""Runs that are broken off, gone on with, or begun where something is already."""

import json
import shutil

import pytest

from elmo_tf.trainers.tasks.answering import evaluate_task
from elmo_tf.trainers.tasks.config import TaskConfig
from elmo_tf.trainers.tasks.training import train_task
from elmo_tf.trainers.tasks.workdir import claimed_workdir
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
def begun(two_epochs, tmp_path):
    """A copy of it, of a test's own."""
    return shutil.copytree(two_epochs, tmp_path / "run")


def test_resume_and_a_work_directory_are_enough_to_go_on(begun, tmp_path, command):
    before = json.loads((begun / "task.json").read_text())

    resumed = train_task(TaskConfig.resumed(begun, epochs=3))

    assert len(resumed["epochs"]) == 3
    assert resumed["epochs"][:2] == before["epochs"]
    status, out, err = command("task", "train", "--workdir", begun, "--resume")
    assert (status, json.loads(out)["score"]) == (0, resumed["best"]["score"]), err
    for arguments in (("--workdir", begun), ("--workdir", tmp_path / "new", "--resume")):
        status, out, err = command("task", "train", *arguments)
        assert (status, out) == (2, "")
        assert "required: --task, --train, --dev" in err.splitlines()[-1]


def test_a_work_directory_in_use_is_left_alone(run, two_epochs, tmp_path):
    with pytest.raises(
        FileExistsError, match=r"two_epochs already holds a training run\. Add --resume"
    ):
        run("ner", two_epochs, has_elmo=False)
    with pytest.raises(ValueError, match=r"dropout was 0\.0, is 0\.5"):
        run("ner", two_epochs, has_elmo=False, dropout=0.5, resume=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").touch()
    with pytest.raises(FileExistsError, match=r"other is not empty.* it holds notes\.txt\."):
        run("ner", tmp_path / "other", resume=True)


def test_other_data_are_not_gone_on_with(run, files, tmp_path, begun):
    (tmp_path / "more.conll").write_text(NER + "\nin O\n")
    settings = {**SMALL, "resume": True}

    with pytest.raises(ValueError, match=r"examples changed: 3 for training .* before, 4 for"):
        train_task(TaskConfig("ner", tmp_path / "more.conll", files["ner"], begun, **settings))
    (tmp_path / "other.conll").write_text(NER.replace("Berg", "Dorf"))
    with pytest.raises(ValueError, match=r"The examples or word vectors changed\."):
        train_task(TaskConfig("ner", tmp_path / "other.conll", files["ner"], begun, **settings))
    state = begun / "state.npz"
    state.write_bytes(state.read_bytes()[:1000])
    with pytest.raises(ValueError, match=r"state\.npz is damaged"):
        run("ner", begun, has_elmo=False, resume=True)


def test_another_bilm_under_the_same_name_is_not_gone_on_with(files, tmp_path, options, weights):
    elmo = checkpoint.write(tmp_path / "elmo", options, weights)
    settings = {**SMALL, "elmo": elmo, "cache_gb": 0, "epochs": 1}
    train_task(TaskConfig("ner", files["ner"], files["ner"], tmp_path / "run", **settings))
    others = {name: array * 1.5 for name, array in weights.items()}
    checkpoint.write(tmp_path / "other", options, others)
    (tmp_path / "other" / "weights.hdf5").replace(tmp_path / "elmo" / "weights.hdf5")

    again = TaskConfig("ner", files["ner"], files["ner"], tmp_path / "run", resume=True, **settings)
    with pytest.raises(ValueError, match=r"The biLM changed\."):
        train_task(again)


def test_what_a_killed_run_has_left_is_no_hindrance_and_goes(run, begun):
    left = [".model.keras.0123abcd.part", ".model.keras.0123abcd.keras", ".state.npz.89abcdef.part"]
    for name in left:
        (begun / name).touch()
    (begun / "state.npz").unlink()
    record = json.loads((begun / "task.json").read_text())
    as_it_began = {**record, "best": None, "epochs": [], "finished": False}
    (begun / "task.json").write_text(json.dumps(as_it_began))

    record = run("ner", begun, has_elmo=False, epochs=1, resume=True)

    assert record["finished"]
    names = {path.name for path in begun.iterdir()}
    assert names == {"model.keras", "task.json", "log.jsonl", "state.npz"}


def test_results_are_deleted_by_overwrite_alone_and_only_those_of_a_task(run, begun, tmp_path):
    (begun / "state.npz").unlink()
    (begun / "tagged.conll").touch()

    with pytest.raises(FileExistsError, match=r"not empty.*it holds .* tagged\.conll"):
        run("ner", begun, has_elmo=False, epochs=2, resume=True)
    (begun / "tagged.conll").rename(tmp_path / "tagged.conll")
    with pytest.raises(ValueError, match=r"state\.npz is missing\. .*\(overwrite=True"):
        run("ner", begun, has_elmo=False, epochs=2, resume=True)
    (tmp_path / "tagged.conll").rename(begun / "tagged.conll")
    record = run("ner", begun, has_elmo=False, epochs=1, overwrite=True)

    assert len(record["epochs"]) == len((begun / "log.jsonl").read_text().splitlines()) == 1
    assert (begun / "tagged.conll").exists()
    (begun / "task.json").unlink()
    with pytest.raises(FileExistsError, match=r"not the work directory of a task.* log\.jsonl"):
        run("ner", begun, has_elmo=False, epochs=1, overwrite=True)
    assert (begun / "log.jsonl").exists()


def test_two_runs_do_not_share_a_work_directory(run, begun):
    with (
        claimed_workdir(begun),
        pytest.raises(FileExistsError, match="Another process trains in"),
    ):
        run("ner", begun, has_elmo=False, epochs=3, resume=True)

    assert run("ner", begun, has_elmo=False, epochs=3, resume=True)["finished"]


def test_a_folder_without_a_model_is_refused(tmp_path, two_epochs):
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
        evaluate_task(tmp_path, ["x"])
