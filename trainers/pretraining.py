"""Pretrains a biLM: text and vocabulary ─► checkpoint directory."""

import dataclasses
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
from absl import logging

from elmo_tf.checkpoints.load import OPTIONS_FILE
from elmo_tf.checkpoints.save import save_language_model, write_json
from elmo_tf.config import BiLMConfig
from elmo_tf.evaluation.perplexity import Perplexity
from elmo_tf.models.language_model import LanguageModel
from elmo_tf.precision import dtype_policy, usable_precision
from elmo_tf.text.corpus import CorpusCount, count_corpus, report_corpus, text_files
from elmo_tf.text.vocabulary import Vocabulary
from elmo_tf.trainers.checkpointing import RunState, last_save
from elmo_tf.trainers.cluster import Cluster, cluster_from_environment
from elmo_tf.trainers.config import DEFAULT_EPOCHS, RECORD_FILE, PretrainConfig
from elmo_tf.trainers.finetuning import (
    FirstWeights,
    check_same_shape,
    check_workdir_hides_no_model,
)
from elmo_tf.trainers.interrupts import StopRequest
from elmo_tf.trainers.optimizers import optimizer_named
from elmo_tf.trainers.schedules import learning_rate_schedule
from elmo_tf.trainers.steps import TrainStep
from elmo_tf.trainers.streams import training_windows
from elmo_tf.trainers.training_logger import TrainingLogger, check_tensorboard
from elmo_tf.trainers.workdir import (
    BEST_FOLDER,
    begin_record,
    check_corpus,
    check_workdir,
    prepare_workdir,
)

# What a worker tells the others with a step; above it, the number of a signal that it received.
_NOTHING, _SAVE = 0, 1


def pretrain(config: PretrainConfig) -> dict[str, Any]:
    """Trains a biLM, and leaves a checkpoint directory.

    `config.workdir` gets `options.json`, `weights.hdf5`, `vocab.txt` and `softmax.hdf5`, at every
    save; `best/`, the same at the lowest held-out perplexity; `training.json`, with the settings,
    the corpus's size and all perplexities; `log.jsonl`, one object a step, written at once; and
    `state/`, from which `resume` goes on.

    Trains on all replicas that TF_CONFIG and this machine's devices offer, see
    `cluster_from_environment`. Ctrl-C and SIGTERM save before they end the run, with
    `KeyboardInterrupt` and `SystemExit`. Sets the seeds of Python, NumPy and TensorFlow.

    Args:
        config: a `PretrainConfig`.

    Returns:
        What `training.json` holds. Workers other than the chief know of no perplexities.

    Raises:
        FileExistsError: `workdir` is in use, and neither `resume` nor `overwrite` is set.
        FileNotFoundError: a pattern matches no file, or there is no checkpoint to start from.
        ValueError: the text is empty or shorter than one step, the vocabulary is no vocabulary, a
            run is resumed with other settings or text, `workdir` has a name that TensorFlow cannot
            write to, or TF_CONFIG is wrong.
        FloatingPointError: the loss is no longer a number.
        ConnectionError: another worker has stopped.
        OSError: a file cannot be read or written.
    """
    if config.tensorboard:
        check_tensorboard()
    vocabulary = Vocabulary.load(config.vocab)
    files, valid = text_files(config.corpus), text_files(config.valid)
    cluster = cluster_from_environment(config.batch_size)  # before TensorFlow computes anything
    config = dataclasses.replace(config, precision=usable_precision(config.precision))
    with cluster.reporting_lost_workers():
        return _pretrain(config, cluster, vocabulary, files, valid)


def _pretrain(
    config: PretrainConfig,
    cluster: Cluster,
    vocabulary: Vocabulary,
    files: list[Path],
    valid: list[Path],
) -> dict[str, Any]:
    workdir = Path(config.workdir)
    shape, first_weights = _beginning(config, len(vocabulary))
    if cluster.is_chief:
        check_workdir(workdir, config, shape, vocabulary)
    count = count_corpus(files, vocabulary)
    report_corpus(count)
    corpus = {**count._asdict(), "bytes": [file.stat().st_size for file in files]}
    num_steps = _total_steps(config, count)
    schedule = learning_rate_schedule(
        config.schedule, config.learning_rate, config.warmup_steps, num_steps
    )
    if cluster.is_chief:
        check_corpus(workdir, config, corpus)
        if valid:
            count_corpus(valid, vocabulary)  # which refuses text that cannot be read

    keras.utils.set_random_seed(config.seed)
    train_step = _train_step(config, shape, vocabulary, schedule, cluster)
    if cluster.is_chief:
        prepare_workdir(workdir, config, shape, vocabulary)
    windows = iter(training_windows(files, config.batch_size, config.unroll, config.seed))
    state = RunState(workdir, train_step, windows, cluster)
    first = state.restore() if config.resume else 0
    if first_weights is not None:
        first_weights.initialize(train_step.model)
    del first_weights  # of which nothing is needed any more
    run = _Run(config, cluster, train_step, state, valid)
    run.begin(shape, corpus, first)
    if first >= num_steps:
        logging.info("%s is at step %d already: there is nothing left to train.", workdir, first)
        run.write_results()
        return run.record
    logger = TrainingLogger(
        workdir,
        schedule,
        num_steps,
        first,
        config.batch_size * config.unroll,
        cluster.is_chief,
        config.tensorboard,
        config.histograms_every,
    )
    with StopRequest() as stop, logger:
        run.train(windows, first, num_steps, logger, stop)
    return run.record


def _beginning(config: PretrainConfig, num_tokens: int) -> tuple[BiLMConfig, FirstWeights | None]:
    """The shape of the biLM, and the weights that a checkpoint gives it."""
    if config.start_from is None:
        return config.bilm_config(num_tokens), None
    check_workdir_hides_no_model(config.start_from, config.workdir)
    first_weights = None
    if config.resume and last_save(Path(config.workdir)) is not None:
        # A run that has begun needs the checkpoint it began with no more.
        shape = BiLMConfig.from_options(Path(config.workdir) / OPTIONS_FILE)
    else:
        first_weights = FirstWeights(config.start_from)
        shape = first_weights.bilm_config(num_tokens)
    if config.preset or config.options is not None:
        check_same_shape(shape, config.bilm_config(num_tokens), config.start_from)
    return shape, first_weights


def _train_step(
    config: PretrainConfig,
    shape: BiLMConfig,
    vocabulary: Vocabulary,
    schedule: keras.optimizers.schedules.LearningRateSchedule,
    cluster: Cluster,
) -> TrainStep:
    with cluster.strategy.scope(), dtype_policy(config.precision):
        return TrainStep(
            LanguageModel.create(shape, vocabulary, config.num_sampled),
            optimizer_named(config.optimizer, schedule, config.weight_decay),
            num_rows=config.batch_size,
            dropout=config.dropout,
            clip_norm=config.clip_norm,
            seed=config.seed,
            num_parts=config.accumulate,
            cluster=cluster,
        )


class _Run:
    """A run on its way: what it trains, and what it keeps in its work directory."""

    def __init__(
        self,
        config: PretrainConfig,
        cluster: Cluster,
        train_step: TrainStep,
        state: RunState,
        valid: list[Path],
    ):
        self._config = config
        self._cluster = cluster
        self._workdir = Path(config.workdir)
        self._train_step = train_step
        self._state = state
        self._evaluate = None
        if valid and cluster.is_chief:
            self._evaluate = Perplexity(train_step.model, valid)
        self.record: dict[str, Any] = {}

    def begin(self, shape: BiLMConfig, corpus: dict[str, Any], first: int) -> None:
        """Makes the record; that of the chief is written."""
        if self._cluster.is_chief:
            self.record = begin_record(self._workdir, self._config, shape, corpus, first)
        else:
            self.record = {"step": first, "perplexity": []}

    def train(
        self,
        windows: Iterator,
        first: int,
        num_steps: int,
        logger: TrainingLogger,
        stop: StopRequest,
    ) -> None:
        """Takes the steps that are left; evaluates and saves on the way and at the end."""
        config = self._config
        eval_every = config.eval_every or math.ceil(num_steps / 10)
        if first == 0:
            self._evaluate_held_out_text(0, logger, stop)
        saved_at = time.monotonic()
        for step in range(first + 1, num_steps + 1):
            signal, losses = self._take_step(windows, saved_at, stop)
            logger.step(step, losses, self._train_step)
            _check_finite(step, losses)
            self.record.update(step=step, loss=losses["loss"])
            if step == num_steps or step % eval_every == 0:
                self._evaluate_held_out_text(step, logger, stop)
                if self._cluster.num_workers == 1:
                    signal = max(signal, stop.received)
            if step == num_steps or step % config.save_every == 0 or signal:
                self.save()
                saved_at = time.monotonic()
            if signal > _SAVE and step < num_steps:
                logging.info(
                    "Stopped and saved at step %d. --resume (resume=True) continues.", step
                )
                stop.end(signal)

    def _take_step(
        self, windows: Iterator, saved_at: float, stop: StopRequest
    ) -> tuple[int, dict[str, float]]:
        """One step: what the workers agree on, and the losses and the norm."""
        minutes = self._config.save_minutes
        due = minutes is not None and time.monotonic() - saved_at >= 60 * minutes
        window = next(windows)
        results = self._train_step(
            window["inputs"], window["targets"], stop.received or (_SAVE if due else _NOTHING)
        )
        signal = int(results.pop("signal"))
        return signal, {name: float(value) for name, value in results.items()}

    def _evaluate_held_out_text(self, step: int, logger: TrainingLogger, stop: StopRequest) -> None:
        """Measures perplexity, if there is held-out text, and keeps the weights of the best."""
        if self._evaluate is None or stop.received:
            return
        result = None
        with stop.breaking():
            result = self._evaluate(shown=False)
        if result is None:
            return
        logger.evaluation(step, result)
        best = min((one["average"] for one in self.record["perplexity"]), default=math.inf)
        self.record["perplexity"].append({"step": step, **result})
        if result["average"] < best:
            save_language_model(self._train_step.model, self._workdir / BEST_FOLDER)
        write_json(self._workdir / RECORD_FILE, self.record)

    def save(self) -> None:
        """Saves the state, then the results."""
        self._state.save()
        self.write_results()

    def write_results(self) -> None:
        """Writes the weights and the record; the chief does."""
        if self._cluster.is_chief:
            save_language_model(self._train_step.model, self._workdir)
            write_json(self._workdir / RECORD_FILE, self.record)


def _check_finite(step: int, losses: dict[str, float]) -> None:
    """Refuses to save what such a step has made of the weights."""
    for name, value in (("loss", losses["loss"]), ("gradient's norm", losses["norm"])):
        if not math.isfinite(value):
            raise FloatingPointError(
                f"The {name} is {value} at step {step}: training has diverged. Lower the learning "
                "rate, and begin again or go on from the last save."
            )


def _total_steps(config: PretrainConfig, count: CorpusCount) -> int:
    tokens = config.batch_size * config.unroll
    if count.targets < tokens:
        raise ValueError(
            f"The corpus has {count.targets} tokens, sentence ends included: too few for one step "
            f"of batch_size {config.batch_size} by unroll {config.unroll}. Lower them."
        )
    if count.unknown == 0:
        logging.warning(
            "No token of the corpus is unknown to the vocabulary, so <UNK> is never learnt, and "
            "unknown words of other text will look absurdly improbable. Build the vocabulary with "
            "--min-count 2 or --max-size."
        )
    if config.steps is not None:
        return config.steps
    return max(1, round((config.epochs or DEFAULT_EPOCHS) * count.targets / tokens))
