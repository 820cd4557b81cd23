"""A process that is told to stop, and the exact losses of the run that goes on.

`simple_losses/test_interrupts.py` has runs within this process.
"""

import signal
import time

import pytest

import launching
from elmo_tf.trainers import PretrainConfig, pretrain
from runs import read_log

pytestmark = pytest.mark.more


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
