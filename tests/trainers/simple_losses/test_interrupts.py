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


def test_a_run_that_is_told_to_stop_saves_and_goes_on_exactly(
    tmp_path, settings, run, signal_after
):
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
        done = step + 1  # a signal ends the step after it
        assert read_log(workdir) == run.log[:done]
        assert (workdir / "state" / f"step-{done:08d}" / "COMPLETE").exists()


def test_an_evaluation_that_a_signal_ends_is_repeated(tmp_path, settings, text, monkeypatch):
    calls = []

    def send_signal_in_second_call(self, **kwargs):
        calls.append(kwargs)
        if len(calls) == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return {"average": 9.0, "tokens": 80, "unknown": 0.0}

    monkeypatch.setattr(Perplexity, "__call__", send_signal_in_second_call)
    settings = {**settings, "valid": text / "valid.txt", "steps": 1}
    config = PretrainConfig(**settings, workdir=tmp_path / "run", resume=True)
    with pytest.raises(SystemExit):
        pretrain(config)
    record = pretrain(config)
    assert [one["step"] for one in record["perplexity"]] == [0, 1]
    assert len(calls) == 3


def test_a_save_is_due_after_some_minutes_whatever_the_step(tmp_path, settings):
    workdir = tmp_path / "run"
    changes = {"save_minutes": 1e-9, "save_every": 1000, "steps": 3}
    pretrain(PretrainConfig(**{**settings, **changes}, workdir=workdir))
    # Those of the last two steps are kept, of which only the last was due by its number.
    assert {path.name for path in (workdir / "state").iterdir()} == {
        "step-00000002",
        "step-00000003",
    }


def test_a_first_signal_is_only_noted_and_a_second_ctrl_c_interrupts():
    with StopRequest() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.received == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_afterwards_signals_do_what_they_did_before():
    before = signal.getsignal(signal.SIGTERM)
    with StopRequest():
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_signal_that_is_ignored_stays_so(monkeypatch):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with StopRequest():
            assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_outside_the_main_thread_nobody_listens():
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def listen():
        with StopRequest():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=listen)
    thread.start()
    thread.join()
    assert seen == [before]
