import json
import os
import shutil
import statistics
from pathlib import Path

import pytest

from elmo_tf.tasks.config import TaskConfig
from elmo_tf.trainers.tasks import sweep as sweeping
from elmo_tf.trainers.tasks.sweep import sweep_task
from task_files import config_of

pytestmark = pytest.mark.usefixtures("eager_module")

SMALL = {"units": 4, "word_dim": 5, "epochs": 1}


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    return tmp_path_factory.mktemp("sweep")


@pytest.fixture(scope="module")
def sweep(files, checkpoint_directory):
    """A function that sweeps over shares with one seed."""

    def run(workdir, *shares):
        settings = {"elmo": checkpoint_directory, **SMALL}
        config = TaskConfig("ner", files["ner"], files["ner"], workdir, **settings)
        return sweep_task(config, shares, 1)

    return run


@pytest.fixture(scope="module")
def found(sweep, workdir, eager_module):
    return sweep(workdir, 0.5)


def test_half_of_the_data_is_trained_on_with_and_without_elmo(found, workdir):
    assert [(run["share"], run["elmo"]) for run in found["runs"]] == [(0.5, False), (0.5, True)]
    without, with_elmo = (
        json.loads((workdir / f"share_0.5_seed_0_{arm}_elmo" / "task.json").read_text())
        for arm in ("without", "with")
    )
    assert [one["settings"]["elmo"] is None for one in (without, with_elmo)] == [True, False]
    assert with_elmo["examples"] == {"train": 2, "dev": 3}


def test_a_repeated_sweep_trains_only_missing_runs(found, sweep, workdir, tmp_path):
    shutil.copytree(workdir, tmp_path / "runs")
    layers = Path(os.environ["KERAS_HOME"], "elmo_tf", "layers")
    before = set(layers.iterdir())

    again = sweep(tmp_path / "runs", 0.5, 1.0)

    assert again["runs"][:2] == found["runs"]  # with their seconds
    assert [run["share"] for run in again["runs"]] == [0.5, 0.5, 1.0, 1.0]
    # Layers are computed once, whatever share of them is used.
    assert set(layers.iterdir()) == before


def test_each_seed_is_trained_without_and_with_elmo(monkeypatch):
    configs = []
    scores = [0.5, 0.7, 0.6, 0.9]  # of each seed: without, with ELMo

    def train(config, task, **_):
        configs.append(config)
        best = {"epoch": 1, "score": scores[len(configs) - 1]}
        return {"epochs": [{"seconds": 2.0}], "best": best}

    monkeypatch.setattr(sweeping, "train_model", train)
    found = sweep_task(config_of("ner", elmo="small-en", seed=3), [0.5], 2)

    assert [(run["seed"], run["elmo"]) for run in found["runs"]] == [
        (seed, has_elmo) for seed in (3, 4) for has_elmo in (False, True)
    ]
    assert [one.elmo for one in configs[:2]] == [None, "small-en"]
    (row,) = found["summary"]
    means = row["share"], row["without"]["mean"], row["with"]["mean"]
    assert means == pytest.approx((0.5, 0.55, 0.8))
    assert row["with"]["deviation"] == pytest.approx(statistics.stdev([0.7, 0.9]))
    assert row["error_reduction"] == pytest.approx(0.25 / 0.45)
    with pytest.raises(ValueError, match="it needs `elmo` and a `placement`"):
        sweep_task(config_of("ner"))


def test_sweep_prints_a_table(stdout_of, found, workdir, files, checkpoint_directory):
    settings = [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items()]
    out = stdout_of(
        *("task", "sweep", "--task", "ner", "--train", files["ner"], "--dev", files["ner"]),
        *("--workdir", workdir, "--elmo", checkpoint_directory, *settings),
        *("--seeds", 1, "--shares", 0.5, "--format", "markdown"),
    )

    assert "f1 without ELMo" in out
