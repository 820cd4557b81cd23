import collections
import json
import sys

import pytest
import tensorflow as tf

from elmo_tf.trainers import PretrainConfig, pretrain


def read_board(folder):
    """For each tag, its steps and values; a histogram's value is its number of buckets."""
    found = collections.defaultdict(dict)
    for path in folder.glob("events.*"):
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            for value in event.summary.value:
                tensor = tf.make_ndarray(value.tensor)
                number = float(tensor) if tensor.ndim == 0 else len(tensor)
                found[value.tag][event.step] = number
    return found


@pytest.fixture(scope="module")
def watched(tmp_path_factory, settings):
    workdir = tmp_path_factory.mktemp("watched") / "run"
    changes = {"steps": 6, "eval_every": 3, "tensorboard": True, "histograms_every": 4}
    changes |= {"schedule": "inverse_sqrt", "warmup_steps": 2}
    record = pretrain(PretrainConfig(**{**settings, **changes}, workdir=workdir))
    return workdir, record, read_board(workdir / "tensorboard")


@pytest.fixture(scope="module")
def log(watched):
    return [json.loads(line) for line in (watched[0] / "log.jsonl").read_text().splitlines()]


def test_the_log_tells_the_rate_and_the_time_of_each_step(log):
    rates = [0.1, 0.2, *(0.2 * (2 / step) ** 0.5 for step in range(3, 7))]
    assert [entry["learning_rate"] for entry in log] == pytest.approx(rates)
    assert all(0 < entry["seconds"] < 60 for entry in log)


def test_tensorboard_shows_what_the_log_has(watched, log):
    _, _, board = watched
    for tag, name in (
        ("loss/loss", "loss"),
        ("loss/forward", "forward"),
        ("loss/backward", "backward"),
        ("gradient/norm", "norm"),
        ("learning_rate", "learning_rate"),
    ):
        expected = {entry["step"]: pytest.approx(entry[name], rel=1e-6) for entry in log}
        assert board[tag] == expected


def test_tensorboard_shows_held_out_perplexity(watched):
    _, record, board = watched
    expected = {one["step"]: pytest.approx(one["average"]) for one in record["perplexity"]}
    assert board["held_out_perplexity/average"] == expected
    names = {tag.partition("/")[2] for tag in board if tag.startswith("held_out_perplexity/")}
    assert names == {"forward", "backward", "average"}


def test_histograms_and_norms_of_the_weights_come_on_demand(watched):
    _, _, board = watched
    kernels = [tag for tag in board if tag.endswith("recurrent_kernel")]
    assert kernels
    for tag in kernels:
        assert set(board[tag]) == {4}


def test_without_tensorboard_the_error_names_the_extra(tmp_path, settings, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    config = PretrainConfig(**settings, workdir=tmp_path / "run", tensorboard=True)
    with pytest.raises(ImportError, match=r"elmo_tf\[tensorboard\]"):
        pretrain(config)
    assert not (tmp_path / "run").exists()


def test_the_weights_of_the_lowest_perplexity_are_kept(watched, text):
    from elmo_tf.checkpoints.load import load_language_model
    from elmo_tf.evaluation import perplexity

    workdir, record, _ = watched
    best = min(one["average"] for one in record["perplexity"])
    result = perplexity(load_language_model(workdir / "best"), [text / "valid.txt"])
    assert result["average"] == pytest.approx(best, rel=1e-5)
