"""The work directory of a run: whether it may be used, the record of the run, and its log."""

import json
import shutil
from pathlib import Path
from typing import Any, NoReturn

from elmo_tf.checkpoints.load import (
    EMBEDDINGS_FILE,
    OPTIONS_FILE,
    SOFTMAX_FILE,
    VOCABULARY_FILE,
    WEIGHTS_FILE,
)
from elmo_tf.checkpoints.save import write_json
from elmo_tf.config import BiLMConfig
from elmo_tf.files import atomic_file, refuse_pattern
from elmo_tf.settings import read_record
from elmo_tf.text.vocabulary import Vocabulary
from elmo_tf.trainers.checkpointing import STATE_FOLDER, last_save
from elmo_tf.trainers.config import RECORD_FILE, PretrainConfig
from elmo_tf.trainers.training_logger import LOG_FILE, TENSORBOARD_FOLDER

BEST_FOLDER = "best"
_RESULTS = (
    OPTIONS_FILE,
    WEIGHTS_FILE,
    VOCABULARY_FILE,
    SOFTMAX_FILE,
    LOG_FILE,
    RECORD_FILE,
    STATE_FOLDER,
    BEST_FOLDER,
    EMBEDDINGS_FILE,
    TENSORBOARD_FOLDER,
)


def check_workdir(
    workdir: Path, config: PretrainConfig, shape: BiLMConfig, vocabulary: Vocabulary
) -> None:
    """Refuses a directory that a run may neither begin in nor go on in.

    Raises:
        FileExistsError: it holds anything but this run's own vocabulary.
        ValueError: the run in it had other settings or another vocabulary, or TensorFlow cannot
            write there.
    """
    refuse_pattern(workdir)
    if not workdir.exists() or config.overwrite:
        return
    if config.resume:
        record = workdir / RECORD_FILE
        if last_save(workdir) is not None:
            config.check_resumes(shape, read_record(record)["settings"], record)
            if Vocabulary.load(workdir / VOCABULARY_FILE) != vocabulary:
                raise ValueError(
                    f"Cannot go on with another vocabulary than {workdir / VOCABULARY_FILE}: "
                    f"{config.vocab} differs."
                )
            return
        if _is_left_before_first_save(workdir, shape, vocabulary):
            return
    names = {path.name for path in workdir.iterdir()}
    if names - {VOCABULARY_FILE} or (
        names and Vocabulary.load(workdir / VOCABULARY_FILE) != vocabulary
    ):
        refuse_used_workdir(workdir, names, RECORD_FILE, config.resume)


def refuse_used_workdir(workdir: Path, names: set[str], record: str, resume: bool) -> NoReturn:
    """Refuses a work directory in which a run may neither begin nor be resumed.

    Args:
        workdir: the directory.
        names: of its files.
        record: name of the file with which a run of this kind leaves its settings.
        resume: whether it was to be resumed.

    Raises:
        FileExistsError: always. It says what the directory holds, and how to proceed.
    """
    if record in names and not resume:
        raise FileExistsError(
            f"{workdir} already holds a training run. Add --resume (resume=True) to continue it, "
            "or choose another --workdir. --overwrite (overwrite=True) deletes its results."
        )
    raise FileExistsError(
        f"{workdir} is not empty, and holds no run that can be resumed: it holds "
        f"{', '.join(sorted(names)[:5])}. Choose another --workdir."
    )


def _is_left_before_first_save(workdir: Path, shape: BiLMConfig, vocabulary: Vocabulary) -> bool:
    """Whether a directory holds what this run leaves if it is killed before its first save."""
    names = {path.name for path in workdir.iterdir() if not path.name.startswith(".")}
    if WEIGHTS_FILE in names or not names <= set(_RESULTS):
        return False
    options, words = workdir / OPTIONS_FILE, workdir / VOCABULARY_FILE
    return (not options.exists() or BiLMConfig.from_options(options) == shape) and (
        not words.exists() or Vocabulary.load(words) == vocabulary
    )


def check_corpus(workdir: Path, config: PretrainConfig, corpus: dict[str, Any]) -> None:
    """Raises `ValueError` if a run is to go on with other text than before.

    Args:
        workdir, config: of the run.
        corpus: what the record is to tell of the text.
    """
    if config.resume and last_save(workdir) is not None:
        before = read_record(workdir / RECORD_FILE)["corpus"]
        if before != corpus:
            raise ValueError(
                f"The corpus changed: {_corpus_change(before, corpus)}. Pass the text with which "
                f"{workdir} was trained, or choose another --workdir."
            )


def _corpus_change(before: dict[str, Any], now: dict[str, Any]) -> str:
    for name, unit in (("sentences",) * 2, ("tokens",) * 2, ("types", "distinct tokens")):
        if before[name] != now[name]:
            return f"{before[name]:,} {unit} before, {now[name]:,} now"
    return "it has as many sentences and tokens as before, but its files differ"


def prepare_workdir(
    workdir: Path, config: PretrainConfig, shape: BiLMConfig, vocabulary: Vocabulary
) -> None:
    """Makes the directory, without results of a run before, and writes the shape of the biLM."""
    workdir.mkdir(parents=True, exist_ok=True)
    if config.overwrite:
        for name in _RESULTS:
            path = workdir / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    write_json(workdir / OPTIONS_FILE, shape.to_options())
    vocabulary.save(workdir / VOCABULARY_FILE)


def begin_record(
    workdir: Path, config: PretrainConfig, shape: BiLMConfig, corpus: dict[str, Any], first: int
) -> dict[str, Any]:
    """The record of the run. It and the log are cut back to the step from which it goes on."""
    record = {"settings": config.as_json(shape), "corpus": corpus, "step": first, "perplexity": []}
    if first > 0:
        before = read_record(workdir / RECORD_FILE)
        record["perplexity"] = [part for part in before["perplexity"] if part["step"] <= first]
        # A run killed right after it saved its state has not recorded that step's loss.
        if before["step"] == first and "loss" in before:
            record["loss"] = before["loss"]
    _cut_log(workdir / LOG_FILE, first)
    write_json(workdir / RECORD_FILE, record)
    return record


def _cut_log(path: Path, last_step: int) -> None:
    if not path.exists():
        return
    with open(path, encoding="utf-8") as log:
        # A killed run may leave half a line.
        lines = [line for line in log if line.endswith("\n")]
    kept = [line for line in lines if json.loads(line)["step"] <= last_step]
    with atomic_file(path) as part:
        part.write_text("".join(kept), encoding="utf-8")
