import json
import shutil
import statistics
from pathlib import Path

import pytest

from elmo_tf.tasks.config import TaskConfig
from elmo_tf.trainers.tasks import sweep as sweeping
from elmo_tf.trainers.tasks.sweep import sweep_task
from task_files import config_of

COLUMNS = "Anna B-PER\nBerg I-PER\nlives O\n\nBerg B-PER\nsings O\n"
pytestmark = pytest.mark.usefixtures("eager_module")

SMALL = {"units": 4, "word_dim": 5, "epochs": 1}


@pytest.fixture(scope="module", autouse=True)
def layers_folder(tmp_path_factory):
    """The folder of the stored layers of this module."""
    home = tmp_path_factory.mktemp("keras")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KERAS_HOME", str(home))
        yield home / "elmo_tf" / "layers"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "ner.conll").write_text(COLUMNS)
    return folder


@pytest.fixture(scope="module")
def sweep(folder, checkpoint_directory):
    """A function that sweeps over shares with one seed. Only the first call trains."""

    def run(*shares, workdir=folder / "runs"):
        file = folder / "ner.conll"
        settings = {"elmo": checkpoint_directory, **SMALL}
        return sweep_task(TaskConfig("ner", file, file, workdir, **settings), shares, 1)

    return run


@pytest.fixture(scope="module")
def found(sweep, eager_module):
    return sweep(0.5)


def test_half_of_the_data_is_trained_on_with_and_without_elmo(found, folder):
    assert [(run["share"], run["elmo"]) for run in found["runs"]] == [(0.5, False), (0.5, True)]
    without, with_elmo = (
        json.loads((folder / "runs" / f"share_0.5_seed_0_{arm}_elmo" / "task.json").read_text())
        for arm in ("without", "with")
    )
    assert with_elmo["trained_weights"] > without["trained_weights"]
    assert with_elmo["examples"] == {"train": 1, "dev": 2}
    assert "B-PER" in with_elmo["labels"]  # from all examples, not only the share


def test_a_repeated_sweep_trains_only_missing_runs_and_refuses_new_data(
    found, sweep, folder, layers_folder, tmp_path
):
    shutil.copytree(folder / "runs", tmp_path / "runs")

    again = sweep(0.5, 1.0, workdir=tmp_path / "runs")

    assert again["runs"][:2] == found["runs"]  # with their seconds
    assert [run["share"] for run in again["runs"]] == [0.5, 0.5, 1.0, 1.0]
    # Layers are computed once, whatever share of them is used.
    assert len(list(layers_folder.glob("*.float16"))) == 1
    file = folder / "ner.conll"
    try:
        file.write_text(COLUMNS.replace("sings", "sleeps"))
        with pytest.raises(ValueError, match="`data` changed"):
            sweep(0.5)
    finally:
        file.write_text(COLUMNS)


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
    names = [Path(one.workdir).name.removeprefix("share_0.5_seed_3_") for one in configs[:2]]
    assert names == ["without_elmo", "with_elmo"]
    (row,) = found["summary"]
    means = row["share"], row["without"]["mean"], row["with"]["mean"]
    assert means == pytest.approx((0.5, 0.55, 0.8))
    assert row["with"]["deviation"] == pytest.approx(statistics.stdev([0.7, 0.9]))
    assert row["error_reduction"] == pytest.approx(0.25 / 0.45)
    with pytest.raises(ValueError, match="it needs `elmo` and a `placement`"):
        sweep_task(config_of("ner"))


def test_sweep_prints_a_table_and_its_result_can_be_plotted(
    command, found, folder, checkpoint_directory
):
    options = ("--units", 4, "--word-dim", 5, "--epochs", 1, "--seeds", 1, "--shares", 0.5)

    status, out, err = command(
        *("task", "sweep", "--task", "ner", "--train", folder / "ner.conll"),
        *("--dev", folder / "ner.conll", "--workdir", folder / "runs"),
        *("--elmo", checkpoint_directory, *options, "--format", "markdown"),
    )

    assert status == 0, err
    assert "f1 without ELMo" in out
    (folder / "sweep.json").write_text(json.dumps(found))
    files = folder / "sweep.json", "--output", folder / "sweep.svg"
    assert command("plot", "sample-efficiency", *files)[0] == 0
    text = (folder / "sweep.svg").read_text()
    for part in ("share of the training data (%)", ">with ELMo<", ">without ELMo<", "f1 (%)"):
        assert part in text
