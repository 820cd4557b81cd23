import os
import signal
import threading
import time

import pytest

import launching
from elmo_tf.trainers import PretrainConfig, pretrain
from elmo_tf.trainers.interrupts import StopRequest
from runs import read_log


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, -signal.SIGINT)]
)
def test_a_run_that_is_told_to_stop_saves_and_goes_on_exactly(
    tmp_path, settings, run, number, status
):
    workdir = tmp_path / "run"
    process = launching.start(settings, workdir, save_every=100_000, steps=100_000, valid=())
    deadline = time.monotonic() + 120
    while not (workdir / "log.jsonl").exists() or len(read_log_so_far(workdir)) < 5:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == status, errors
    done = len(read_log(workdir))
    assert (workdir / "state" / f"step-{done:08d}" / "COMPLETE").exists()
    pretrain(PretrainConfig(**{**settings, "steps": max(60, done)}, workdir=workdir, resume=True))
    assert read_log(workdir)[:60] == run.log


def read_log_so_far(workdir):
    return (workdir / "log.jsonl").read_text().splitlines()


def test_a_save_is_due_after_some_minutes_whatever_the_step(tmp_path, settings):
    workdir = tmp_path / "run"
    changes = {"save_minutes": 1e-9, "save_every": 1000, "steps": 3, "valid": ()}
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


def test_work_that_can_be_done_again_is_broken_off_at_once():
    reached = []
    with StopRequest() as stop, stop.interruptible():
        os.kill(os.getpid(), signal.SIGTERM)
        reached.append("after")
    assert stop.received == signal.SIGTERM
    assert not reached


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
