"""Runs that a signal stops or that are killed, resuming them, and when that is refused.

`test_pretraining.py` resumes a run with the losses of the language model.
"""

import concurrent.futures
import dataclasses
import itertools
import json
import os
import shutil
import signal

import pytest
import tensorflow as tf

from elmo_tf import Vocabulary
from elmo_tf.evaluation.perplexity import Perplexity
from elmo_tf.text.corpus import line_dataset
from elmo_tf.text.windows import LMWindows
from elmo_tf.trainers import PretrainConfig, pretrain
from elmo_tf.trainers.checkpointing import StopRequest, last_save
from elmo_tf.trainers.steps import TrainStep
from elmo_tf.trainers.training_log import TrainingLogger
from nested_arrays import assert_close
from runs import assert_same_run, read_log, run_of

pytestmark = pytest.mark.usefixtures("simple_losses")


def test_a_killed_run_resumes_exactly_from_its_last_complete_save(
    tmp_path, settings, text, run, interrupted, monkeypatch
):
    """With incomplete saves, as a kill leaves them at different moments. The text has moved."""
    (last,) = (interrupted / "state").iterdir()
    for number, names in enumerate(([], ["weights.index"], [path.name for path in last.iterdir()])):
        broken = interrupted / "state" / f"step-{30 + number:08d}"
        broken.mkdir()
        for name in names:
            if name != "COMPLETE":
                (broken / name).write_bytes(b"half a fi")
    (broken / ".COMPLETE.1a2b3c4d.part").write_text('{"st')
    (interrupted / "best").mkdir(exist_ok=True)
    (interrupted / "best/.weights.hdf5.1a2b3c4d.part.hdf5").touch()
    for name in ("train_1.txt", "train_2.txt", "vocab.txt"):
        shutil.copy(text / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    settings = {**settings, "corpus": ["train_1.txt", "./train_2.txt"], "vocab": "vocab.txt"}
    pretrain(PretrainConfig(**settings, workdir=interrupted, resume=True))
    assert_same_run(interrupted, run)
    # All variables of the last saves, with the running norm that skips exploding gradients.
    saves = (last_save(workdir) / "weights" for workdir in (interrupted, run.workdir))
    readers = [tf.train.load_checkpoint(str(path)) for path in saves]
    names = readers[1].get_variable_to_shape_map().keys() - {"_CHECKPOINTABLE_OBJECT_GRAPH"}
    assert_close(*([reader.get_tensor(name) for name in sorted(names)] for reader in readers))
    saves = sorted(path.name for path in (interrupted / "state").iterdir())
    assert saves == ["step-00000050", "step-00000060"]
    assert not [*interrupted.rglob("*.part*")]


def test_a_run_killed_before_it_wrote_a_loss_resumes(interrupted, settings):
    """The record is of an older version: other numbers of the corpus, and another default rate."""
    path = interrupted / "training.json"
    record = json.loads(path.read_text()) | {"step": 0}
    del record["loss"], record["corpus"]["longest"], record["earlier_corpora"]
    record["settings"]["learning_rate"] = 0.07
    path.write_text(json.dumps(record))
    resumed = pretrain(PretrainConfig(workdir=interrupted, steps=25, resume=True))
    assert resumed["settings"]["learning_rate"] == 0.07
    assert (resumed["step"], resumed["corpus"]["longest"]) == (25, 8)
    assert len(read_log(interrupted)) == 25


def test_a_run_killed_before_its_first_save_restarts(tmp_path, settings, run):
    workdir = tmp_path / "begun"
    workdir.mkdir()
    for name in ("options.json", "vocab.txt", "training.json"):
        shutil.copy(run.workdir / name, workdir)
    (workdir / "log.jsonl").write_text(json.dumps(run.log[0] | {"loss": 0.0}) + '\n{"st')
    pretrain(PretrainConfig(**{**settings, "steps": 2}, workdir=workdir, resume=True))
    assert read_log(workdir) == run.log[:2]


def test_resuming_a_finished_run_makes_no_steps_and_no_saves(tmp_path, settings, run):
    workdir = shutil.copytree(run.workdir, tmp_path / "done")
    (workdir / "softmax.hdf5").unlink()  # as if the run had been killed while it saved
    before = {path: path.stat().st_mtime_ns for path in (workdir / "state").rglob("*")}
    record = pretrain(PretrainConfig(**settings, workdir=workdir, resume=True))
    assert_same_run(workdir, run)
    assert record["loss"] == run.record["loss"]
    assert {path: path.stat().st_mtime_ns for path in (workdir / "state").rglob("*")} == before


def test_a_run_is_not_resumed_with_another_text_or_vocabulary(
    tmp_path, settings, interrupted, text
):
    before = {path: path.stat().st_mtime_ns for path in interrupted.rglob("*")}
    shutil.copy(text / "train_2.txt", tmp_path)
    first, others = (text / "train_1.txt").read_text().split("\n", 1)
    Vocabulary.build(["the cat sees a dog"]).save(tmp_path / "other.txt")
    corpus = {"corpus": str(tmp_path / "train_*.txt")}
    for line, changes, message in (
        (first, {"vocab": tmp_path / "other.txt"}, "Cannot resume with another vocabulary"),
        ("", corpus, "corpus changed: 240 sentences.* before, 239 sentences"),
        (f"{first} ", corpus, "corpus changed: .*add --new-corpus"),
    ):
        (tmp_path / "train_1.txt").write_text(f"{line}\n{others}")
        with pytest.raises(ValueError, match=message):
            pretrain(PretrainConfig(**{**settings, **changes}, workdir=interrupted, resume=True))
    assert {path: path.stat().st_mtime_ns for path in interrupted.rglob("*")} == before


def test_a_run_goes_on_with_a_new_corpus_which_it_reads_from_the_beginning(
    tmp_path, text, run, interrupted, monkeypatch
):
    """Its epochs count from there. A killed run resumes exactly, also before its first save."""
    new = shutil.copy(text / "train_2.txt", tmp_path / "new.txt")
    with open(new, "a") as file:
        file.write("the cat sees a new word .\n")
    seen, train = [], TrainStep.__call__

    def train_and_keep(self, inputs, *arguments):
        seen.append(inputs.numpy().tolist())
        return train(self, inputs, *arguments)

    monkeypatch.setattr(TrainStep, "__call__", train_and_keep)
    workdir = shutil.copytree(interrupted, tmp_path / "whole")
    changes = {"epochs": 4, "save_every": 10, "corpus": new, "new_corpus": True, "resume": True}
    whole = run_of(changes, workdir, {step: tmp_path / str(step) for step in (28, 45)})
    record = whole.record
    earlier = {"files": run.record["settings"]["corpus"], **run.record["corpus"]}
    assert record["earlier_corpora"] == [earlier]
    corpus = record["corpus"]
    assert (corpus["first_step"], corpus["sentences"]) == (25, 91)
    assert record["step"] == 25 + round(4 * (corpus["tokens"] + 91) / 75)
    assert whole.log[:25] == run.log[:25]
    windows = LMWindows(line_dataset([new], seed=0).repeat(), 3, 25)
    assert seen == [next(windows)["inputs"].numpy().tolist() for _ in seen]
    for copy in whole.copies.values():
        pretrain(PretrainConfig(workdir=copy, resume=True))
        assert read_log(copy) == whole.log


def test_a_run_goes_on_in_the_precision_of_another_processor(interrupted, monkeypatch):
    monkeypatch.setattr("elmo_tf.trainers.pretraining.usable_precision", lambda given: given)
    config = PretrainConfig(workdir=interrupted, precision="mixed_bfloat16", resume=True)
    assert pretrain(config)["settings"]["precision"] == "mixed_bfloat16"


def test_a_damaged_save_is_an_error(settings, interrupted):
    (data,) = (interrupted / "state").glob("*/weights.data-*")
    data.write_bytes(data.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"Cannot resume from .*state.* If it is damaged, remove"):
        pretrain(PretrainConfig(**settings, workdir=interrupted, resume=True))


def test_a_run_saves_on_a_signal_and_resumes_exactly(tmp_path, settings, run, monkeypatch):
    log_step = TrainingLogger.step
    signals = {4: signal.SIGTERM, 9: signal.SIGINT}

    def log_and_send(self, step, *arguments):
        log_step(self, step, *arguments)
        if step in signals:
            os.kill(os.getpid(), signals[step])

    monkeypatch.setattr(TrainingLogger, "step", log_and_send)
    config = PretrainConfig(**{**settings, "save_every": 1000}, workdir=tmp_path, resume=True)
    for step, error in ((4, SystemExit), (9, KeyboardInterrupt)):
        with pytest.raises(error) as ended:
            pretrain(config)
        assert getattr(ended.value, "code", 143) == 143
        done = step + 1  # the run stops after the step that follows the signal
        assert read_log(tmp_path) == run.log[:done]
        assert (tmp_path / "state" / f"step-{done:08d}" / "COMPLETE").exists()


@pytest.fixture
def evaluations(monkeypatch):
    """Replaces the evaluation; returns the numbers of the calls in which it gets a signal."""
    interrupted, calls = [], itertools.count(1)

    def evaluate(self, is_stopped, **kwargs):
        if next(calls) in interrupted:
            os.kill(os.getpid(), signal.SIGTERM)
        if is_stopped():
            return None
        return {"average": 9.0, "tokens": self._num_targets, "unknown": self._unknown}

    monkeypatch.setattr(Perplexity, "__call__", evaluate)
    return interrupted


def test_an_evaluation_interrupted_by_a_signal_is_repeated(interrupted, text, evaluations):
    config = PretrainConfig(workdir=interrupted, steps=26, valid=text / "valid.txt", resume=True)
    evaluations += [1, 2]
    for _ in evaluations:
        with pytest.raises(SystemExit):
            pretrain(config)
        assert last_save(interrupted).name == "step-00000026"
    pretrain(config)
    record = interrupted / "training.json"
    record.write_text(record.read_text().replace("9.0", "null"))  # which was infinite
    further = pretrain(dataclasses.replace(config, steps=27))["perplexity"]
    assert [(one["step"], one["average"]) for one in further] == [(26, None), (27, 9.0)]


def test_with_another_held_out_text_the_best_weights_are_chosen_again(
    tmp_path, run, evaluations, caplog
):
    workdir = shutil.copytree(run.workdir, tmp_path / "run")
    path = workdir / "training.json"
    earlier = {"step": 60, "average": 8.0, "tokens": 140, "unknown": 0.1}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"perplexity": [earlier]}))
    (tmp_path / "other.txt").write_text("the cat sees\n")
    record = pretrain(PretrainConfig(workdir=workdir, valid=tmp_path / "other.txt", resume=True))
    assert [(one["step"], one["tokens"]) for one in record["perplexity"]] == [(60, 4)]
    assert (workdir / "best" / "weights.hdf5").exists()
    assert "The held-out text has changed" in caplog.text


def test_the_first_signal_is_recorded_and_a_second_ctrl_c_interrupts():
    before = signal.getsignal(signal.SIGTERM)
    with StopRequest() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.signal == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGTERM) == before


def test_handlers_of_ignored_signals_and_of_other_threads_are_kept():
    def handler():
        with StopRequest():
            return signal.getsignal(signal.SIGINT)

    with concurrent.futures.ThreadPoolExecutor() as pool:
        assert pool.submit(handler).result() == signal.getsignal(signal.SIGINT)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert handler() == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
