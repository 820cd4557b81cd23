import json
import statistics

import pytest

from elmo_tf.checkpoints.load import load_bilm
from elmo_tf.trainers.tasks import sweeping, training
from elmo_tf.trainers.tasks.building import cached_layers
from elmo_tf.trainers.tasks.config import TaskConfig
from elmo_tf.trainers.tasks.sweeping import sweep_task

COLUMNS = "Anna B-PER\nBerg I-PER\nlives O\n\nBerg B-PER\nsings O\n"
pytestmark = pytest.mark.usefixtures("eager_module")

SMALL = {"units": 4, "word_dim": 5, "epochs": 1, "cache_gb": 0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "ner.conll").write_text(COLUMNS)
    return folder


@pytest.fixture(scope="module")
def sweep(folder, checkpoint_directory):
    """Sweeps over two seeds; the first call trains."""

    def run(**settings):
        file = folder / "ner.conll"
        settings = {"elmo": checkpoint_directory, **SMALL, **settings}
        return sweep_task(TaskConfig("ner", file, file, folder / "runs", **settings), [1.0], 2)

    return run


@pytest.fixture(scope="module")
def found(sweep, eager_module):
    return sweep()


def test_each_seed_is_trained_with_and_without(found, folder):
    runs = found["runs"]

    assert [(run["seed"], run["elmo"]) for run in runs] == [
        (0, False),
        (0, True),
        (1, False),
        (1, True),
    ]
    names = sorted(path.name for path in (folder / "runs").iterdir())
    assert names == [
        f"share_1_seed_{seed}_{arm}_elmo" for seed in (0, 1) for arm in ("with", "without")
    ]
    with_elmo = json.loads((folder / "runs" / names[0] / "task.json").read_text())
    without = json.loads((folder / "runs" / names[1] / "task.json").read_text())
    assert with_elmo["settings"]["elmo"] is not None
    assert without["settings"]["elmo"] is None
    assert with_elmo["trained_weights"] > without["trained_weights"]


def test_what_is_done_is_not_trained_again(found, sweep, monkeypatch):
    monkeypatch.setattr(training, "new_embeddings", lambda *_: pytest.fail("trained again"))

    assert sweep() == found


def test_called_again_it_does_what_is_left_and_refuses_other_data(
    folder, tmp_path, checkpoint_directory
):
    file = tmp_path / "train.conll"
    file.write_text(COLUMNS)
    settings = {**SMALL, "elmo": checkpoint_directory, "cache_gb": 1, "cache": tmp_path / "cache"}

    def epochs(number, shares):
        config = TaskConfig(
            "ner", file, file, tmp_path / "runs", **{**settings, "epochs": number, "patience": 9}
        )
        return [run["epochs"] for run in sweep_task(config, shares, 1)["runs"]]

    assert epochs(1, [0.5]) == [1] * 2
    assert epochs(2, [0.5, 1.0]) == [2] * 4
    # Layers are computed once, whatever is drawn of them.
    assert len(list((tmp_path / "cache").glob("*.layers"))) == 1
    file.write_text(COLUMNS.replace("sings", "sleeps"))
    with pytest.raises(ValueError, match=r"The examples or word vectors changed\."):
        epochs(2, [0.5])


@pytest.mark.parametrize(("cache_gb", "num_kept"), [(1, 3), (1e-7, 2), (0, 2)])
def test_layers_that_another_share_needs_are_kept_where_there_is_room(
    cache_gb, num_kept, folder, tmp_path, checkpoint_directory
):
    file = folder / "ner.conll"
    config = TaskConfig("ner", file, file, tmp_path, cache=tmp_path / "cache", cache_gb=cache_gb)
    first, second, dev = [(["Anna", "sings"],), (["Berg"],), (["in", "Bonn"],)]

    bilm = load_bilm(checkpoint_directory)
    with cached_layers(config, bilm, [first, dev], more=[first, second]) as (distinct, layers):
        assert len(distinct.sentences) == num_kept
        assert layers.sentence(distinct.index(*dev)).shape[1] == 2


def test_means_and_deviations_and_the_errors_that_are_gone(monkeypatch, folder, tmp_path):
    scores = iter([0.5, 0.7, 0.6, 0.9])  # seed 0 without and with, seed 1 without and with
    record = {"epochs": [{"seconds": 2.0}], "best": {"epoch": 1}}
    monkeypatch.setattr(
        sweeping,
        "train_task",
        lambda *_, **__: {**record, "best": {"epoch": 1, "score": next(scores)}},
    )
    config = TaskConfig(
        "ner", folder / "ner.conll", folder / "ner.conll", tmp_path, elmo="small-en"
    )

    (row,) = sweep_task(config, [0.5], 2)["summary"]

    assert row["share"] == 0.5
    assert row["without"]["mean"] == pytest.approx(0.55)
    assert row["with"]["mean"] == pytest.approx(0.8)
    assert row["with"]["deviation"] == pytest.approx(statistics.stdev([0.7, 0.9]))
    assert row["error_reduction"] == pytest.approx(0.25 / 0.45)


def test_what_cannot_be_compared_is_refused(folder, tmp_path):
    file = folder / "ner.conll"

    with pytest.raises(ValueError, match="it needs `elmo` and a `placement`"):
        sweep_task(TaskConfig("ner", file, file, tmp_path))
    with pytest.raises(ValueError, match="`shares` is empty"):
        sweep_task(TaskConfig("ner", file, file, tmp_path, elmo="small-en"), [])
    with pytest.raises(ValueError, match=r"`shares` has duplicates: 0\.5, 1, 0\.5"):
        sweep_task(TaskConfig("ner", file, file, tmp_path, elmo="small-en"), [0.5, 1, 0.5])
    with pytest.raises(ValueError, match="`num_seeds` must be an integer of at least 1"):
        sweep_task(TaskConfig("ner", file, file, tmp_path, elmo="small-en"), [1], 0)


def test_the_command_tells_a_table_and_draws_it(command, found, folder, checkpoint_directory):
    sweep = folder / "sweep.json"
    options = ("--units", 4, "--word-dim", 5, "--epochs", 1, "--cache-gb", 0, "--seeds", 2)

    status, out, err = command(
        *("task", "sweep", "--task", "ner", "--train", folder / "ner.conll"),
        *("--dev", folder / "ner.conll", "--workdir", folder / "runs"),
        *("--elmo", checkpoint_directory, *options, "--format", "markdown", "--json", sweep),
    )

    assert status == 0, err
    assert "f1 without ELMo" in out
    assert json.loads(sweep.read_text())["runs"] == found["runs"]
    status, _, err = command(
        "plot", "sample-efficiency", sweep, "--output", folder / "efficiency.svg"
    )
    assert status == 0, err
    text = (folder / "efficiency.svg").read_text()
    for part in ("share of the training data (%)", ">with ELMo<", ">without ELMo<", "f1 (%)"):
        assert part in text
    row = {"share": 1, "with": {"mean": 0.5, "deviation": None}}
    for other in ([], {"metric": "f1", "summary": [{}]}, {"metric": "f1", "summary": []}, row):
        (folder / "other.json").write_text(json.dumps(other))
        status, _, err = command(
            "plot", "sample-efficiency", folder / "other.json", "--output", folder / "other.svg"
        )
        assert (status, "is not a result of elmo-tf task sweep" in err) == (1, True)
