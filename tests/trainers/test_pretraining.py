"""A run with the losses of the language model: its results, and exact resuming.

The other tests of runs have simple losses.
"""

import json
from types import SimpleNamespace

import pytest

from elmo_tf import BiLMConfig, Vocabulary
from elmo_tf.checkpoints.load import load_language_model
from elmo_tf.evaluation import perplexity
from elmo_tf.trainers import PretrainConfig, pretrain
from elmo_tf.trainers.inputs import initial_vocabulary
from runs import assert_same_run, run_of


@pytest.fixture(scope="module")
def run(tmp_path_factory, real_settings):
    folder = tmp_path_factory.mktemp("real_runs")
    return run_of(real_settings, folder / "whole", {41: folder / "killed"})


def test_a_run_leaves_a_checkpoint_directory_with_a_log_of_each_step(run, settings):
    names = {path.name for path in run.workdir.iterdir()}
    assert names == {
        *("options.json", "weights.hdf5", "vocab.txt", "softmax.hdf5"),
        *("training.json", "log.jsonl", "state", "best"),
    }
    config = BiLMConfig.from_options(run.workdir / "options.json")
    assert config == BiLMConfig.from_options(settings["options"])
    assert Vocabulary.load(run.workdir / "vocab.txt") == Vocabulary.load(settings["vocab"])
    record = json.loads((run.workdir / "training.json").read_text())
    assert record == json.loads(json.dumps(run.record))
    assert [entry["step"] for entry in run.log] == list(range(1, 61))
    for entry in run.log:
        assert entry["loss"] == pytest.approx((entry["forward"] + entry["backward"]) / 2, rel=1e-6)
        assert entry["norm"] > 0


def test_held_out_perplexity_falls_and_its_last_value_is_that_of_the_checkpoint(run, text):
    evaluations = run.record["perplexity"]
    assert [one["step"] for one in evaluations] == list(range(0, 61, 6))
    size = len(Vocabulary.load(run.workdir / "vocab.txt"))
    assert evaluations[0]["average"] == pytest.approx(size, rel=0.25)
    assert evaluations[-1]["average"] < 0.9 * evaluations[0]["average"]
    result = perplexity(load_language_model(run.workdir), [text / "valid.txt"])
    assert {"step": 60, **result} == pytest.approx(evaluations[-1], rel=1e-5)


def test_a_resumed_run_equals_an_uninterrupted_run(run):
    record = pretrain(PretrainConfig(workdir=run.copies[41], resume=True))
    assert_same_run(run.copies[41], run)
    assert record["perplexity"] == run.record["perplexity"]


@pytest.mark.usefixtures("simple_losses")
def test_without_a_vocabulary_it_is_built_from_the_text(tmp_path, settings, text):
    settings = {**settings, "vocab": None, "steps": 1, "workdir": tmp_path / "run"}
    record = pretrain(PretrainConfig(**settings))

    vocabulary = Vocabulary.load(tmp_path / "run/vocab.txt")
    assert vocabulary == Vocabulary.build(sorted(text.glob("train_*.txt")))
    assert record["corpus"]["unknown"] == 0
    assert pretrain(PretrainConfig(**{**settings, "steps": 2, "resume": True}))["step"] == 2


@pytest.mark.parametrize("num_types", [999, 1000])
def test_unless_there_are_few_distinct_tokens_those_that_occur_once_are_unknown(
    tmp_path, num_types
):
    file = tmp_path / "text.txt"
    file.write_text("twice twice " + " ".join(map(str, range(num_types - 1))))
    config = PretrainConfig(corpus=file, workdir=tmp_path / "run")

    vocabulary, _ = initial_vocabulary(config, SimpleNamespace(before=None), [file])
    assert len(vocabulary) == (3 + num_types if num_types < 1000 else 4)
