"""Work directories, saves, the number of steps, and errors that end a run."""

import contextlib
import math
import resource
import shutil
import signal

import numpy as np
import pytest

from elmo_tf import Vocabulary
from elmo_tf.trainers import PretrainConfig, pretrain
from elmo_tf.trainers.checkpointing import last_save
from runs import assert_same_run, read_log, weights


@contextlib.contextmanager
def files_limited_to(size):
    """A context in which the process cannot write files larger than `size` bytes."""
    _, most = limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write fails instead
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_work_directory_may_already_contain_the_vocabulary(tmp_path, settings, run):
    workdir = tmp_path / "prepared"
    workdir.mkdir()
    shutil.copy(settings["vocab"], workdir / "vocab.txt")
    arguments = {**settings, "vocab": workdir / "vocab.txt", "steps": 2}
    pretrain(PretrainConfig(**arguments, workdir=workdir))
    assert read_log(workdir) == run.log[:2]


def test_overwrite_removes_the_previous_run_and_keeps_other_files(settings, run, interrupted):
    (interrupted / "notes.txt").write_text("mine")
    pretrain(PretrainConfig(**{**settings, "steps": 2}, workdir=interrupted, overwrite=True))
    assert read_log(interrupted) == run.log[:2]
    assert [save.name for save in (interrupted / "state").iterdir()] == ["step-00000002"]
    assert (interrupted / "notes.txt").read_text() == "mine"


def test_overwrite_refuses_a_directory_without_a_run_record(tmp_path, settings):
    (tmp_path / "best").mkdir()
    message = "is not the work directory of a run: it holds best but no training.json"
    with pytest.raises(FileExistsError, match=message):
        pretrain(PretrainConfig(**settings, workdir=tmp_path, overwrite=True))
    assert (tmp_path / "best").exists()


def test_epochs_set_the_number_of_steps(tmp_path, settings, run):
    corpus = run.record["corpus"]
    steps = round(0.1 * (corpus["tokens"] + corpus["sentences"]) / 15)
    settings = {**settings, "steps": None, "epochs": 0.1}
    pretrain(PretrainConfig(**settings, workdir=tmp_path / "run"))
    assert read_log(tmp_path / "run") == run.log[:steps]


def test_the_moving_average_of_the_weights_is_saved(tmp_path, settings, run):
    def saved(name, ema, steps):
        changed = {**settings, "ema": ema, "steps": steps}
        pretrain(PretrainConfig(**changed, workdir=tmp_path / name))
        assert read_log(tmp_path / name) == run.log[:steps]
        return weights(tmp_path / name)

    first, second, last = saved("first", 0.9, 1), saved("second", 0.9, 2), saved("last", 0, 2)
    for name, average in second.items():
        expected = (2 * first[name] + 9 * last[name]) / 11
        np.testing.assert_allclose(average, expected, rtol=1e-5, atol=1e-7, err_msg=name)


def test_a_loss_of_nan_or_infinity_ends_the_run_and_keeps_the_last_save(tmp_path, settings):
    workdir = tmp_path / "run"
    settings = {**settings, "learning_rate": 1e30, "save_every": 1}
    with pytest.raises(FloatingPointError, match=r"The .* is (nan|inf) at step \d+"):
        pretrain(PretrainConfig(**settings, workdir=workdir))
    *before, last = read_log(workdir)
    assert not math.isfinite(last["loss"] + last["norm"])
    assert all(math.isfinite(entry["loss"] + entry["norm"]) for entry in before)
    assert last_save(workdir).name == f"step-{len(before):08d}"


def test_a_full_disk_while_saving_is_an_error_and_keeps_the_last_save(settings, run, interrupted):
    """The limit of the file size is half of the largest file of the save."""
    before, save = weights(interrupted), last_save(interrupted)
    largest = max(path.stat().st_size for path in save.iterdir())
    config = PretrainConfig(**settings, workdir=interrupted, resume=True)
    with (
        files_limited_to(largest // 2),
        pytest.raises(OSError, match="Cannot save the state of the run"),
    ):
        pretrain(config)
    assert last_save(interrupted) == save
    assert not list(interrupted.glob(".*.part"))
    for name, array in weights(interrupted).items():
        np.testing.assert_array_equal(array, before[name])
    pretrain(config)  # there is room again
    assert_same_run(interrupted, run)


@pytest.fixture
def warnings_of(tmp_path, settings, caplog):
    """Trains one step on a line of text, and returns the warnings."""

    def train(line, vocabulary):
        (tmp_path / "text.txt").write_text(line)
        Vocabulary.build([vocabulary]).save(tmp_path / "vocab.txt")
        files = {"corpus": [tmp_path / "text.txt"], "vocab": tmp_path / "vocab.txt"}
        pretrain(PretrainConfig(**{**settings, **files, "steps": 1}, workdir=tmp_path / "run"))
        return caplog.messages

    return train


@pytest.mark.parametrize(("num_types", "num_warnings"), [(1_000, 1), (999, 0)])
def test_a_vocabulary_of_all_words_gets_a_warning_unless_the_text_has_few_types(
    warnings_of, num_types, num_warnings
):
    text = " ".join(map(str, range(num_types)))

    messages = warnings_of(text, text)

    assert sum("holds every token of the corpus" in line for line in messages) == num_warnings


@pytest.mark.parametrize(("num_known", "shares"), [(0, ["97.5%"]), (36, ["7.5%"]), (37, [])])
def test_many_unknown_targets_in_the_training_text_give_a_warning(warnings_of, num_known, shares):
    text = "a " * num_known + "b " * (39 - num_known)  # and a boundary

    messages = warnings_of(text, "a c")

    found = [line.split()[0] for line in messages if "training text are not in the voc" in line]
    assert found == shares
