import json
from types import SimpleNamespace

import numpy as np
import pytest

from elmo_tf.evaluation.perplexity import Perplexity
from elmo_tf.trainers import PretrainConfig, pretrain
from reference.checkpoint import read_hdf5


@pytest.fixture(scope="module")
def watched(tmp_path_factory, settings, text, replace_losses):
    """A run whose held-out perplexities are 9, 5 and 7, with the softmax at 5."""
    workdir = tmp_path_factory.mktemp("watched") / "run"
    changes = {"steps": 6, "eval_every": 3}
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


def test_the_log_has_rates_and_seconds(watched):
    rates = [0.1, 0.15, *[0.2] * 4]
    assert [entry["learning_rate"] for entry in watched.log] == pytest.approx(rates)
    assert all(0 < entry["seconds"] < 60 for entry in watched.log)


def test_the_weights_of_the_lowest_perplexity_are_kept(watched):
    kept, last = (
        read_hdf5(folder / "softmax.hdf5")["W"]
        for folder in (watched.workdir / "best", watched.workdir)
    )
    np.testing.assert_array_equal(kept, watched.best["W"])
    assert (kept != last).any()
