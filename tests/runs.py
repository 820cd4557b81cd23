"""What runs of `pretrain` leave, and whether two left the same."""

import json

import h5py
import numpy as np


def read_log(workdir):
    return [json.loads(line) for line in (workdir / "log.jsonl").read_text().splitlines()]


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
