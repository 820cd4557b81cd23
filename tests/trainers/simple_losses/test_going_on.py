"""Resuming runs that stopped or were killed, and cases in which resuming is refused."""

import json
import shutil

import numpy as np
import pytest

from elmo_tf import Vocabulary
from elmo_tf.trainers import PretrainConfig, pretrain
from runs import assert_same_run, read_log, weights


def test_a_run_killed_before_writing_its_record_can_be_resumed_twice(run, interrupted):
    """The work directory has everything that resuming needs."""
    path = interrupted / "training.json"
    record = json.loads(path.read_text())
    del record["loss"]
    path.write_text(json.dumps(record | {"step": 0}))
    for steps in (25, 60):
        pretrain(PretrainConfig.resumed(interrupted, steps=steps))
    assert_same_run(interrupted, run)


def test_a_run_killed_during_a_save_resumes_from_the_previous_save(settings, run, interrupted):
    """With incomplete saves, as a kill leaves them at different moments."""
    (last,) = (interrupted / "state").iterdir()
    for number, names in enumerate(([], ["weights.index"], [path.name for path in last.iterdir()])):
        broken = interrupted / "state" / f"step-{30 + number:08d}"
        broken.mkdir()
        for name in names:
            if name != "COMPLETE":
                (broken / name).write_bytes(b"half a fi")
    (broken / ".COMPLETE.1a2b3c4d.part").write_text('{"st')
    pretrain(PretrainConfig(**settings, workdir=interrupted, resume=True))
    assert_same_run(interrupted, run)
    saves = sorted(path.name for path in (interrupted / "state").iterdir())
    assert saves == ["step-00000050", "step-00000060"]


def test_a_resumed_run_without_a_complete_save_restarts(tmp_path, settings, run):
    workdir = tmp_path / "afresh"
    workdir.mkdir()
    (workdir / "log.jsonl").write_text(json.dumps(run.log[0] | {"loss": 0.0}) + '\n{"st')
    config = PretrainConfig(**{**settings, "steps": 2}, workdir=workdir, resume=True)
    pretrain(config)
    assert read_log(workdir) == run.log[:2]


def test_resuming_a_finished_run_makes_no_steps_and_no_saves(tmp_path, settings, run):
    workdir = tmp_path / "done"
    shutil.copytree(run.workdir, workdir)
    (workdir / "softmax.hdf5").unlink()  # as if the run had been killed while it saved
    before = {path: path.stat().st_mtime_ns for path in (workdir / "state").rglob("*")}
    record = pretrain(PretrainConfig(**settings, workdir=workdir, resume=True))
    assert_same_run(workdir, run)
    assert record["loss"] == run.record["loss"]
    assert {path: path.stat().st_mtime_ns for path in (workdir / "state").rglob("*")} == before


def test_a_run_is_not_resumed_with_other_settings(settings, interrupted):
    before = weights(interrupted)
    with pytest.raises(ValueError, match=r"Cannot resume with other settings.*learning_rate"):
        pretrain(PretrainConfig(**settings, workdir=interrupted, resume=True, learning_rate=0.1))
    for name, array in weights(interrupted).items():
        np.testing.assert_array_equal(array, before[name])


def test_a_run_is_not_resumed_with_another_vocabulary(tmp_path, settings, interrupted):
    Vocabulary.build(["the cat sees a dog"]).save(tmp_path / "other.txt")
    settings = {**settings, "vocab": tmp_path / "other.txt"}
    with pytest.raises(ValueError, match="Cannot resume with another vocabulary"):
        pretrain(PretrainConfig(**settings, workdir=interrupted, resume=True))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda line: "", "240 sentences before, 239 now"),
        (lambda line: line + " .", "1,550 tokens before, 1,551 now"),
        (lambda line: line + " ", "files differ"),
    ],
)
def test_a_run_is_not_resumed_with_another_corpus(
    tmp_path, settings, interrupted, text, change, message
):
    for name in ("train_1.txt", "train_2.txt"):
        first, *lines = (text / name).read_text().splitlines()
        first = change(first) if name == "train_1.txt" else first
        (tmp_path / name).write_text("\n".join([first, *lines]) + "\n")
    settings = {**settings, "corpus": str(tmp_path / "train_*.txt")}
    with pytest.raises(ValueError, match=f"The corpus changed: .*{message}"):
        pretrain(PretrainConfig(**settings, workdir=interrupted, resume=True))


def test_a_run_resumes_whose_record_counts_fewer_kinds_of_lines(interrupted):
    path = interrupted / "training.json"
    record = json.loads(path.read_text())
    del record["corpus"]["space_lines"]
    path.write_text(json.dumps(record))

    resumed = pretrain(PretrainConfig.resumed(interrupted, steps=51))

    assert resumed["corpus"]["space_lines"] == 0


def test_a_run_resumes_after_its_text_files_have_moved(
    tmp_path, settings, text, run, interrupted, monkeypatch
):
    for name in ("train_1.txt", "train_2.txt", "vocab.txt"):
        shutil.copy(text / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    settings = {**settings, "corpus": ["train_1.txt", "./train_2.txt"], "vocab": "vocab.txt"}
    pretrain(PretrainConfig(**settings, workdir=interrupted, resume=True))
    assert_same_run(interrupted, run)


@pytest.mark.parametrize("name", ["checkpoint", "options.json", "vocab.txt"])
def test_resume_does_not_overwrite_foreign_files_in_the_work_directory(tmp_path, settings, name):
    workdir = tmp_path / "foreign"
    workdir.mkdir()
    contents = {
        "checkpoint": 'model_checkpoint_path: "model.ckpt-1"',
        "options.json": '{"lstm": {"dim": 20, "projection_dim": 10}, "n_tokens_vocab": 5}',
        "vocab.txt": "<S>\n</S>\n<UNK>\nmine\n",
    }
    (workdir / name).write_text(contents[name])
    with pytest.raises(FileExistsError, match="foreign is not empty, and holds no run to"):
        pretrain(PretrainConfig(**settings, workdir=workdir, resume=True))
    assert {path.name: path.read_text() for path in workdir.iterdir()} == {name: contents[name]}


def test_a_run_stopped_before_its_first_save_can_be_resumed(tmp_path, settings, run):
    workdir = tmp_path / "begun"
    workdir.mkdir()
    for name in ("options.json", "vocab.txt", "training.json", "log.jsonl"):
        shutil.copy(run.workdir / name, workdir)
    pretrain(PretrainConfig(**{**settings, "steps": 2}, workdir=workdir, resume=True))
    assert read_log(workdir) == run.log[:2]


def test_a_work_directory_with_a_wildcard_in_its_name_is_refused(tmp_path, settings):
    with pytest.raises(ValueError, match=r"cannot write to .*run\[1\]: it treats \[ as a wildcard"):
        pretrain(PretrainConfig(**settings, workdir=tmp_path / "run[1]"))


def test_a_damaged_save_is_an_error(settings, interrupted):
    (data,) = (interrupted / "state").glob("*/weights.data-*")
    data.write_bytes(data.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"Cannot resume from .*state.* If it is damaged, remove"):
        pretrain(PretrainConfig(**settings, workdir=interrupted, resume=True))
