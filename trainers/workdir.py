"""The work directory of a run: checks, the record of the run, and its log."""

import contextlib
import json
import shutil
from pathlib import Path
from typing import Any, NoReturn

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
from elmo_tf.settings import check_same_settings, read_record
from elmo_tf.text.lexicon import CHARACTERS_FILE, WORDS_FILE
from elmo_tf.text.vocabulary import Vocabulary
from elmo_tf.trainers.checkpointing import STATE_FOLDER, last_save
from elmo_tf.trainers.config import RECORD_FILE, PretrainConfig
from elmo_tf.trainers.training_logger import LOG_FILE, TENSORBOARD_FOLDER

BEST_FOLDER = "best"
_RESULTS = {
    *(OPTIONS_FILE, WEIGHTS_FILE, VOCABULARY_FILE, CHARACTERS_FILE, WORDS_FILE, SOFTMAX_FILE),
    *(EMBEDDINGS_FILE, LOG_FILE, RECORD_FILE, STATE_FOLDER, BEST_FOLDER, TENSORBOARD_FOLDER),
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
    inputs = {VOCABULARY_FILE}
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
    # An older version recorded fewer numbers.
    if before == {name: corpus.get(name) for name in before}:
        return
    units = {"sentences": "sentences", "tokens": "tokens", "types": "distinct tokens"}
    changes = [
        f"{before[name]:,} {unit} before, {corpus[name]:,} now"
        for name, unit in units.items()
        if before[name] != corpus[name]
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
        for name in _RESULTS:
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
