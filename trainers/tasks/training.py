"""Trains a task model: files of a task, and a biLM ─► the best model, its scores and a log."""

import dataclasses
import functools
import hashlib
import json
import math
import os
import time
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
from absl import logging

from elmo_tf.checkpoints.load import load_bilm, load_config
from elmo_tf.embedding.embedder import Embedder
from elmo_tf.embedding.stored_layers import StoredLayers
from elmo_tf.embedding.word_means import WordMeans
from elmo_tf.files import atomic_file
from elmo_tf.logs import progress
from elmo_tf.models.copies import model_digest
from elmo_tf.tasks.batches import Batches, distinct_texts
from elmo_tf.tasks.classification.model import balanced_weights
from elmo_tf.tasks.config import MODEL_FILE, PREDICATES_FOLDER, TaskConfig
from elmo_tf.tasks.registry import TASKS
from elmo_tf.tasks.semantic_roles.predicates import PredicateTagging
from elmo_tf.tasks.task import Task
from elmo_tf.tasks.task_model import TaskModel
from elmo_tf.text.reading import check_regular_file
from elmo_tf.text.tokenizers import tokenizer_code
from elmo_tf.trainers.optimizers import WeightAverage
from elmo_tf.trainers.tasks.predict import predict_batches
from elmo_tf.trainers.workdir import WorkDirectory

STATE_FILE = "state.npz"
_ELMO_SETTINGS = "mix", "mix_l2", "layer_norm", "precision"


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

    Returns:
        The content of `task.json`.

    Raises:
        FileExistsError: `workdir` is in use, and neither `resume` nor `overwrite` is set; or
            another process trains in it.
        ValueError: a file is wrong (the message names the line), or a run is resumed with other
            settings, data or another biLM.
        FloatingPointError: the loss is not finite.
        ImportError: "coref" without the extra `tasks`.
        OSError: a file or the checkpoint cannot be read or written.
    """
    for name in _ELMO_SETTINGS:
        default = TaskConfig.__pydantic_fields__[name].default
        if config.elmo is None and getattr(config, name) != default:
            raise ValueError(f"`{name}` needs `elmo`.")
    record = train_model(config, TASKS[config.task]())
    if config.task == "srl":
        logging.info("Training the tagger that finds predicates.")
        workdir = os.path.join(config.workdir, PREDICATES_FOLDER)
        of_tagger = dataclasses.replace(config, workdir=workdir, resume=True, overwrite=False)
        train_model(of_tagger, PredicateTagging())
    return record


def train_model(config: TaskConfig, task: Task) -> dict[str, Any]:
    """Trains the model of one task, see `train_task`."""
    config = with_tokenizer_code(config)
    if config.word_vectors is not None:
        check_regular_file(config.word_vectors)
    results = MODEL_FILE, STATE_FILE, PREDICATES_FOLDER
    workdir = WorkDirectory(config, results, MODEL_FILE, _saved_record, "epoch")
    workdir.check_settings(config.as_json())
    all_examples, examples, dev_examples, labels = _read_examples(config, task)
    data = hashlib.sha256(json.dumps([examples, dev_examples]).encode())
    if config.word_vectors is not None:
        with open(config.word_vectors, "rb") as file:
            data.update(hashlib.file_digest(file, "sha256").digest())
    metric = task.metric_of(config)
    keras.utils.set_random_seed(config.seed)
    has_bilm = config.elmo is not None and config.placement != "none"
    bilm = load_bilm(config.elmo) if has_bilm else None
    record: dict[str, Any] = {
        "settings": config.as_json(),
        "labels": labels,
        "examples": {"train": len(examples), "dev": len(dev_examples)},
        "data": data.hexdigest(),
        "bilm": bilm and model_digest(bilm),
        "best": None,
        "epochs": [],
    }
    with workdir.locked():
        if workdir.before is not None:
            for name in ("labels", "data", "bilm"):
                if workdir.before.get(name) != record[name]:
                    raise ValueError(
                        f"`{name}` changed. Pass the data and the biLM with which {workdir.path} "
                        "was trained, or choose another --workdir."
                    )
            record = {**workdir.before, "settings": record["settings"]}
            if _is_finished(config, record):
                return _finish(workdir, metric, record)

        model = task.new_model(config, labels, examples, bilm)
        optimizer = keras.optimizers.Adam
        if config.optimizer == "adadelta":  # as in He et al. 2017; document-qa has epsilon 1e-8
            optimizer = functools.partial(keras.optimizers.Adadelta, rho=0.95, epsilon=1e-6)
        model.compile(optimizer(config.learning_rate, global_clipnorm=config.clip_norm))
        model.optimizer.build(model.trainable_variables)
        average = WeightAverage(model.trainable_variables, config.ema)
        layers = None
        if bilm is not None and not config.fine_tune:
            distinct = distinct_texts(map(task.texts, (*all_examples, *dev_examples)))
            words = model.tokenizer if model.labels_words else None
            embedder = Embedder(bilm, "all", config.precision, tokenizer=words)
            layers = distinct, StoredLayers(WordMeans(embedder) if words else embedder, [*distinct])
        train = task.training_batches(model, examples, config, layers)
        dev = task.batches(model, dev_examples, config.batch_size, layers)
        state = _State(workdir.path, model, average)
        if workdir.before is not None:
            state.restore()
        workdir.begin(record, len(record["epochs"]))
        state.save(record)
        model.fit(
            train.dataset(config.seed, first_epoch=len(record["epochs"]) + 1),
            steps_per_epoch=len(train),
            initial_epoch=len(record["epochs"]),
            epochs=config.epochs,
            shuffle=False,  # the dataset is shuffled
            verbose=0,
            class_weight=config.class_weight and balanced_weights(list(map(task.gold, examples))),
            callbacks=[_Epochs(config, workdir, task, average, dev, dev_examples, state, record)],
        )
        return _finish(workdir, metric, record)


def with_tokenizer_code(config: TaskConfig) -> TaskConfig:
    """The settings with the code of the biLM's tokenizer in place of "model"."""
    if config.tokenizer != "model":
        return config
    if config.elmo is None:
        raise ValueError("Without `elmo`, `tokenizer` (--tokenize) must be a code, such as en.")
    code = tokenizer_code(config.tokenizer, load_config(config.elmo).tokenizer)
    return dataclasses.replace(config, tokenizer=code)


def _read_examples(
    config: TaskConfig, task: Task
) -> tuple[list[Any], Sequence[Any], list[Any], list[str]]:
    """All training examples, the share to train on, the held-out examples, and the labels."""
    model = task.models[config.model]
    split = functools.partial(task.tokenized, model=model, tokenizer=config.tokenizer)
    examples = split(task.read(config.train, config))
    labels = task.labels(examples)
    kept = task.for_training(examples, config)
    if not kept:
        raise ValueError(
            f"All {len(examples):,} training examples have more than `max_tokens` tokens "
            "(--max-tokens)."
        )
    if len(labels) == 1:
        logging.warning("All training examples have the same label, %s.", labels[0])
    for file in set(map(os.path.realpath, config.train)) & set(map(os.path.realpath, config.dev)):
        logging.warning("%s is a file of `train` and of `dev`: scores will be too high.", file)
    train = _sample(kept, config.share, config.seed)
    dev = split(task.read(config.dev, config, known=labels))
    logging.info(
        "%s training examples, %s held-out examples, %s labels.",
        *(f"{len(part):,}" for part in (train, dev, labels)),
    )
    return examples, train, dev, labels


def _sample(examples: Sequence[Any], share: float, seed: int) -> Sequence[Any]:
    """A random share of the examples, at least one, in their order."""
    count = max(1, round(share * len(examples)))
    indices = np.random.default_rng(seed).permutation(len(examples))[:count]
    return [examples[index] for index in sorted(indices.tolist())]


def _saved_record(workdir: Path) -> dict[str, Any] | None:
    """The record in the state of a work directory, or None without a state."""
    path = workdir / STATE_FILE
    if not path.is_file():
        return None
    try:
        # NumPy does not close a damaged file.
        with open(path, "rb") as file, np.load(file) as saved:
            return json.loads(str(saved["record"]))
    except (zipfile.BadZipFile, EOFError, KeyError, ValueError) as error:
        raise ValueError(f"Cannot resume: {path} is damaged: {error}") from None


class _State:
    """The state after an epoch, from which a run resumes exactly: all variables that change.

    Keras' `BackupAndRestore` saves neither averages of weights nor dropout seeds, and after it
    `EarlyStopping` and `ModelCheckpoint` have forgotten the best epoch.
    """

    def __init__(self, workdir: Path, model: TaskModel, average: WeightAverage):
        self._path = workdir / STATE_FILE
        frozen = set()
        if model.elmo is not None and not model.elmo.trainable_bilm:
            frozen = {variable.value.ref() for variable in model.elmo.bilm.weights}
        variables = *model.variables, *model.optimizer.variables, *average.variables
        self._variables = [one for one in variables if one.value.ref() not in frozen]

    def save(self, record: dict[str, Any]) -> None:
        arrays = {str(index): np.asarray(one) for index, one in enumerate(self._variables)}
        with atomic_file(self._path) as part, open(part, "wb") as file:
            np.savez(file, **arrays, record=json.dumps(record))

    def restore(self) -> None:
        """Restores the state of a run with the same settings, data and biLM."""
        with np.load(self._path) as saved:
            for index, variable in enumerate(self._variables):
                variable.assign(saved[str(index)])


@dataclasses.dataclass(eq=False)
class _Epochs(keras.callbacks.Callback):
    """After each epoch: scores the model, keeps the best one, and saves the state of the run."""

    config: TaskConfig
    workdir: WorkDirectory
    task: Task
    average: WeightAverage
    dev: Batches
    dev_examples: Sequence[Any]
    state: _State
    record: dict[str, Any]

    def __post_init__(self):
        super().__init__()

    def on_epoch_begin(self, epoch, logs=None):
        self._meter = progress(self.params["steps"], f"epoch {epoch + 1}", "steps")
        self._started = time.monotonic()

    def on_train_batch_end(self, batch, logs=None):
        self.average.update(self.model.optimizer.iterations - 1)
        self._meter.set_postfix_str(f"loss {logs['loss']:.4f}", refresh=False)
        self._meter.update(1)

    def on_epoch_end(self, epoch, logs=None):
        seconds = round(time.monotonic() - self._started, 3)
        self._meter.close()
        epoch, loss = epoch + 1, float(logs["loss"])  # the mean of the epoch
        if not math.isfinite(loss):
            raise FloatingPointError(
                f"The loss is {loss} in epoch {epoch}: training has diverged. Lower the learning "
                "rate, and start again."
            )
        task, metric, record = self.task, self.task.metric_of(self.config), self.record
        with self.average.applied():
            predicted = predict_batches(task.predict, self.model, self.dev, self.dev_examples)
            scores = task.scores([task.gold(one) for one in self.dev_examples], predicted)
            entry = {"epoch": epoch, "loss": loss, "seconds": seconds, "dev": scores}
            record["epochs"].append(entry)
            best = record["best"] and record["epochs"][record["best"]["epoch"] - 1]
            if best is None or _rank(entry, metric) > _rank(best, metric):
                record["best"] = {"epoch": epoch, "score": scores[metric], "dev": scores}
                with atomic_file(self.workdir.path / MODEL_FILE) as part:
                    self.model.save(part)
        logging.info("Epoch %d: loss %.4f, %s %.4f.", epoch, loss, metric, scores[metric])
        self.workdir.log(entry)  # a killed run may repeat the epoch, which removes the line
        self.state.save(record)
        self.workdir.write(record)
        self.model.stop_training = _is_finished(self.config, record)


def _rank(epoch: Mapping[str, Any], metric: str) -> float:
    """The score; or if it is 0, as F1 often is in the first epochs, minus the loss."""
    return epoch["dev"][metric] or -epoch["loss"]


def _is_finished(config: TaskConfig, record: Mapping[str, Any]) -> bool:
    num_epochs, best = len(record["epochs"]), record["best"]
    if best is not None and num_epochs - best["epoch"] >= config.patience:
        logging.info("No better epoch for %d epochs: training ends.", config.patience)
        return True
    return num_epochs >= config.epochs


def _finish(workdir: WorkDirectory, metric: str, record: dict[str, Any]) -> dict[str, Any]:
    """Writes the final record, and logs the best epoch."""
    workdir.write(record)
    best = record["best"]
    logging.info("Epoch %d was the best: %s %.4f.", best["epoch"], metric, best["score"])
    if not best["score"]:
        logging.warning("Best %s is 0; train for more epochs.", {"f1": "F1"}.get(metric, metric))
    return record
