import json

import numpy as np
import pytest

from elmo_tf.evaluation.plots.training_log import (
    LOG_FILE,
    RECORD_FILE,
    TrainingRun,
    read_runs,
    smoothed,
)

LINES = [
    {"step": 1, "loss": 4.5, "norm": 8.0, "forward": 5.0, "backward": 4.0},
    {"step": 2, "loss": 3.5, "norm": 9.0, "forward": 4.0, "backward": 3.0},
    {"step": 3, "loss": 3.0, "norm": 7.0, "forward": 3.5, "backward": 2.5},
]
RECORD = {
    "settings": {"batch_size": 3, "unroll": 5},
    "perplexity": [
        {"step": 0, "forward": 90.0, "backward": 80.0, "average": 85.0, "tokens": 7},
        {"step": 2, "forward": 50.0, "backward": 40.0, "average": 45.0, "tokens": 7},
    ],
}


@pytest.fixture
def write_run(tmp_path):
    """Writes the log and the record of a work directory."""

    def write(lines=LINES, record=RECORD, name="run", end=""):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / "log.jsonl").write_text(text + end)
        if record is not None:
            (folder / "training.json").write_text(json.dumps(record))
        return folder

    return write


def test_file_names_are_those_of_the_trainer():
    from elmo_tf.trainers import training_logger, workdir

    assert (LOG_FILE, RECORD_FILE) == (training_logger.LOG_FILE, workdir.RECORD_FILE)


def test_a_log_and_its_record_are_read(write_run):
    (run,) = read_runs([write_run()])
    assert run.name == "run"
    assert run.steps.tolist() == [1, 2, 3]
    assert run.values["loss"].tolist() == [4.5, 3.5, 3.0]
    assert run.values["forward"].tolist() == [5.0, 4.0, 3.5]
    assert run.values["backward"].tolist() == [4.0, 3.0, 2.5]
    assert "learning_rate" not in run.values
    assert run.held_out_steps.tolist() == [0, 2]
    assert {name: list(column) for name, column in run.held_out.items()} == {
        "forward": [90.0, 50.0],
        "backward": [80.0, 40.0],
    }
    assert run.tokens_per_step == 15


def test_a_log_file_without_a_record_is_read(write_run):
    log = write_run(record=None) / "log.jsonl"
    (run,) = read_runs([log])
    assert run.name == "run"
    assert (run.held_out, run.tokens_per_step) == ({}, None)
    (run,) = read_runs([log.rename(log.with_name("first try.jsonl"))])
    assert run.name == "first try"


def test_a_run_given_by_a_relative_path_has_its_folder_name(write_run, monkeypatch):
    folder = write_run()
    (folder / "best").mkdir()
    monkeypatch.chdir(folder / "best")
    assert [run.name for run in read_runs(["..", "../log.jsonl"])] == ["..", "../log.jsonl"]
    (run,) = read_runs([".."])
    assert run.name == "run"


def test_runs_with_equal_names_are_named_by_their_paths(write_run):
    paths = [write_run(name="a/run"), write_run(name="b/run"), write_run(name="other")]
    assert [run.name for run in read_runs(paths)] == [str(paths[0]), str(paths[1]), "other"]


def test_steps_repeated_after_a_resume_replace_earlier_ones(write_run):
    lines = [*LINES, {"step": 2, "loss": 7.0}, {"step": 3, "loss": 8.0}, {"step": 4, "loss": 9.0}]
    (run,) = read_runs([write_run(lines)])
    assert run.steps.tolist() == [1, 2, 3, 4]
    assert run.values["loss"].tolist() == [4.5, 7.0, 8.0, 9.0]
    np.testing.assert_array_equal(run.values["forward"], [5.0, np.nan, np.nan, np.nan])


def test_evaluations_after_the_last_logged_step_are_ignored(write_run):
    (run,) = read_runs([write_run(LINES[:1])])
    assert run.held_out_steps.tolist() == [0]


@pytest.mark.parametrize(("end", "last"), [('{"step": 4, "lo', 3), ('{"step": 4, "loss": NaN}', 4)])
def test_an_incomplete_last_line_is_ignored(write_run, end, last):
    (run,) = read_runs([write_run(end=end)])
    assert run.steps[-1] == last


@pytest.mark.parametrize(
    ("end", "message"),
    [
        ("nonsense\n", r"log\.jsonl, line 4: expected a JSON object with an integer"),
        ('{"step": 1.5, "loss": 1.0}\n', r"log\.jsonl, line 4: expected a JSON object"),
        ('{"step": 4}\n', r"line 4: .* and a \"loss\"\. Received: '{\"step\": 4}'"),
        ('{"step": 4, "loss": "low"}\n', r"log\.jsonl, line 4: loss is not a number: 'low'"),
        ('{"step": 4, "loss": 1.0, "forward": true}\n', r"forward is not a number: True"),
    ],
)
def test_an_invalid_line_is_reported_with_file_and_line(write_run, end, message):
    with pytest.raises(ValueError, match=message):
        read_runs([write_run(end=end)])


def test_a_missing_log_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"There is no training log .*log\.jsonl\. Name"):
        read_runs([tmp_path])
    with pytest.raises(FileNotFoundError, match=r"There is no training log .*nothing\. Name"):
        read_runs([tmp_path / "nothing"])


def test_a_log_without_a_step_is_an_error(write_run):
    with pytest.raises(ValueError, match=r"log\.jsonl has no step"):
        read_runs([write_run([], end='{"step"')])


@pytest.mark.parametrize("record", ["{", '{"perplexity": [{"step": 1}]}'])
def test_an_invalid_record_is_an_error(write_run, record):
    folder = write_run()
    (folder / "training.json").write_text(record)
    with pytest.raises(ValueError, match=r"training\.json is not a record of elmo-tf train"):
        read_runs([folder])


STEPS = np.array([1, 2, 5])
TIMED = TrainingRun("run", STEPS, {"seconds": np.array([36.0, 72.0, 36.0])}, tokens_per_step=18)


def test_x_values_are_steps_tokens_or_hours():
    np.testing.assert_array_equal(TIMED.places(STEPS, "step"), [1, 2, 5])
    np.testing.assert_array_equal(TIMED.places(STEPS, "tokens"), [18, 36, 90])
    np.testing.assert_allclose(TIMED.places(STEPS, "time"), [0.01, 0.03, 0.04])
    np.testing.assert_allclose(TIMED.places(np.array([0, 2]), "time"), [0, 0.03])


def test_speed_is_tokens_per_second():
    np.testing.assert_allclose(TIMED.tokens_per_second(), [0.5, 0.25, 0.5])
    np.testing.assert_allclose(TIMED.tokens_per_second(3), [18 / 54, 18 / 48, 18 / 54])
    assert TrainingRun("run", STEPS, {}, tokens_per_step=18).tokens_per_second() is None


def test_an_axis_without_data_is_an_error():
    run = TrainingRun("my run", STEPS, {"seconds": np.array([1.0, np.nan, 1.0])})
    with pytest.raises(ValueError, match="`by` must be one of"):
        run.places(STEPS, "epoch")
    with pytest.raises(ValueError, match=r"my run: the number of tokens per step is unknown"):
        run.places(STEPS, "tokens")
    with pytest.raises(ValueError, match='my run: lines of the log lack the "seconds"'):
        run.places(STEPS, "time")
    with pytest.raises(ValueError, match='the "seconds"'):
        TrainingRun("run", STEPS, {}).places(STEPS, "time")


def test_smoothing_averages_the_surrounding_values():
    values = np.array([3.0, 6.0, 0.0, np.nan, 8.0])
    np.testing.assert_allclose(smoothed(values, 3), [4.5, 3.0, 3.0, 4.0, 8.0])
    np.testing.assert_allclose(smoothed(values, 2), smoothed(values, 3))
    np.testing.assert_array_equal(smoothed(values, 1), values)
    np.testing.assert_allclose(smoothed(values, 99), [4.25] * 5)
