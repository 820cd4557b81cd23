"""What runs of `pretrain` leave, and whether two left the same."""

import json
from types import SimpleNamespace

import h5py
import numpy as np

from elmo_tf.trainers import PretrainConfig, pretrain


def read_log(workdir):
    """The lines of a log, but for the seconds of each step: no two runs take the same time."""
    lines = (workdir / "log.jsonl").read_text().splitlines()
    return [
        {name: value for name, value in json.loads(line).items() if name != "seconds"}
        for line in lines
    ]


def run_of(settings, workdir):
    """An uninterrupted run: its work directory, what it returned, and its log."""
    record = pretrain(PretrainConfig(**settings, workdir=workdir))
    return SimpleNamespace(workdir=workdir, record=record, log=read_log(workdir))


def leave_killed_run(run, settings, workdir):
    """What a run leaves that is killed while it writes its 41st line; the last save is at 25."""
    pretrain(PretrainConfig(**{**settings, "steps": 25}, workdir=workdir))
    lines = (run.workdir / "log.jsonl").read_text().splitlines(keepends=True)
    (workdir / "log.jsonl").write_text("".join(lines[:40]) + lines[40][:17])


def weights(workdir):
    arrays = {}
    for name in ("weights.hdf5", "softmax.hdf5"):
        with h5py.File(workdir / name) as file:
            file.visititems(
                lambda path, item, name=name: (
                    arrays.update({(name, path): item[()]})
                    if isinstance(item, h5py.Dataset)
                    else None
                )
            )
    return arrays


def assert_same_run(workdir, run):
    assert read_log(workdir) == run.log
    expected, got = weights(run.workdir), weights(workdir)
    assert set(got) == set(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(got[name], array, err_msg=str(name))
