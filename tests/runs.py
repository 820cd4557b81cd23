"""The output of runs of `pretrain`, and the comparison of two runs."""

import json
import shutil
from types import SimpleNamespace

import pytest

from elmo_tf.trainers import PretrainConfig, pretrain
from elmo_tf.trainers.training_log import TrainingLogger
from nested_arrays import assert_close
from reference.checkpoint import read_hdf5


def read_log(workdir):
    """The lines of a log, without the seconds of each step, which differ between runs."""
    lines = (workdir / "log.jsonl").read_text().splitlines()
    return [
        {name: value for name, value in json.loads(line).items() if name != "seconds"}
        for line in lines
    ]


def run_of(settings, workdir, copies=None):
    """Trains without interruption; returns the work directory, the record, the log and the copies.

    Args:
        settings: arguments of a `PretrainConfig`, without the work directory.
        workdir: the work directory.
        copies: by step, a directory for the files that the run would leave if it were killed while
            it writes the line of this step in its log.
    """
    copies = copies or {}
    log_step = TrainingLogger.step

    def log_and_copy(logger, step, *arguments):
        log_step(logger, step, *arguments)
        if step in copies:
            shutil.copytree(workdir, copies[step])
            *lines, last = (workdir / "log.jsonl").read_text().splitlines(keepends=True)
            (copies[step] / "log.jsonl").write_text("".join([*lines, last[:17]]))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrainingLogger, "step", log_and_copy)
        record = pretrain(PretrainConfig(**settings, workdir=workdir))
    return SimpleNamespace(workdir=workdir, record=record, log=read_log(workdir), copies=copies)


def weights(workdir):
    files = (workdir / name for name in ("weights.hdf5", "softmax.hdf5"))
    return {name: array for file in files for name, array in read_hdf5(file).items()}


def assert_same_run(workdir, run):
    assert read_log(workdir) == run.log
    assert_close(weights(workdir), weights(run.workdir))


# The text that the fixture `trained` is trained on.
LINES = ["the cat sat .", "a dog saw the cat !", "", "the dog sat ."] * 8
