import collections
import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.evaluation.perplexity import Perplexity
from elmo_tf.trainers import PretrainConfig, pretrain
from reference.checkpoint import read_hdf5


def read_board(folder):
    """For each tag, its steps and values."""
    values = collections.defaultdict(dict)
    for path in folder.glob("events.*"):
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            for value in event.summary.value:
                values[value.tag][event.step] = float(tf.make_ndarray(value.tensor))
    return values


@pytest.fixture(scope="module")
def watched(tmp_path_factory, settings, text, replace_losses):
    """A run whose held-out perplexities are 9, 5 and 7, with the softmax at 5."""
    workdir = tmp_path_factory.mktemp("watched") / "run"
    changes = {"steps": 6, "eval_every": 3, "tensorboard": True}
    changes |= {"schedule": "constant", "warmup_steps": 2, "valid": text / "valid.txt"}
    perplexities, best = [7.0, 5.0, 9.0], {}

    def measure(self, **kwargs):
        perplexity = perplexities.pop()
        if perplexity == 5:
            best["W"] = self._model.softmax.kernel.numpy()
        result = {"average": perplexity, "forward": perplexity + 1, "backward": perplexity - 1}
        return {**result, "tokens": 80, "unknown": 0.0}

    with replace_losses(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(Perplexity, "__call__", measure)
        record = pretrain(PretrainConfig(**{**settings, **changes}, workdir=workdir))
    log = list(map(json.loads, (workdir / "log.jsonl").read_text().splitlines()))
    return SimpleNamespace(workdir=workdir, record=record, best=best, log=log)


def test_the_log_has_rates_and_seconds_and_tensorboard_has_the_log_and_perplexities(watched):
    rates = [0.1, 0.15, *[0.2] * 4]
    assert [entry["learning_rate"] for entry in watched.log] == pytest.approx(rates)
    assert all(0 < entry["seconds"] < 60 for entry in watched.log)
    board = read_board(watched.workdir / "tensorboard")
    groups = {"loss": "loss/", "forward": "loss/", "backward": "loss/", "norm": "gradient/"}
    for name, group in (groups | {"learning_rate": ""}).items():
        expected = {entry["step"]: pytest.approx(entry[name], rel=1e-6) for entry in watched.log}
        assert board[f"{group}{name}"] == expected
    for name in ("forward", "backward", "average"):
        expected = {one["step"]: one[name] for one in watched.record["perplexity"]}
        assert board[f"held_out_perplexity/{name}"] == expected


def test_without_tensorboard_the_error_names_the_extra(tmp_path, settings, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(ImportError, match=r"pip install '.\[tensorboard\]'"):
        pretrain(PretrainConfig(**settings, workdir=tmp_path / "run", tensorboard=True))
    assert not (tmp_path / "run").exists()


def test_the_weights_of_the_lowest_perplexity_are_kept(watched):
    kept, last = (
        read_hdf5(folder / "softmax.hdf5")["W"]
        for folder in (watched.workdir / "best", watched.workdir)
    )
    np.testing.assert_array_equal(kept, watched.best["W"])
    assert (kept != last).any()
