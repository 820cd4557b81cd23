"""A run that stops and is resumed has exactly the losses and weights of an uninterrupted run."""

import os
import signal
import time

import pytest

import launching
from elmo_tf.trainers import PretrainConfig, pretrain
from runs import assert_same_run, read_log


def test_a_run_in_two_parts_equals_one_without_a_break(tmp_path, settings, run, interrupted):
    record = pretrain(PretrainConfig(**settings, workdir=interrupted, resume=True))
    assert_same_run(interrupted, run)
    assert record["perplexity"] == run.record["perplexity"]


@pytest.mark.more
def test_a_killed_process_goes_on_from_its_last_save(tmp_path, settings, run):
    workdir = tmp_path / "killed"
    process = launching.start(settings, workdir, save_every=5, steps=100_000, valid=())
    log = workdir / "log.jsonl"
    deadline = time.monotonic() + 120
    while not log.exists() or log.read_text().count("\n") < 12:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    pretrain(PretrainConfig(**settings, workdir=workdir, resume=True))
    assert read_log(workdir)[11:60] == run.log[11:60]
