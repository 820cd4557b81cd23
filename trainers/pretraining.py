"""Pretrains a biLM: text and vocabulary ─► checkpoint directory.

`pretrain` is the recipe: `inputs` reads and checks, `_build` makes the model and its optimizer,
`_begin` starts or resumes the run, and `_run` is the training loop. `steps` trains on one window,
`checkpointing` saves the state of the run.
"""

import contextlib
import dataclasses
import math
from pathlib import Path
from typing import Any

import keras
from absl import logging

from elmo_tf.checkpoints.formats import OPTIONS_FILE, VOCABULARY_FILE, WEIGHTS_FILE
from elmo_tf.checkpoints.published import FILES, save_language_model
from elmo_tf.evaluation.perplexity import Perplexity
from elmo_tf.files import refuse_pattern, write_json
from elmo_tf.logs import progress
from elmo_tf.models.language_model import LanguageModel
from elmo_tf.processors import share_cores_for_training, usable_precision
from elmo_tf.settings import read_record
from elmo_tf.text.corpus import line_dataset, plain_files
from elmo_tf.text.lexicon import CHARACTERS_FILE, WORDS_FILE
from elmo_tf.text.reading import text_files
from elmo_tf.text.windows import LMWindows
from elmo_tf.trainers.checkpointing import STATE_FOLDER, RunState, StopRequest, last_save
from elmo_tf.trainers.cluster import Cluster, cluster_from_environment
from elmo_tf.trainers.config import RECORD_FILE, PretrainConfig
from elmo_tf.trainers.inputs import (
    Inputs,
    copy_weights,
    initial_model,
    initial_shape,
    initial_vocabulary,
    read_inputs,
)
from elmo_tf.trainers.optimizers import Adagrad, AdamW, learning_rate_schedule
from elmo_tf.trainers.steps import TrainStep
from elmo_tf.trainers.training_log import TrainingLogger
from elmo_tf.trainers.workdir import WorkDirectory

BEST_FOLDER = "best"
_TEXT_FOLDER = "text"  # the corpus as text, if it is in another format
# What the work directory may hold before the run, which keeps or replaces it.
_INPUTS = {VOCABULARY_FILE, CHARACTERS_FILE, WORDS_FILE, _TEXT_FOLDER}
_RESULTS = {*FILES, _TEXT_FOLDER, STATE_FOLDER, BEST_FOLDER}


def pretrain(config: PretrainConfig) -> dict[str, Any]:
    """Trains a biLM and writes a checkpoint directory.

    `config.workdir` gets `options.json`, `weights.hdf5`, `vocab.txt` and `softmax.hdf5` at every
    save, also `token_embeddings.hdf5` with `word_input`, and `char.dic` and `word.dic` if the
    options have a lexicon; `best/` with the same files at the lowest held-out perplexity;
    `training.json` with the settings, the corpus size and all perplexities; `log.jsonl` with one
    object per step; and `state/`, from which `resume` continues.

    Trains on all replicas that TF_CONFIG and the devices of this machine provide, see
    `cluster_from_environment`. Ctrl-C and SIGTERM save before they end the run with
    `KeyboardInterrupt` and `SystemExit`. Sets the seeds of Python, NumPy and TensorFlow.

    Args:
        config: the settings of the run.

    Returns:
        The content of `training.json`. Workers other than the chief have no perplexities.

    Raises:
        FileExistsError: `workdir` is in use, and neither `resume` nor `overwrite` is set; or
            another process trains in it.
        FileNotFoundError: a pattern matches no file, or the checkpoint to start from is missing.
        ValueError: the text is empty or shorter than one step, the vocabulary file is not a
            vocabulary, a run is resumed with other settings or text (without `new_corpus`),
            TensorFlow cannot write to the name of `workdir`, or TF_CONFIG is wrong.
        FloatingPointError: the loss or the gradient norm is not finite.
        ConnectionError: another worker has stopped.
        OSError: a file cannot be read or written.

    Example:
        >>> files = {"corpus": ["text.txt"], "workdir": "run"}
        >>> config = elmo_tf.trainers.PretrainConfig(**files, preset="tiny", steps=2, batch_size=2)
        >>> record = elmo_tf.trainers.pretrain(config)
        >>> vectors = elmo_tf.Embedder("run").encode(["The bank raised its rates ."])
    """
    refuse_pattern(config.workdir)
    workdir = WorkDirectory(config, _RESULTS, WEIGHTS_FILE, _saved_record, "step", _INPUTS)
    files, valid_files = text_files(config.corpus), text_files(config.valid)
    vocabulary, text = initial_vocabulary(config, workdir, files)
    shape = initial_shape(config, workdir, len(vocabulary), files)
    # Before TensorFlow computes anything.
    share_cores_for_training(shape.lstm.dim)
    cluster = cluster_from_environment(config.batch_size)
    config = dataclasses.replace(config, precision=usable_precision(config.precision))
    with cluster.reporting_lost_workers(), contextlib.ExitStack() as stack:
        inputs = read_inputs(config, workdir, shape, vocabulary, text, files, valid_files)
        config = dataclasses.replace(config, learning_rate=inputs.learning_rate)
        schedule = learning_rate_schedule(
            config.schedule, config.learning_rate, config.warmup_steps, inputs.num_steps
        )
        train_step = _build(config, workdir, cluster, inputs, schedule)
        stack.enter_context(workdir.locked(cluster.is_chief))
        files = plain_files(files, workdir.path / _TEXT_FOLDER, config.input_format)
        # Each pass reads the lines in another order.
        lines = line_dataset(files, config.seed).repeat()
        rows = cluster.rows(config.batch_size)
        windows = LMWindows(lines, config.batch_size, config.unroll, rows=rows)
        state = RunState(workdir.path, train_step, windows)
        record = _begin(config, workdir, inputs, state)
        results = _Results(config, workdir, train_step, record, valid_files)
        stop = stack.enter_context(StopRequest())
        window = config.batch_size * config.unroll
        total, done = inputs.num_steps * window, record["step"] * window
        meter = stack.enter_context(progress(total, "training", "tokens", done, cluster.is_chief))
        logger = TrainingLogger(config, workdir, schedule, inputs.num_steps, meter)
        _run(config, inputs.num_steps, windows, state, results, stop, logger)
    return record


def _saved_record(workdir: Path) -> dict[str, Any] | None:
    save = last_save(workdir)
    if save is None:
        return None
    return read_record(workdir / RECORD_FILE) | {"saved_step": int(save.name.removeprefix("step-"))}


def _build(
    config: PretrainConfig, workdir: WorkDirectory, cluster: Cluster, inputs: Inputs, schedule: Any
) -> TrainStep:
    """Builds the model and its optimizer."""
    source = initial_model(config, workdir)
    bilm = source.bilm if isinstance(source, LanguageModel) else source
    lexicon = inputs.lexicon if bilm is None else bilm.lexicon
    keras.utils.set_random_seed(config.seed)
    with cluster.strategy.scope():
        parts = inputs.vocabulary, config.num_sampled, lexicon, config.precision
        model = LanguageModel.create(inputs.shape, *parts)
        if source is not None:
            copy_weights(source, model, config.start_from)
        is_adagrad = config.optimizer == "adagrad"
        return TrainStep(
            model,
            Adagrad(schedule) if is_adagrad else AdamW(schedule, config.weight_decay),
            num_rows=config.batch_size,
            dropout=config.dropout,
            clip_norm=config.clip_norm,
            seed=config.seed,
            reset_states=config.reset_states,
            ema=config.ema,
            cluster=cluster,
        )


def _begin(
    config: PretrainConfig, workdir: WorkDirectory, inputs: Inputs, state: RunState
) -> dict[str, Any]:
    """Starts the run in its work directory, or resumes it; returns its record."""
    before = workdir.before or {"perplexity": []}
    done = state.restore(inputs.corpus["first_step"]) if config.resume else 0
    record = {
        "settings": config.as_json(options=inputs.shape.to_options(), new_corpus=False),
        "corpus": inputs.corpus,
        "earlier_corpora": inputs.earlier_corpora,
        "step": done,
        "perplexity": [old for old in before["perplexity"] if old["step"] <= done],
    }
    # If the run was killed right after the save, the loss of that step was not recorded.
    if before.get("step") == done and "loss" in before:
        record["loss"] = before["loss"]
    workdir.begin(record, done)
    if state.train_step.cluster.is_chief:
        model = state.train_step.model
        write_json(workdir.path / OPTIONS_FILE, model.bilm.config.to_options())
        model.vocabulary.save(workdir.path / VOCABULARY_FILE)
        if model.bilm.lexicon is not None:
            model.bilm.lexicon.save(workdir.path)
    return record


def _run(
    config: PretrainConfig,
    num_steps: int,
    windows: LMWindows,
    state: RunState,
    results: "_Results",
    stop: StopRequest,
    logger: TrainingLogger,
) -> None:
    """The training loop. Evaluates and saves; ends the process after a stop signal."""
    train_step, record = state.train_step, results.record
    is_alone = train_step.cluster.num_workers == 1
    eval_every = config.eval_every or math.ceil(num_steps / 10)
    done = record["step"]
    if done in (0, num_steps) or done % eval_every == 0:
        results.evaluate(done, logger, stop)  # unless it was evaluated before the resume
    if done >= num_steps:
        path = config.workdir
        logging.info("%s is at step %d already: there is nothing left to train.", path, done)
        results.write()
        if stop.signal and not results.is_evaluated(done):
            stop.end(stop.signal)
    for step in range(done + 1, num_steps + 1):
        window = next(windows)  # strings (direction, row, token)
        outputs = train_step(window["inputs"], window["targets"], stop.signal)
        losses = {name: float(value) for name, value in outputs.items()}
        signal = int(losses.pop("signal"))  # the largest of all workers
        is_skipped = losses.pop("skipped")
        logger.step(step, losses)
        for name in ("loss", "norm"):
            if not math.isfinite(losses[name]):
                raise FloatingPointError(
                    f"The {'gradient ' * (name == 'norm')}{name} is {losses[name]} at step {step}: "
                    "training has diverged. Lower the learning rate, and start again or resume "
                    "from the last save."
                )
        if is_skipped:
            logging.warning(
                "Step %d: the gradient is ignored, because its norm, %.0f, is more than 10 times "
                "the running mean of the norms. If this happens often, lower the learning rate.",
                *(step, losses["norm"]),
            )
        record.update(step=step, loss=losses["loss"])
        if step == num_steps or step % eval_every == 0:
            results.evaluate(step, logger, stop)
            if is_alone or step == num_steps:  # several workers must agree, in the next step
                signal = max(signal, stop.signal)
        if step == num_steps or step % config.save_every == 0 or signal:
            state.save()
            results.write()
        if signal and (step < num_steps or not results.is_evaluated(step)):
            logging.info("Saved and stopped at step %d. Add --resume to continue.", step)
            stop.end(signal)


class _Results:
    """The weights, the best weights and the record of a run. Only the chief writes them.

    With a moving average of the weights, the averages are evaluated and written.
    """

    def __init__(
        self,
        config: PretrainConfig,
        workdir: WorkDirectory,
        train_step: TrainStep,
        record: dict[str, Any],
        valid_files: list[Path],
    ):
        self._workdir = workdir
        self._model = train_step.model
        self._average = train_step.average
        self.record = record
        self._is_chief = train_step.cluster.is_chief
        self._perplexity = None
        if valid_files and self._is_chief:
            self._perplexity = Perplexity(self._model, valid_files, config.input_format)
            history = record["perplexity"]
            record["perplexity"] = [old for old in history if self._perplexity.is_of_text(old)]
            if len(record["perplexity"]) < len(history):
                logging.warning(
                    "The held-out text has changed: perplexities of the earlier one are dropped, "
                    "and the best weights are chosen again."
                )

    def evaluate(self, step: int, logger: TrainingLogger, stop: StopRequest) -> None:
        """Measures the held-out perplexity, if it is not known, and keeps the best weights.

        A signal ends the evaluation without a result.
        """
        if self.is_evaluated(step) or stop.signal:
            return
        with self._average.applied():
            result = self._perplexity(shown=False, is_stopped=lambda: stop.signal > 0)
            if result is None:
                return
            logger.evaluation(step, result)
            history = self.record["perplexity"]
            # In the record, infinity is None.
            known = (old["average"] for old in history if old["average"] is not None)
            is_best = result["average"] < min(known, default=math.inf)
            history.append({"step": step, **result})
            if is_best:
                save_language_model(self._model, self._workdir.path / BEST_FOLDER)
        self._workdir.write(self.record)

    def is_evaluated(self, step: int) -> bool:
        """Whether the held-out perplexity at a step is known, or there is no held-out text."""
        history = self.record["perplexity"]
        return self._perplexity is None or any(old["step"] == step for old in history)

    def write(self) -> None:
        """Writes the weights and the record."""
        if self._is_chief:
            with self._average.applied():
                save_language_model(self._model, self._workdir.path)
            self._workdir.write(self.record)
