"""Trains a task model: files of a task, and a biLM ─► the best model, its scores, and a log."""

import hashlib
import json
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
from absl import logging

from elmo_tf.checkpoints.load import load_bilm
from elmo_tf.checkpoints.save import write_json
from elmo_tf.embedding.layer_files import LayerFiles
from elmo_tf.files import atomic_file
from elmo_tf.models.bilm import BiLM
from elmo_tf.models.digests import model_digest
from elmo_tf.progress import progress
from elmo_tf.tasks import TaskModel
from elmo_tf.trainers.tasks.answering import batch_answers
from elmo_tf.trainers.tasks.building import kept_layers, new_elmo, new_embeddings
from elmo_tf.trainers.tasks.config import RECORD_FILE, TaskConfig
from elmo_tf.trainers.tasks.examples import Batches, DistinctTexts
from elmo_tf.trainers.tasks.kinds import KINDS, TaskKind
from elmo_tf.trainers.tasks.workdir import (
    LOG_FILE,
    MODEL_FILE,
    SavedState,
    check_workdir,
    claimed_workdir,
    prepare_workdir,
    read_state,
    save_model,
    save_state,
)


def train_task(config: TaskConfig, keeps_all_layers: bool = False) -> dict[str, Any]:
    """Trains a task model, and keeps that of the best epoch.

    `config.workdir` gets `model.keras`, the model of the epoch with the best score on `dev`;
    `task.json`, with the settings, the labels and the scores of each epoch; `log.jsonl`, a line an
    epoch; and `state.npz`, from which `resume` goes on behind the last epoch, exactly. Sets the
    seeds of Python, NumPy and TensorFlow.

    The layers of a biLM that is not trained are computed once, and kept, see `LayerCache`.

    Args:
        config: a `TaskConfig`.
        keeps_all_layers: whether those of all of `train` are, where a share of it is trained on
            and the cache can hold them all: runs of other shares find them then.

    Returns:
        What `task.json` holds.

    Raises:
        FileExistsError: `workdir` is in use, and neither `resume` nor `overwrite` is set; or
            another process trains in it.
        FileNotFoundError: a file or checkpoint is not there.
        ValueError: a file is broken (the message names the line), or a run is resumed with other
            settings, data, or another biLM.
        FloatingPointError: the loss is no longer a number.
        MissingExtraError: the packages of the extra `tasks` are not installed.
        OSError: a file cannot be read or written.
    """
    kind = KINDS[config.task]
    workdir = Path(config.workdir)
    check_workdir(workdir, config)
    examples = _read_examples(config, kind)
    keras.utils.set_random_seed(config.seed)
    has_elmo = config.elmo is not None and config.placement != "none"
    bilm = load_bilm(config.elmo) if has_elmo else None
    record: dict[str, Any] = {
        "settings": config.as_json(),
        "labels": examples.labels,
        "examples": {"train": len(examples.train), "dev": len(examples.dev)},
        "data": _digest(examples, config.word_vectors),
        "bilm": None if bilm is None else model_digest(bilm),
    }
    with claimed_workdir(workdir):
        before = read_state(workdir) if config.resume else None
        if before is not None:
            _check_same(workdir, before.record, record)
            if _is_over(config, before.record):
                return _finished(workdir, {**before.record, "settings": record["settings"]})
        prepare_workdir(workdir, keep_results=before is not None)
        model = _new_model(config, kind, examples, bilm)
        texts = [kind.texts(one) for one in (*examples.train, *examples.dev)]
        more = [kind.texts(one) for one in examples.all] if keeps_all_layers else []
        with kept_layers(config, bilm, texts, more) as kept:
            run = _Run(config, kind, model, examples, kept, record)
            if before is not None:
                run.go_on(before)
            run.train()
        return _finished(workdir, run.record)


class _Examples(NamedTuple):
    """What a run reads: `train` is a share of `all` that its files hold."""

    all: Sequence[Any]
    train: Sequence[Any]
    dev: Sequence[Any]
    labels: list[str]


def _read_examples(config: TaskConfig, kind: TaskKind) -> _Examples:
    settings = config.as_json()
    examples = kind.read(config.train, settings, known=None)
    labels = kind.labels(examples)
    train = _drawn(examples, config.share, config.seed)
    dev = kind.read(config.dev, {**settings, "phrases": None}, known=kind.known(labels))
    logging.info(
        "%s examples to train on, %s to judge by, %s labels.",
        *(f"{len(each):,}" for each in (train, dev, labels)),
    )
    kind.scores(*[[kind.answer(dev[0])]] * 2)  # which tells now if a package is missing
    return _Examples(examples, train, dev, labels)


def _new_model(
    config: TaskConfig, kind: TaskKind, examples: _Examples, bilm: BiLM | None
) -> TaskModel:
    embeddings = new_embeddings(config, [kind.texts(example) for example in examples.train])
    model = kind.new_model(config, examples.labels, embeddings, new_elmo(config, bilm))
    model.compile(keras.optimizers.Adam(config.learning_rate, global_clipnorm=config.clip_norm))
    model.optimizer.build(model.trainable_variables)
    return model


def _drawn(examples: Sequence[Any], share: float, seed: int) -> Sequence[Any]:
    """A share of the examples, at least one, in their order."""
    if share == 1:
        return examples
    number = max(1, round(share * len(examples)))
    places = np.random.default_rng(seed).permutation(len(examples))[:number]
    return [examples[place] for place in sorted(places.tolist())]


def _check_same(workdir: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    for name, change in (
        ("examples", f"examples changed: {_sizes(before)} before, {_sizes(now)} now"),
        ("labels", "labels changed"),
        ("data", "examples or word vectors changed"),
        ("bilm", "biLM changed"),
    ):
        if before.get(name) != now[name]:
            raise ValueError(
                f"The {change}. Pass the data and the biLM with which {workdir} was trained, or "
                "choose another --workdir."
            )


def _sizes(record: Mapping[str, Any]) -> str:
    return "{train:,} to train on and {dev:,} held out".format(**record["examples"])


def _is_over(config: TaskConfig, record: Mapping[str, Any]) -> bool:
    """Whether there is no further epoch."""
    num_epochs, best = len(record["epochs"]), record["best"]
    if best is not None and num_epochs - best["epoch"] >= config.patience:
        logging.info("No better epoch for %d epochs: this is the end.", config.patience)
        return True
    return num_epochs >= config.epochs


def _finished(workdir: Path, record: dict[str, Any]) -> dict[str, Any]:
    """Writes and tells how a run has ended."""
    record["finished"] = True
    _write_logs(workdir, record)
    best = record["best"]
    metric = KINDS[record["settings"]["task"]].metric
    logging.info("Epoch %d was the best: %s %.4f.", best["epoch"], metric, best["score"])
    if not best["score"]:
        name = {"f1": "F1"}.get(metric, metric)
        logging.warning("Best %s is 0; train for more epochs.", name)
    return record


def _write_logs(workdir: Path, record: Mapping[str, Any]) -> None:
    write_json(workdir / RECORD_FILE, record)
    with atomic_file(workdir / LOG_FILE) as part:
        lines = [json.dumps(one) + "\n" for one in record["epochs"]]
        part.write_text("".join(lines), encoding="utf-8")


class _Run:
    """A run on its way: what it trains, and what it keeps in its work directory."""

    def __init__(
        self,
        config: TaskConfig,
        kind: TaskKind,
        model: TaskModel,
        examples: _Examples,
        kept: tuple[DistinctTexts, LayerFiles] | None,
        record: Mapping[str, Any],
    ):
        self._config = config
        self._kind = kind
        self._model = model
        self._workdir = Path(config.workdir)
        self._gold = [kind.answer(example) for example in examples.dev]
        targets = [kind.target(model, kind.answer(example)) for example in examples.train]
        self._train, self._dev = (
            Batches(model, [kind.texts(one) for one in several], wanted, config.batch_size, kept)
            for several, wanted in ((examples.train, targets), (examples.dev, None))
        )
        self.record: dict[str, Any] = {
            **record,
            "trained_weights": _num_weights(model),
            "best": None,
            "epochs": [],
            "finished": False,
        }

    def go_on(self, before: SavedState) -> None:
        """Takes over what a run before had come to."""
        before.give_to(self._model)
        self.record.update(best=before.record["best"], epochs=before.record["epochs"])

    def train(self) -> None:
        """The epochs that are left."""
        _write_logs(self._workdir, self.record)
        while not _is_over(self._config, self.record):
            self._epoch(len(self.record["epochs"]) + 1)

    def _epoch(self, epoch: int) -> None:
        started = time.monotonic()
        loss = self._pass(epoch)
        seconds = time.monotonic() - started
        scores = self._kind.scores(self._gold, batch_answers(self._kind, self._model, self._dev))
        metric = self._kind.metric
        score = scores[metric]
        logging.info("Epoch %d: loss %.4f, %s %.4f.", epoch, loss, metric, score)
        now = {"epoch": epoch, "loss": loss, "seconds": round(seconds, 3), "dev": scores}
        epochs, best = self.record["epochs"], self.record["best"]
        epochs.append(now)
        if best is None or _is_better(now, epochs[best["epoch"] - 1], metric):
            self.record["best"] = {"epoch": epoch, "score": score, "dev": scores}
            save_model(self._model, self._workdir / MODEL_FILE)
        save_state(self._workdir, self._model, self.record)
        _write_logs(self._workdir, self.record)

    def _pass(self, epoch: int) -> float:
        """One pass through what is trained on; its mean loss."""
        with progress(len(self._train), f"epoch {epoch}", "steps") as meter:

            def after(_, logs):
                meter.note(f"loss {logs['loss']:.4f}")
                meter.update(1)

            history = self._model.fit(
                self._train.dataset(self._config.seed, epoch),
                shuffle=False,  # it is
                verbose=0,
                callbacks=[keras.callbacks.LambdaCallback(on_train_batch_end=after)],
            )
        loss = float(history.history["loss"][0])
        if not abs(loss) < float("inf"):
            raise FloatingPointError(
                f"The loss is {loss} in epoch {epoch}: training has diverged. Lower the learning "
                "rate, and begin again."
            )
        return loss


def _is_better(one: Mapping[str, Any], other: Mapping[str, Any], metric: str) -> bool:
    """Whether an epoch is: by the score; where both have 0, as of spans at first, by the loss."""
    score, other_score = one["dev"][metric], other["dev"][metric]
    return score > other_score or (score == other_score == 0 and one["loss"] < other["loss"])


def _digest(examples: _Examples, word_vectors: str | None) -> str:
    """A digest of the examples, and of the file of word vectors."""
    digest = hashlib.sha256(json.dumps([examples.train, examples.dev]).encode())
    if word_vectors is not None:
        with open(word_vectors, "rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _num_weights(model: TaskModel) -> int:
    return int(sum(math.prod(weight.shape) for weight in model.trainable_weights))
