"""Runs that a signal stops, and evaluations that it interrupts."""

import concurrent.futures
import itertools
import json
import os
import shutil
import signal

import pytest

from elmo_tf.evaluation.perplexity import Perplexity
from elmo_tf.trainers import PretrainConfig, pretrain
from elmo_tf.trainers.checkpointing import StopRequest, last_save
from elmo_tf.trainers.training_logger import TrainingLogger
from runs import read_log

pytestmark = pytest.mark.usefixtures("simple_losses")


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

    def evaluate(self, **kwargs):
        if next(calls) in interrupted:
            os.kill(os.getpid(), signal.SIGTERM)
        return {"average": 9.0, "tokens": self._num_targets, "unknown": self._unknown}

    monkeypatch.setattr(Perplexity, "__call__", evaluate)
    return interrupted


def test_an_evaluation_interrupted_by_a_signal_is_repeated(interrupted, text, evaluations):
    config = PretrainConfig.resumed(interrupted, steps=26, valid=text / "valid.txt")
    evaluations += [1, 2]
    for _ in evaluations:
        with pytest.raises(SystemExit):
            pretrain(config)
        assert last_save(interrupted).name == "step-00000026"
    assert [one["step"] for one in pretrain(config)["perplexity"]] == [26]


def test_with_another_held_out_text_the_best_weights_are_chosen_again(
    tmp_path, run, evaluations, caplog
):
    workdir = shutil.copytree(run.workdir, tmp_path / "run")
    path = workdir / "training.json"
    earlier = {"step": 60, "average": 8.0, "tokens": 140, "unknown": 0.1}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"perplexity": [earlier]}))
    (tmp_path / "other.txt").write_text("the cat sees\n")
    record = pretrain(PretrainConfig.resumed(workdir, valid=tmp_path / "other.txt"))
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
        assert signal.getsignal(signal.SIGTERM) != before
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
