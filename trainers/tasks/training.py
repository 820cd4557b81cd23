"""Trains a task model: files of a task, and a biLM ─► the best model, its scores and a log."""

import dataclasses
import hashlib
import json
import math
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
from absl import logging

from elmo_tf.checkpoints.load import load_bilm
from elmo_tf.embedding import Embedder
from elmo_tf.embedding.stored_layers import StoredLayers
from elmo_tf.extras import require_extra
from elmo_tf.files import atomic_file, write_json
from elmo_tf.models.bilm import model_digest
from elmo_tf.progress import progress
from elmo_tf.tasks.batches import Batches, distinct_texts
from elmo_tf.tasks.config import MODEL_FILE, PREDICATES_FOLDER, RECORD_FILE, TaskConfig
from elmo_tf.tasks.registry import TASKS
from elmo_tf.tasks.semantic_roles.predicates import PredicateTagging
from elmo_tf.tasks.task import Task
from elmo_tf.tasks.task_model import TaskModel
from elmo_tf.tasks.word_vectors import check_word_vectors
from elmo_tf.trainers.optimizers import WeightAverage
from elmo_tf.trainers.tasks.predict import predict_batches
from elmo_tf.trainers.tasks.run_parts import (
    LOG_FILE,
    check_workdir,
    new_elmo,
    new_embeddings,
    prepare_workdir,
    read_state,
    save_model,
    save_state,
)
from elmo_tf.trainers.workdir import claimed_workdir

# Of Adadelta, as in He et al. 2017. Clark and Gardner 2018 use 1e-8.
_ADADELTA_EPSILON = 1e-6


def train_task(config: TaskConfig) -> dict[str, Any]:
    """Trains a task model, and keeps the model of the best epoch.

    For "srl", a `CRFTagger` of predicates is trained afterwards, with the same settings except
    `model_options`, in `config.workdir` + `/predicates`. Work directories of older versions lack
    it; `resume` adds it.

    `config.workdir` gets `model.keras`, the model of the epoch with the best score on `dev`;
    `task.json` with the settings, the labels and the scores of each epoch; `log.jsonl` with one
    line per epoch; and `state.npz`, from which `resume` continues exactly after the last epoch.
    Sets the seeds of Python, NumPy and TensorFlow.

    The layers of a frozen biLM are computed once, see `StoredLayers`.

    Args:
        config: the settings of the run.

    Returns:
        The content of `task.json`.

    Raises:
        FileExistsError: `workdir` is in use, and neither `resume` nor `overwrite` is set; or
            another process trains in it.
        FileNotFoundError: a file or the checkpoint is missing.
        ValueError: a file is wrong (the message names the line), or a run is resumed with other
            settings, data or another biLM.
        FloatingPointError: the loss is not finite.
        MissingExtraError: the packages of the extra `tasks` are not installed.
        OSError: a file cannot be read or written.
    """
    record = train_model(config, TASKS[config.task]())
    if config.task == "srl":
        logging.info("Training the tagger that finds predicates.")
        workdir = os.path.join(config.workdir, PREDICATES_FOLDER)
        of_tagger = dataclasses.replace(config, workdir=workdir, resume=True, overwrite=False)
        train_model(of_tagger, PredicateTagging())
    return record


def train_model(config: TaskConfig, task: Task) -> dict[str, Any]:
    """Trains the model of one task, see `train_task`."""
    task.model_arguments(config)  # fails now if an option is unknown
    workdir = Path(config.workdir)
    check_workdir(workdir, config)
    examples, train_examples, dev_examples, labels = _read_examples(config, task)
    keras.utils.set_random_seed(config.seed)
    if config.word_vectors is not None:
        check_word_vectors(config.word_vectors)
    has_bilm = config.elmo is not None and config.placement != "none"
    source = load_bilm(config.elmo) if has_bilm else None
    record: dict[str, Any] = {
        "settings": config.as_json(),
        "labels": labels,
        "examples": {"train": len(train_examples), "dev": len(dev_examples)},
        "data": _digest([train_examples, dev_examples], filter(None, [config.word_vectors])),
        "bilm": source and model_digest(source),
    }
    with claimed_workdir(workdir):
        check_workdir(workdir, config)  # again: another run may have ended in the meantime
        state = read_state(workdir) if config.resume else None
        if state is not None:
            _check_same(workdir, state.record, record)
            if _is_finished(config, state.record):
                return _finish(workdir, task, {**state.record, "settings": record["settings"]})

        texts = [*map(task.texts, train_examples)]
        embeddings = new_embeddings(config, texts)
        model = task.new_model(config, labels, embeddings, new_elmo(config, source))
        model.compile(_new_optimizer(config))
        model.optimizer.build(model.trainable_variables)
        average = WeightAverage(model.trainable_variables, config.ema)
        record |= {
            "trained_weights": sum(math.prod(weight.shape) for weight in model.trainable_weights),
            "best": None,
            "epochs": [],
            "finished": False,
        }
        layers = None
        if source is not None and not config.fine_tune:
            distinct = distinct_texts(map(task.texts, (*examples, *dev_examples)))
            layers = distinct, StoredLayers(Embedder(source, "all", config.precision), [*distinct])
        train = task.training_batches(model, train_examples, config, layers)
        dev = task.batches(model, dev_examples, config.batch_size, layers)
        run = _Run(workdir, task, model, average, train, dev, dev_examples)
        prepare_workdir(workdir, keep_results=state is not None)
        if state is not None:
            state.restore(model, average)
            record.update(best=state.record["best"], epochs=state.record["epochs"])
            state = None  # frees its memory
        _write_logs(workdir, record)
        while not _is_finished(config, record):
            _train_epoch(run, config.seed, record)
        return _finish(workdir, task, record)


def _read_examples(
    config: TaskConfig, task: Task
) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any], list[str]]:
    """All training examples, the share to train on, the held-out examples, and the labels."""
    for module in task.packages:
        require_extra(module, "tasks", "The score of this task")
    examples = task.read(config.train, config)
    labels = task.labels(examples)
    kept = task.for_training(examples, config)
    if not kept:
        raise ValueError(
            f"All {len(examples):,} training examples have more than `max_tokens` tokens "
            "(--max-tokens)."
        )
    train = _sample(kept, config.share, config.seed)
    dev = task.read(config.dev, config, known=labels)
    logging.info(
        "%s training examples, %s held-out examples, %s labels.",
        *(f"{len(part):,}" for part in (train, dev, labels)),
    )
    return examples, train, dev, labels


def _sample(examples: Sequence[Any], share: float, seed: int) -> Sequence[Any]:
    """A random share of the examples, at least one, in their order."""
    if share == 1:
        return examples
    count = max(1, round(share * len(examples)))
    indices = np.random.default_rng(seed).permutation(len(examples))[:count]
    return [examples[index] for index in sorted(indices.tolist())]


def _check_same(workdir: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    for name, change in (
        ("examples", f"examples changed: {_sizes(before)} before, {_sizes(now)} now"),
        ("labels", "labels changed"),
        ("data", "examples or word vectors changed"),
        ("bilm", "biLM changed"),
    ):
        if before.get(name) != now[name]:
            raise ValueError(
                f"The {change}. Pass the data and the biLM with which {workdir} was trained, "
                "or choose another --workdir."
            )


def _sizes(record: Mapping[str, Any]) -> str:
    return "{train:,} for training and {dev:,} held out".format(**record["examples"])


class _Run(NamedTuple):
    """The model and the data of a run."""

    workdir: Path
    task: Task
    model: TaskModel
    average: WeightAverage
    train: Batches
    dev: Batches
    dev_examples: Sequence[Any]


def _train_epoch(run: _Run, seed: int, record: dict[str, Any]) -> None:
    """Trains one epoch, scores the model on held-out examples, and saves both."""
    task, epochs, best = run.task, record["epochs"], record["best"]
    epoch = len(epochs) + 1
    started = time.monotonic()
    loss = _fit_epoch(run, seed, epoch)
    seconds = time.monotonic() - started
    with run.average.applied():
        predicted = predict_batches(task, run.model, run.dev, run.dev_examples)
        scores = task.scores([task.gold(example) for example in run.dev_examples], predicted)
        entry = {"epoch": epoch, "loss": loss, "seconds": round(seconds, 3), "dev": scores}
        epochs.append(entry)
        if best is None or _is_better(entry, epochs[best["epoch"] - 1], task.metric):
            record["best"] = {"epoch": epoch, "score": scores[task.metric], "dev": scores}
            save_model(run.model, run.workdir / MODEL_FILE)
    logging.info("Epoch %d: loss %.4f, %s %.4f.", epoch, loss, task.metric, scores[task.metric])
    save_state(run.workdir, run.model, run.average, record)
    _write_logs(run.workdir, record)


def _fit_epoch(run: _Run, seed: int, epoch: int) -> float:
    """Trains one epoch, and returns the mean loss."""
    with progress(len(run.train), f"epoch {epoch}", "steps") as meter:

        def on_batch_end(_, logs):
            run.average.update(run.model.optimizer.iterations - 1)
            meter.note(f"loss {logs['loss']:.4f}")
            meter.update(1)

        history = run.model.fit(
            run.train.dataset(seed, epoch),
            shuffle=False,  # the dataset is shuffled
            verbose=0,
            callbacks=[keras.callbacks.LambdaCallback(on_train_batch_end=on_batch_end)],
        )
    loss = float(history.history["loss"][0])
    if not math.isfinite(loss):
        raise FloatingPointError(
            f"The loss is {loss} in epoch {epoch}: training has diverged. Lower the learning rate, "
            "and start again."
        )
    return loss


def _new_optimizer(config: TaskConfig) -> keras.optimizers.Optimizer:
    options = {"learning_rate": config.learning_rate, "global_clipnorm": config.clip_norm}
    if config.optimizer == "adadelta":
        return keras.optimizers.Adadelta(rho=0.95, epsilon=_ADADELTA_EPSILON, **options)
    return keras.optimizers.Adam(**options)


def _is_better(first: Mapping[str, Any], second: Mapping[str, Any], metric: str) -> bool:
    """Whether the first epoch has a better score, or both have score 0 and it has a lower loss.

    The F1 of spans is often 0 in the first epochs.
    """
    score, other_score = first["dev"][metric], second["dev"][metric]
    return score > other_score or (score == other_score == 0 and first["loss"] < second["loss"])


def _is_finished(config: TaskConfig, record: Mapping[str, Any]) -> bool:
    num_epochs, best = len(record["epochs"]), record["best"]
    if best is not None and num_epochs - best["epoch"] >= config.patience:
        logging.info("No better epoch for %d epochs: training ends.", config.patience)
        return True
    return num_epochs >= config.epochs


def _finish(workdir: Path, task: Task, record: dict[str, Any]) -> dict[str, Any]:
    """Writes the final record, and logs the best epoch."""
    record["finished"] = True
    _write_logs(workdir, record)
    best = record["best"]
    logging.info("Epoch %d was the best: %s %.4f.", best["epoch"], task.metric, best["score"])
    if not best["score"]:
        name = {"f1": "F1"}.get(task.metric, task.metric)
        logging.warning("Best %s is 0; train for more epochs.", name)
    return record


def _write_logs(workdir: Path, record: Mapping[str, Any]) -> None:
    write_json(workdir / RECORD_FILE, record)
    with atomic_file(workdir / LOG_FILE) as part:
        lines = [json.dumps(epoch) + "\n" for epoch in record["epochs"]]
        part.write_text("".join(lines), encoding="utf-8")


def _digest(content: Any, files: Iterable[str | os.PathLike]) -> str:
    """A digest of JSON values and of the contents of files."""
    digest = hashlib.sha256(json.dumps(content).encode())
    for name in files:
        with open(name, "rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
