"""Work directories in use, saves, the number of steps, warnings, and errors that end a run."""

import json
import math
import shutil

import numpy as np
import pytest

from elmo_tf import Vocabulary
from elmo_tf.evaluation.perplexity import Perplexity
from elmo_tf.files import locked_directory
from elmo_tf.models.language_model import LanguageModel
from elmo_tf.trainers import PretrainConfig, pretrain
from elmo_tf.trainers.checkpointing import last_save
from nested_arrays import assert_close
from reference.checkpoint import read_hdf5
from runs import read_log, run_of, weights

pytestmark = pytest.mark.usefixtures("simple_losses")


@pytest.mark.parametrize(
    ("name", "content", "how", "message"),
    [
        ("notes.txt", "", {}, r"used is not empty.* it holds notes\.txt\. Choose another"),
        ("training.json", "", {}, "already holds a training run. Add --resume"),
        ("vocab.txt", "<S>\n</S>\n<UNK>\nmine\n", {"resume": True}, "holds no run to resume"),
        ("best", "", {"overwrite": True}, r"of a run: it holds best but no training\.json"),
    ],
)
def test_a_work_directory_in_use_is_refused(tmp_path, settings, name, content, how, message):
    workdir = tmp_path / "used"
    workdir.mkdir()
    (workdir / name).write_text(content)
    with pytest.raises(FileExistsError, match=message):
        pretrain(PretrainConfig(**settings, workdir=workdir, **how))
    assert {path.name: path.read_text() for path in workdir.iterdir()} == {name: content}


def test_a_work_directory_of_another_run_or_with_a_wildcard_is_refused(tmp_path, settings):
    with (
        locked_directory(tmp_path / "run", ""),
        pytest.raises(FileExistsError, match="Another process trains in"),
    ):
        pretrain(PretrainConfig(**settings, workdir=tmp_path / "run"))
    assert list((tmp_path / "run").iterdir()) == []
    with pytest.raises(ValueError, match=r"cannot use .*run\[1\]: it treats \[ as a wildcard"):
        pretrain(PretrainConfig(**settings, workdir=tmp_path / "run[1]"))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"corpus": "nowhere.txt"}, FileNotFoundError, "There is no text file nowhere.txt"),
        ({"vocab": "nowhere.txt"}, FileNotFoundError, "nowhere.txt"),
        ({"start_from": "nowhere"}, FileNotFoundError, "nowhere"),
        ({"batch_size": 400}, ValueError, "too few for one step of batch_size 400 by unroll 25"),
        ({"options": {"lstm": {"dims": 3}}}, ValueError, "`lstm.dim`: Input should be"),
    ],
)
def test_invalid_input_raises_an_error_before_files_are_changed(
    tmp_path, settings, change, error, message
):
    before = {"training.json", "weights.hdf5"}
    for name in before:
        (tmp_path / name).write_text("of a run before")
    with pytest.raises(error, match=message):
        pretrain(PretrainConfig(**{**settings, **change}, workdir=tmp_path, overwrite=True))
    assert {path.name for path in tmp_path.iterdir()} == before


def test_overwrite_removes_the_previous_run_and_keeps_other_files(settings, run, interrupted):
    (interrupted / "notes.txt").write_text("mine")
    pretrain(PretrainConfig(**{**settings, "steps": 2}, workdir=interrupted, overwrite=True))
    assert read_log(interrupted) == run.log[:2]
    assert [save.name for save in (interrupted / "state").iterdir()] == ["step-00000002"]
    assert (interrupted / "notes.txt").read_text() == "mine"


def test_epochs_set_the_number_of_steps(tmp_path, settings, run):
    """The vocabulary may already be in the work directory."""
    vocabulary = shutil.copy(settings["vocab"], tmp_path)
    changes = {"vocab": vocabulary, "steps": None, "epochs": 0.1}
    pretrain(PretrainConfig(**{**settings, **changes}, workdir=tmp_path))
    corpus = run.record["corpus"]
    steps = round(0.1 * (corpus["tokens"] + corpus["sentences"]) / (3 * 25))
    assert read_log(tmp_path) == run.log[:steps]


def test_the_moving_average_of_the_weights_is_saved(tmp_path, settings, run):
    """Its decay is lower in the first steps. The last two saves are kept."""
    changes = {"steps": 3, "save_every": 1}
    averages, last = [], []
    for ema, states in ((0.2, averages), (0.0, last)):
        copies = {step: tmp_path / f"{ema}_{step}" for step in (2, 3)}
        short = run_of({**settings, **changes, "ema": ema}, tmp_path / str(ema), copies)
        states += [weights(folder) for folder in (*copies.values(), short.workdir)]
        assert short.log == run.log[:3]
        names = {path.name for path in (short.workdir / "state").iterdir()}
        assert names == {"step-00000002", "step-00000003"}
    for step, decay in ((1, 2 / 11), (2, 0.2)):
        for name, average in averages[step].items():
            expected = decay * averages[step - 1][name] + (1 - decay) * last[step][name]
            np.testing.assert_allclose(average, expected, rtol=1e-5, atol=1e-7, err_msg=name)


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


def test_a_loss_of_nan_or_infinity_ends_the_run_and_keeps_the_last_save(tmp_path, settings):
    settings = {**settings, "learning_rate": 1e30, "save_every": 1}
    with pytest.raises(FloatingPointError, match=r"The .* is (nan|inf) at step \d+"):
        pretrain(PretrainConfig(**settings, workdir=tmp_path))
    *before, last = read_log(tmp_path)
    assert not math.isfinite(last["loss"] + last["norm"])
    assert all(math.isfinite(entry["loss"] + entry["norm"]) for entry in before)
    assert last_save(tmp_path).name == f"step-{len(before):08d}"


def test_a_full_disk_while_saving_is_an_error_and_keeps_the_last_save(
    settings, interrupted, files_limited_to
):
    """The limit of the file size is half of the largest file of the save."""
    before, save = weights(interrupted), last_save(interrupted)
    largest = max(path.stat().st_size for path in save.iterdir())
    with (
        files_limited_to(largest // 2),
        pytest.raises(OSError, match="Cannot save the state of the run"),
    ):
        pretrain(PretrainConfig(**{**settings, "save_every": 1}, workdir=interrupted, resume=True))
    assert last_save(interrupted) == save
    assert not list(interrupted.glob(".*.part*"))
    assert_close(weights(interrupted), before)


# 200 tokens that occur 1 to 41 times, which has nothing to do with their order of code points.
UNSORTED = " ".join(f"{number} " * (1 + number * 37 % 41) for number in range(200))


@pytest.mark.parametrize(
    ("line", "vocabulary", "warned"),
    [
        (" ".join(map(str, range(1_000))), None, ["vocabulary holds every token of the corpus"]),
        (" ".join(map(str, range(999))), None, []),  # may be a closed alphabet
        ("a " * 36 + "b " * 3, "a c", ["7.5% of the targets of the training text are not"]),
        ("a " * 37 + "b " * 2, "a c", []),
        (UNSORTED, None, []),
        (UNSORTED, " ".join(map(str, range(200))), ["not sorted by falling frequency"]),
    ],
)
def test_an_unsuitable_vocabulary_gives_a_warning(
    tmp_path, settings, monkeypatch, caplog, line, vocabulary, warned
):
    (tmp_path / "text.txt").write_text(line)
    Vocabulary.build([vocabulary or line]).save(tmp_path / "vocab.txt")
    changes = {"corpus": tmp_path / "text.txt", "vocab": tmp_path / "vocab.txt", "unroll": 5}
    monkeypatch.setattr(LanguageModel, "create", lambda *args: pytest.fail("before training"))
    with pytest.raises(pytest.fail.Exception, match="before training"):
        pretrain(PretrainConfig(**{**settings, **changes}, workdir=tmp_path / "run"))
    assert len(caplog.messages) == len(warned)
    for message, part in zip(caplog.messages, warned, strict=True):
        assert part in message
