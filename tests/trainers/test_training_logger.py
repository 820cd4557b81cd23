import json

import numpy as np
import pytest

from elmo_tf.evaluation.perplexity import Perplexity
from elmo_tf.trainers import PretrainConfig, pretrain
from reference.checkpoint import read_hdf5


@pytest.mark.usefixtures("simple_losses")
def test_a_run_logs_rates_and_keeps_the_weights_of_the_lowest_perplexity(
    tmp_path, settings, text, monkeypatch
):
    changes = {"steps": 6, "eval_every": 3}
    changes |= {"schedule": "constant", "warmup_steps": 2, "valid": text / "valid.txt"}
    perplexities, best = [7.0, 5.0, 9.0], {}

    def measure(self, **kwargs):
        perplexity = perplexities.pop()
        if perplexity == 5:
            best["W"] = self._model.softmax.kernel.numpy()
        result = {"average": perplexity, "forward": perplexity + 1, "backward": perplexity - 1}
        return {**result, "tokens": 80, "unknown": 0.0}

    monkeypatch.setattr(Perplexity, "__call__", measure)
    pretrain(PretrainConfig(**{**settings, **changes}, workdir=tmp_path))

    log = list(map(json.loads, (tmp_path / "log.jsonl").read_text().splitlines()))
    rates = [0.1, 0.15, *[0.2] * 4]
    assert [entry["learning_rate"] for entry in log] == pytest.approx(rates)
    assert all(0 < entry["seconds"] < 60 for entry in log)
    kept, last = (read_hdf5(tmp_path / name)["W"] for name in ("best/softmax.hdf5", "softmax.hdf5"))
    np.testing.assert_array_equal(kept, best["W"])
    assert (kept != last).any()
