"""A run that stops and is resumed has exactly the losses and weights of an uninterrupted run.

`simple_losses` tests more ways to stop a run, all in this process.
"""

import pytest

import launching
from elmo_tf.trainers import PretrainConfig, pretrain
from runs import assert_same_run, read_log


def test_a_resumed_run_equals_an_uninterrupted_run(tmp_path, settings, run, interrupted):
    record = pretrain(PretrainConfig(**settings, workdir=interrupted, resume=True))
    assert_same_run(interrupted, run)
    assert record["perplexity"] == run.record["perplexity"]


@pytest.mark.more
def test_a_killed_process_resumes_from_its_last_save(tmp_path, settings, run):
    workdir = tmp_path / "killed"
    process = launching.start(settings, workdir, save_every=5, steps=100_000, valid=())
    launching.wait_for_steps(workdir, 12, process)
    process.kill()
    process.communicate()
    pretrain(PretrainConfig(**settings, workdir=workdir, resume=True))
    assert read_log(workdir)[11:60] == run.log[11:60]
