import json
import subprocess
import sys
import time

import pytest

from elmo_tf import BiLMConfig, Vocabulary, load_bilm
from elmo_tf.checkpoints.load import load_language_model
from elmo_tf.evaluation import perplexity
from elmo_tf.trainers import PretrainConfig, pretrain
from elmo_tf.trainers.workdir import claimed_workdir
from runs import read_log


def test_a_run_leaves_a_checkpoint_directory(run, settings):
    names = {path.name for path in run.workdir.iterdir()}
    assert names == {
        *("options.json", "weights.hdf5", "vocab.txt", "softmax.hdf5"),
        *("training.json", "log.jsonl", "state", "best"),
    }
    config = BiLMConfig.from_options(run.workdir / "options.json")
    assert config == BiLMConfig.from_options(settings["options"])
    assert Vocabulary.load(run.workdir / "vocab.txt") == Vocabulary.load(settings["vocab"])
    assert json.loads((run.workdir / "training.json").read_text()) == json.loads(
        json.dumps(run.record)
    )
    layers = load_bilm(run.workdir)(["the cat sees a dog ."])["layers"]
    assert layers.shape == (1, 3, 6, 14)


def test_the_log_has_an_object_for_each_step(run):
    assert [entry["step"] for entry in run.log] == list(range(1, 61))
    for entry in run.log:
        assert entry["loss"] == pytest.approx((entry["forward"] + entry["backward"]) / 2, rel=1e-6)
        assert entry["norm"] > 0


def test_held_out_perplexity_is_measured_eleven_times_and_falls(run):
    evaluations = run.record["perplexity"]
    assert [one["step"] for one in evaluations] == list(range(0, 61, 6))
    size = len(Vocabulary.load(run.workdir / "vocab.txt"))
    assert evaluations[0]["average"] == pytest.approx(size, rel=0.25)
    assert evaluations[-1]["average"] < 0.9 * evaluations[0]["average"]


@pytest.mark.more
def test_the_grammar_of_the_corpus_is_learnt(tmp_path, settings):
    """Random choices of the grammar: one among 4, one among 3 and one among 4, in 7 tokens."""
    settings = {**settings, "steps": 500, "eval_every": 500, "dropout": 0.0}
    record = pretrain(PretrainConfig(**settings, workdir=tmp_path / "run"))
    first, last = (one["average"] for one in record["perplexity"])
    assert last < 3 < first


def test_the_checkpoint_has_the_perplexity_of_the_last_evaluation(run, text):
    result = perplexity(load_language_model(run.workdir), [text / "valid.txt"])
    last = dict(run.record["perplexity"][-1])
    assert last.pop("step") == 60
    assert result == pytest.approx(last, rel=1e-5)


def test_a_work_directory_in_use_is_refused(tmp_path, settings):
    workdir = tmp_path / "used"
    workdir.mkdir()
    (workdir / "notes.txt").write_text("mine")
    with pytest.raises(
        FileExistsError, match=r"used is not empty.* it holds notes\.txt\. Choose another"
    ):
        pretrain(PretrainConfig(**settings, workdir=workdir))
    assert [path.name for path in workdir.iterdir()] == ["notes.txt"]


def test_two_runs_do_not_share_a_work_directory(tmp_path, settings):
    workdir = tmp_path / "run"
    with (
        claimed_workdir(workdir),
        pytest.raises(FileExistsError, match="Another process trains in"),
    ):
        pretrain(PretrainConfig(**settings, workdir=workdir))
    assert list(workdir.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"corpus": "nowhere.txt"}, FileNotFoundError, "There is no text file nowhere.txt"),
        ({"valid": "no*.txt"}, FileNotFoundError, r"No text file matches no\*\.txt"),
        ({"vocab": "nowhere.txt"}, FileNotFoundError, "nowhere.txt"),
        ({"start_from": "nowhere"}, FileNotFoundError, "nowhere"),
        ({"batch_size": 400}, ValueError, "too few for one step of batch_size 400 by unroll 5"),
        ({"options": {"lstm": {"dims": 3}}}, ValueError, "Unknown key `dims`"),
        ({"valid": "/dev/null"}, ValueError, "/dev/null is not a regular file"),
        ({"corpus": "/dev/null"}, ValueError, "/dev/null is not a regular file"),
    ],
)
def test_invalid_input_raises_an_error_before_files_are_changed(
    tmp_path, settings, change, error, message
):
    workdir = tmp_path / "run"
    workdir.mkdir()
    before = {"training.json", "weights.hdf5"}
    for name in before:
        (workdir / name).write_text("of a run before")
    with pytest.raises(error, match=message):
        pretrain(PretrainConfig(**{**settings, **change}, workdir=workdir, overwrite=True))
    assert {path.name for path in workdir.iterdir()} == before


@pytest.mark.slow
def test_tiny_trains_2000_steps_within_a_minute(tmp_path):
    """On two cores; import and saves included."""
    from pydoc_data.topics import topics

    (tmp_path / "text.txt").write_text("\n".join(topics[name] for name in sorted(topics)))
    Vocabulary.build([tmp_path / "text.txt"], min_count=2).save(tmp_path / "vocab.txt")
    arguments = "--corpus text.txt --vocab vocab.txt --workdir run --preset tiny"
    arguments += " --steps 2000 --batch-size 8 --unroll 10 --overwrite"
    start = time.monotonic()
    command = [sys.executable, "-m", "elmo_tf.cli", "train", *arguments.split()]
    subprocess.run(command, check=True, cwd=tmp_path)
    assert time.monotonic() - start < 60
    assert len(read_log(tmp_path / "run")) == 2000
