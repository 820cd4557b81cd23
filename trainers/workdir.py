"""The work directory of a run: checks, the record of the run, the log, and TensorBoard."""

import contextlib
import json
import math
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TextIO

import tensorflow as tf
from absl import logging

from elmo_tf.checkpoints.formats import (
    EMBEDDINGS_FILE,
    OPTIONS_FILE,
    SOFTMAX_FILE,
    VOCABULARY_FILE,
    WEIGHTS_FILE,
)
from elmo_tf.config import BiLMConfig
from elmo_tf.files import atomic_file, locked_directory, refuse_pattern, write_json
from elmo_tf.models.language_model import LanguageModel
from elmo_tf.progress import progress
from elmo_tf.settings import check_same_settings, read_record
from elmo_tf.text.lexicon import CHARACTERS_FILE, WORDS_FILE
from elmo_tf.text.vocabulary import Vocabulary
from elmo_tf.trainers.checkpointing import STATE_FOLDER, last_save
from elmo_tf.trainers.config import RECORD_FILE, PretrainConfig

LOG_FILE = "log.jsonl"
TENSORBOARD_FOLDER = "tensorboard"
BEST_FOLDER = "best"
TEXT_FOLDER = "text"  # the corpus as text, if it is in another format
# Weight of a new step in the exponential moving average of the losses on the progress line.
_SMOOTHING = 0.02
_LARGEST_EXPONENT = 50
# The speed is measured over as many steps or seconds. The first step is not: it compiles.
_MEASURED_STEPS, _MEASURED_SECONDS = 5, 10
_UNITS = ((3600, "hours"), (60, "minutes"), (1, "seconds"))
_RESULTS = {
    *(OPTIONS_FILE, WEIGHTS_FILE, VOCABULARY_FILE, CHARACTERS_FILE, WORDS_FILE, SOFTMAX_FILE),
    *(EMBEDDINGS_FILE, LOG_FILE, RECORD_FILE, STATE_FOLDER, BEST_FOLDER, TENSORBOARD_FOLDER),
    TEXT_FOLDER,
}


def check_workdir(
    workdir: Path, config: PretrainConfig, shape: BiLMConfig, vocabulary: Vocabulary
) -> None:
    """Checks that a run can start or resume in the directory.

    Raises:
        FileExistsError: the directory holds more than the vocabulary and the lexicon of this run,
            or `overwrite` would delete files of something else.
        ValueError: the run in the directory has other settings or another vocabulary, or TensorFlow
            cannot write there.
    """
    refuse_pattern(workdir)
    if not workdir.exists():
        return
    record, options, vocab = (
        workdir / name for name in (RECORD_FILE, OPTIONS_FILE, VOCABULARY_FILE)
    )
    names = {path.name for path in workdir.iterdir()}
    if config.overwrite:
        results = names & _RESULTS - {OPTIONS_FILE, VOCABULARY_FILE, LOG_FILE}
        refuse_other_results(workdir, results, RECORD_FILE)
        return
    if config.resume and last_save(workdir) is not None:
        before = read_record(record)["settings"]
        check_same_settings(PretrainConfig, config.as_json(shape), before, record)
        if Vocabulary.load(vocab) != vocabulary:
            raise ValueError(
                f"Cannot resume with another vocabulary: {config.vocab} differs from {vocab}."
            )
        return
    inputs = {VOCABULARY_FILE, TEXT_FOLDER}
    if shape.char_cnn is not None and shape.char_cnn.lexicon is not None:
        inputs |= {CHARACTERS_FILE, WORDS_FILE}
    was_stopped_before_first_save = (
        config.resume
        and {name for name in names if not name.startswith(".")} <= _RESULTS - {WEIGHTS_FILE}
        and (not options.exists() or BiLMConfig.from_options(options) == shape)
    )
    is_usable = names <= inputs or was_stopped_before_first_save
    if not is_usable or (vocab.exists() and Vocabulary.load(vocab) != vocabulary):
        refuse_used_workdir(workdir, names, RECORD_FILE, config.resume)


def refuse_other_results(workdir: Path, names: set[str], record: str) -> None:
    """Raises `FileExistsError` if `overwrite` would delete files that are not a run's.

    `names` are the files to delete, and `record` is the record of a run of this kind.
    """
    if names and record not in names:
        raise FileExistsError(
            f"{workdir} is not the work directory of a run: it holds {', '.join(sorted(names))} "
            f"but no {record}. Nothing was deleted. Choose another --workdir."
        )


def refuse_run(config: PretrainConfig) -> None:
    """Raises `FileExistsError` if the directory holds a run, without `resume` and `overwrite`."""
    workdir = Path(config.workdir)
    if (workdir / RECORD_FILE).exists() and not (config.resume or config.overwrite):
        refuse_used_workdir(workdir, {RECORD_FILE}, RECORD_FILE, resume=False)


def refuse_used_workdir(workdir: Path, names: set[str], record: str, resume: bool) -> NoReturn:
    """Raises `FileExistsError` with the names of the files in the directory, and the remedy."""
    if record in names and not resume:
        raise FileExistsError(
            f"{workdir} already holds a training run. Add --resume (resume=True) to resume it, "
            "or choose another --workdir. --overwrite (overwrite=True) deletes its results."
        )
    raise FileExistsError(
        f"{workdir} is not empty, and holds no run to resume: it holds "
        f"{', '.join(sorted(names)[:5])}. Choose another --workdir."
    )


def claimed_workdir(workdir: Path) -> contextlib.AbstractContextManager[None]:
    """Creates and locks the directory; `FileExistsError` if another process has locked it."""
    message = f"Another process trains in {workdir}. Wait for it, or choose another --workdir."
    return locked_directory(workdir, message)


def check_corpus(workdir: Path, config: PretrainConfig, corpus: dict[str, Any]) -> None:
    """Raises `ValueError` if a run is resumed with another corpus; `corpus` describes it."""
    if not config.resume or last_save(workdir) is None:
        return
    before = read_record(workdir / RECORD_FILE)["corpus"]
    if corpus == {name: before.get(name) for name in corpus}:
        return
    units = {"sentences": "sentences", "tokens": "tokens", "types": "distinct tokens"}
    changes = [
        f"{before[name]:,} {unit} before, {corpus[name]:,} now"
        for name, unit in units.items()
        if name in before and before[name] != corpus[name]
    ]
    changes.append("the numbers of sentences and tokens are the same, but the files differ")
    raise ValueError(
        f"The corpus changed: {changes[0]}. Pass the text with which the run in {workdir} was "
        "trained, or choose another --workdir."
    )


def prepare_workdir(workdir: Path, config: PretrainConfig, model: LanguageModel) -> None:
    """Creates the directory, deletes old results if `overwrite`, and writes the model's options."""
    workdir.mkdir(parents=True, exist_ok=True)
    if config.overwrite:
        for name in _RESULTS - {TEXT_FOLDER}:  # the run reads it already
            path = workdir / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    write_json(workdir / OPTIONS_FILE, model.bilm.config.to_options())
    model.vocabulary.save(workdir / VOCABULARY_FILE)
    if model.bilm.lexicon is not None:
        model.bilm.lexicon.save(workdir)


def begin_record(
    workdir: Path, config: PretrainConfig, shape: BiLMConfig, corpus: dict[str, Any], first: int
) -> dict[str, Any]:
    """Writes the record of a run that starts after step `first`; removes later steps of the log."""
    record = {"settings": config.as_json(shape), "corpus": corpus, "step": first, "perplexity": []}
    if first > 0:
        before = read_record(workdir / RECORD_FILE)
        record["perplexity"] = [old for old in before["perplexity"] if old["step"] <= first]
        # If the run was killed right after the save, the loss of that step was not recorded.
        if before["step"] == first and "loss" in before:
            record["loss"] = before["loss"]
    log = workdir / LOG_FILE
    if log.exists():
        lines = log.read_text(encoding="utf-8").splitlines(keepends=True)
        # A killed run may leave half a line.
        kept = [line for line in lines if line.endswith("\n") and json.loads(line)["step"] <= first]
        with atomic_file(log) as part:
            part.write_text("".join(kept), encoding="utf-8")
    write_json(workdir / RECORD_FILE, record)
    return record


class TrainingLogger(contextlib.ExitStack):
    """Logs each step; a context manager that closes its files. Only the chief writes.

    Args:
        config: the settings of the run.
        schedule: the learning rate of each step.
        num_steps: int. Steps in total.
        first: int >= 0. Steps done before this start.
        is_chief: whether this process writes.
    """

    def __init__(
        self,
        config: PretrainConfig,
        schedule: Callable[[int], Any],
        num_steps: int,
        first: int,
        is_chief: bool,
    ):
        super().__init__()
        workdir = Path(config.workdir)
        self._num_steps = num_steps
        self._tokens = tokens = config.batch_size * config.unroll
        self._schedule = schedule
        self._smooth: dict[str, float] = {}
        self._log: TextIO | None = None
        self._board: tf.summary.SummaryWriter | None = None
        if is_chief:
            log = open(workdir / LOG_FILE, "a", encoding="utf-8")  # noqa: SIM115 - closed on exit
            self._log = self.enter_context(log)
        if is_chief and config.tensorboard:
            self._board = tf.summary.create_file_writer(str(workdir / TENSORBOARD_FOLDER))
            self.callback(self._board.close)
        total, done = num_steps * tokens, first * tokens
        self._meter = progress(total, "training", "tokens", initial=done, shown=is_chief)
        self.callback(self._meter.close)
        self._last = time.monotonic()
        self._first: tuple[int, float] | None = None  # the first step, and the time of its end
        self._duration_is_due = is_chief
        if is_chief and first > 0:
            self._warn_of_rise(workdir / LOG_FILE, first)

    def step(self, step: int, losses: dict[str, float]) -> None:
        """Logs a step: losses, gradient norm, learning rate, and seconds since the last step."""
        learning_rate = float(self._schedule(step - 1))
        now = time.monotonic()
        if self._log is not None:
            rest = {"learning_rate": learning_rate, "seconds": round(now - self._last, 6)}
            self._log.write(json.dumps({"step": step, **losses, **rest}) + "\n")
            self._log.flush()
        self._last = now
        self._log_duration(step, now)
        for name, value in losses.items():
            before = self._smooth.get(name, value)
            self._smooth[name] = before + _SMOOTHING * (value - before)
        perplexities = [
            f"{name} {math.exp(min(self._smooth[name], _LARGEST_EXPONENT)):.1f}"
            for name in ("forward", "backward")
            if name in losses
        ]
        self._meter.note(
            f"step {step}/{self._num_steps}, loss {self._smooth['loss']:.3f}, "
            f"sampled perplexity {', '.join(perplexities)}"
        )
        self._meter.update(self._tokens)
        if self._board is None:
            return
        with self._board.as_default(step=step):
            for name, value in losses.items():
                group = "gradient" if name == "norm" else "loss"
                tf.summary.scalar(f"{group}/{name}", value)
            tf.summary.scalar("learning_rate", learning_rate)

    def _warn_of_rise(self, log: Path, done: int) -> None:
        """Warns if the step `done` had a lower rate than in a run of this number of steps."""
        lines = log.read_text(encoding="utf-8").splitlines()
        before = json.loads(lines[-1])["learning_rate"] if lines else math.inf
        if float(self._schedule(done - 1)) > 1.001 * before:
            logging.warning(
                "The learning rate rises from %.2g to %.2g, because the schedule now ends at step "
                "%s. The loss may rise at first. To extend runs, use --schedule inverse_sqrt or "
                "constant from the beginning.",
                *(before, float(self._schedule(done)), f"{self._num_steps:,}"),
            )

    def _log_duration(self, step: int, now: float) -> None:
        self._first = self._first or (step, now)
        steps, seconds = step - self._first[0], now - self._first[1]
        is_measured = steps >= _MEASURED_STEPS or (steps and seconds >= _MEASURED_SECONDS)
        if not self._duration_is_due or not is_measured:
            return
        self._duration_is_due = False
        left = (self._num_steps - step) * seconds / steps
        size, unit = next((one for one in _UNITS if left >= 2 * one[0]), _UNITS[-1])
        logging.info(
            "%s more steps of %s tokens at %s tokens/s: about %.0f %s, without evaluations.",
            *(f"{number:,.0f}" for number in (self._num_steps - step, self._tokens)),
            f"{steps * self._tokens / seconds:,.0f}",
            *(left / size, unit),
        )

    def evaluation(self, step: int, result: dict[str, Any]) -> None:
        """Logs the perplexity of the held-out text."""
        perplexities = {
            name: result[name] for name in ("forward", "backward", "average") if name in result
        }
        directions = [
            f"{name} {value:.1f}" for name, value in perplexities.items() if name != "average"
        ]
        logging.info(
            "Step %d: held-out perplexity %.1f (%s; %d tokens, %s unknown).",
            *(step, result["average"], ", ".join(directions), result["tokens"]),
            f"{result['unknown']:.1%}",
        )
        if self._board is not None:
            with self._board.as_default(step=step):
                for name, value in perplexities.items():
                    tf.summary.scalar(f"held_out_perplexity/{name}", value)
