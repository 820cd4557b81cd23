import itertools
import os
import signal
import threading

import pytest

from elmo_tf.evaluation.perplexity import Perplexity
from elmo_tf.trainers import PretrainConfig, pretrain
from elmo_tf.trainers.interrupts import StopRequest
from elmo_tf.trainers.training_logger import TrainingLogger
from runs import read_log


@pytest.fixture
def signal_after(monkeypatch):
    """Sends this process a signal, once, after a step."""
    log_step = TrainingLogger.step
    signals = {}

    def log_and_send(self, step, *arguments):
        log_step(self, step, *arguments)
        if step in signals:
            os.kill(os.getpid(), signals.pop(step))

    monkeypatch.setattr(TrainingLogger, "step", log_and_send)
    return signals.__setitem__


def test_a_run_saves_on_a_signal_and_resumes_exactly(tmp_path, settings, run, signal_after):
    workdir = tmp_path / "run"
    config = PretrainConfig(**{**settings, "save_every": 1000}, workdir=workdir, resume=True)
    for step, number, error in (
        (4, signal.SIGTERM, SystemExit),
        (9, signal.SIGINT, KeyboardInterrupt),
    ):
        signal_after(step, number)
        with pytest.raises(error) as ended:
            pretrain(config)
        if number == signal.SIGTERM:
            assert ended.value.code == 143
        done = step + 1  # the run stops after the step that follows the signal
        assert read_log(workdir) == run.log[:done]
        assert (workdir / "state" / f"step-{done:08d}" / "COMPLETE").exists()


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


def test_an_evaluation_interrupted_by_a_signal_is_repeated(tmp_path, settings, text, evaluations):
    settings = {**settings, "valid": text / "valid.txt", "steps": 1}
    config = PretrainConfig(**settings, workdir=tmp_path / "run", resume=True)
    evaluations += [2, 3]
    for _ in evaluations:
        with pytest.raises(SystemExit):
            pretrain(config)
    record = pretrain(config)
    assert [one["step"] for one in record["perplexity"]] == [0, 1]


def test_with_another_held_out_text_the_best_weights_are_chosen_again(
    tmp_path, settings, text, evaluations, caplog
):
    settings = {**settings, "steps": 1, "workdir": tmp_path / "run", "valid": text / "valid.txt"}
    pretrain(PretrainConfig(**settings))
    (tmp_path / "other.txt").write_text("the cat sat\n")
    settings |= {"steps": 2, "valid": tmp_path / "other.txt", "resume": True}

    record = pretrain(PretrainConfig(**settings))

    assert {one["tokens"] for one in record["perplexity"]} == {4}
    assert "The held-out text has changed" in caplog.text


def test_a_save_is_written_after_save_minutes_at_any_step(tmp_path, settings):
    workdir = tmp_path / "run"
    changes = {"save_minutes": 1e-9, "save_every": 1000, "steps": 3}
    pretrain(PretrainConfig(**{**settings, **changes}, workdir=workdir))
    # The last two saves are kept; without `save_minutes` only the last step would be saved.
    assert {path.name for path in (workdir / "state").iterdir()} == {
        "step-00000002",
        "step-00000003",
    }


def test_the_first_signal_is_recorded_and_a_second_ctrl_c_interrupts():
    with StopRequest() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.signal == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_previous_signal_handlers_are_restored():
    before = signal.getsignal(signal.SIGTERM)
    with StopRequest():
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before


def test_an_ignored_signal_stays_ignored(monkeypatch):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with StopRequest():
            assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_no_handler_is_installed_outside_the_main_thread():
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def listen():
        with StopRequest():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=listen)
    thread.start()
    thread.join()
    assert seen == [before]
