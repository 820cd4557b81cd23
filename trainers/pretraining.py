"""Pretrains a biLM: text and vocabulary ─► checkpoint directory.

`pretrain` is the recipe: `_prepare` reads and checks, `_build` makes the model and its optimizer,
`_restore` starts or resumes the run, and `_run` is the training loop. `steps` trains on one window,
`checkpointing` saves the state of the run.
"""

import contextlib
import dataclasses
import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras
import tensorflow as tf
from absl import logging

from elmo_tf.checkpoints.formats import OPTIONS_FILE
from elmo_tf.checkpoints.load import load_config
from elmo_tf.checkpoints.save import save_language_model
from elmo_tf.config import BiLMConfig, LexiconConfig
from elmo_tf.evaluation.perplexity import Perplexity
from elmo_tf.extras import require_extra
from elmo_tf.files import write_json
from elmo_tf.models.language_model import LanguageModel
from elmo_tf.precision import dtype_policy, usable_precision
from elmo_tf.text.corpus import (
    CorpusCount,
    count_corpus,
    prefetch,
    read_sentences,
    report_corpus,
    sentence_dataset,
    text_files,
    warn_of_unknown,
)
from elmo_tf.text.lexicon import CHARACTERS_FILE, Lexicon
from elmo_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from elmo_tf.text.windows import lm_windows
from elmo_tf.threads import share_cores_for_training
from elmo_tf.trainers.checkpointing import RunState, last_save
from elmo_tf.trainers.cluster import Cluster, cluster_from_environment
from elmo_tf.trainers.config import DEFAULT_EPOCHS, RECORD_FILE, PretrainConfig
from elmo_tf.trainers.finetuning import (
    InitialWeights,
    check_same_shape,
    check_workdir_hides_no_model,
)
from elmo_tf.trainers.interrupts import StopRequest
from elmo_tf.trainers.optimizers import learning_rate_schedule, optimizer_named
from elmo_tf.trainers.steps import TrainStep
from elmo_tf.trainers.training_logger import TrainingLogger
from elmo_tf.trainers.workdir import (
    BEST_FOLDER,
    begin_record,
    check_corpus,
    check_workdir,
    claimed_workdir,
    prepare_workdir,
)

# With fewer distinct tokens, the corpus is of a closed alphabet, such as characters or amino acids.
_CLOSED_TYPES = 1_000
# The signal that each worker sends with a step; larger values are numbers of stop signals.
_NO_SIGNAL, _SAVE = 0, 1


def pretrain(config: PretrainConfig) -> dict[str, Any]:
    """Trains a biLM and writes a checkpoint directory.

    `config.workdir` gets `options.json`, `weights.hdf5`, `vocab.txt` and `softmax.hdf5` at every
    save, also `char.dic` and `word.dic` if the options have a lexicon; `best/` with the same files
    at the lowest held-out perplexity; `training.json` with the settings, the corpus size and all
    perplexities; `log.jsonl` with one object per step; and `state/`, from which `resume` continues.

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
            vocabulary, a run is resumed with other settings or text, TensorFlow cannot write to
            the name of `workdir`, or TF_CONFIG is wrong.
        FloatingPointError: the loss or the gradient norm is not finite.
        ConnectionError: another worker has stopped.
        OSError: a file cannot be read or written.
    """
    if config.tensorboard:
        require_extra("tensorboard", "tensorboard", "Writing for TensorBoard")
    vocabulary = Vocabulary.load(config.vocab)
    files, valid_files = text_files(config.corpus), text_files(config.valid)
    shape = _shape(config, len(vocabulary))
    # Before TensorFlow computes anything.
    share_cores_for_training(shape.lstm.dim)
    cluster = cluster_from_environment(config.batch_size, config.accumulate)
    config = dataclasses.replace(config, precision=usable_precision(config.precision))
    with cluster.reporting_lost_workers(), contextlib.ExitStack() as stack:
        inputs = _prepare(config, cluster, shape, vocabulary, files, valid_files)
        train_step, schedule = _build(config, cluster, inputs)
        inputs = inputs._replace(initial_weights=None)  # frees its memory
        windows = iter(training_windows(files, config.batch_size, config.unroll, config.seed))
        if cluster.is_chief:
            stack.enter_context(claimed_workdir(Path(config.workdir)))
        state = RunState(Path(config.workdir), train_step, windows, cluster)
        record = _restore(config, cluster, inputs, state)
        results = _Results(config, train_step, record, cluster.is_chief, valid_files)
        stop = stack.enter_context(StopRequest())
        logger = stack.enter_context(
            TrainingLogger(config, schedule, inputs.num_steps, record["step"], cluster.is_chief)
        )
        _run(config, inputs.num_steps, windows, state, results, stop, logger)
    return record


def _shape(config: PretrainConfig, num_tokens: int) -> BiLMConfig:
    """The shape of the biLM: that of the checkpoint it starts from, or else of the settings."""
    if config.start_from is None:
        return config.bilm_config(num_tokens)
    check_workdir_hides_no_model(config.start_from, config.workdir)
    if _resumes(config):  # without the checkpoint, which may have been removed
        return BiLMConfig.from_options(Path(config.workdir, OPTIONS_FILE))
    shape = load_config(config.start_from)
    if shape.char_cnn is None or shape.num_tokens is not None:
        shape = dataclasses.replace(shape, num_tokens=num_tokens)
    return shape


class _Inputs(NamedTuple):
    """What a run reads: the text and its counts, and what the model is made from."""

    vocabulary: Vocabulary
    shape: BiLMConfig
    lexicon: Lexicon | None
    initial_weights: InitialWeights | None
    corpus: dict[str, Any]
    num_steps: int


def _prepare(
    config: PretrainConfig,
    cluster: Cluster,
    shape: BiLMConfig,
    vocabulary: Vocabulary,
    files: list[Path],
    valid_files: list[Path],
) -> _Inputs:
    """Reads and checks everything, before the work directory changes."""
    workdir = Path(config.workdir)
    initial_weights = None
    if config.start_from is not None:
        if config.preset or config.options is not None:
            check_same_shape(shape, config.bilm_config(len(vocabulary)), config.start_from)
        if not _resumes(config):
            initial_weights = InitialWeights(config.start_from)
    lexicon = initial_weights.lexicon if initial_weights else None
    if lexicon is None and shape.char_cnn is not None and shape.char_cnn.lexicon is not None:
        lexicon, shape = _new_lexicon(config, shape, vocabulary, files)
    if cluster.is_chief:
        check_workdir(workdir, config, shape, vocabulary)
    count = count_corpus(files, vocabulary)
    report_corpus(count)
    _check_corpus_size(count, config.batch_size, config.unroll)
    corpus = {**count._asdict(), "bytes": [file.stat().st_size for file in files]}
    if cluster.is_chief:
        check_corpus(workdir, config, corpus)
        if valid_files:
            count_corpus(valid_files, vocabulary)  # fails if the text cannot be read
    steps_per_epoch = count.targets / (config.batch_size * config.unroll)
    epochs = config.epochs or DEFAULT_EPOCHS
    num_steps = config.steps or max(1, round(epochs * steps_per_epoch))
    return _Inputs(vocabulary, shape, lexicon, initial_weights, corpus, num_steps)


def _build(config: PretrainConfig, cluster: Cluster, inputs: _Inputs) -> tuple[TrainStep, Any]:
    """Builds the model and its optimizer; returns the training step and the schedule."""
    schedule = learning_rate_schedule(
        config.schedule, config.learning_rate, config.warmup_steps, inputs.num_steps
    )
    keras.utils.set_random_seed(config.seed)
    with cluster.strategy.scope(), dtype_policy(config.precision):
        model = LanguageModel.create(
            inputs.shape, inputs.vocabulary, config.num_sampled, inputs.lexicon
        )
        if inputs.initial_weights is not None:
            inputs.initial_weights.assign_to(model)
        train_step = TrainStep(
            model,
            optimizer_named(config.optimizer, schedule, config.weight_decay),
            num_rows=config.batch_size,
            dropout=config.dropout,
            clip_norm=config.clip_norm,
            seed=config.seed,
            num_parts=config.accumulate,
            ema=config.ema,
            cluster=cluster,
        )
    return train_step, schedule


def training_windows(
    files: Sequence[Path], num_rows: int, window: int, seed: int
) -> tf.data.Dataset:
    """Windows of the corpus without end; each pass reads the sentences in another order.

    Args:
        files: text files.
        num_rows: int >= 1. Batch rows.
        window: int >= 1. Tokens of each row in a window.
        seed: int. Determines the order.

    Returns:
        See `lm_windows`. `tf.train.Checkpoint` can save its iterator.
    """
    sentences = sentence_dataset(files, seed)
    return prefetch(lm_windows(sentences.repeat(), num_rows, window), 4)


def _restore(
    config: PretrainConfig, cluster: Cluster, inputs: _Inputs, state: RunState
) -> dict[str, Any]:
    """Starts the run in its work directory, or resumes it; returns its record."""
    workdir = Path(config.workdir)
    if cluster.is_chief:
        # Checked again, because another run may have ended in the meantime.
        check_workdir(workdir, config, inputs.shape, inputs.vocabulary)
        prepare_workdir(workdir, config, inputs.shape, inputs.vocabulary, inputs.lexicon)
    done = state.restore() if config.resume else 0
    if cluster.is_chief:
        return begin_record(workdir, config, inputs.shape, inputs.corpus, done)
    return {"step": done, "perplexity": []}


def _run(
    config: PretrainConfig,
    num_steps: int,
    windows: Iterator[dict[str, tf.Tensor]],
    state: RunState,
    results: "_Results",
    stop: StopRequest,
    logger: TrainingLogger,
) -> None:
    """The training loop. Evaluates and saves; ends the process after a stop signal."""
    train_step, record = state.train_step, results.record
    is_alone = train_step.cluster.num_workers == 1
    eval_every = config.eval_every or math.ceil(num_steps / 10)
    save_seconds = math.inf if config.save_minutes is None else 60 * config.save_minutes
    done = record["step"]
    if done in (0, num_steps) or done % eval_every == 0:
        results.evaluate(done, logger, stop)  # unless it was evaluated before the resume
    if done >= num_steps:
        path = config.workdir
        logging.info("%s is at step %d already: there is nothing left to train.", path, done)
        results.write()
        if stop.signal and not results.is_evaluated(done):
            stop.end(stop.signal)
    saved_at = time.monotonic()
    for step in range(done + 1, num_steps + 1):
        window = next(windows)  # strings (direction, row, token)
        save_is_due = time.monotonic() - saved_at >= save_seconds
        signal = stop.signal or (_SAVE if save_is_due else _NO_SIGNAL)
        outputs = train_step(window["inputs"], window["targets"], signal)
        losses = {name: float(value) for name, value in outputs.items()}
        signal = int(losses.pop("signal"))  # the largest of all workers
        is_skipped = losses.pop("skipped")
        logger.step(step, losses, train_step)
        _check_finite(step, losses)
        if is_skipped:
            logging.warning(
                "Step %d: the gradient is ignored, because its norm, %.0f, is more than 10 times "
                "the usual norm. If this happens often, lower the learning rate.",
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
            saved_at = time.monotonic()
        if signal > _SAVE and (step < num_steps or not results.is_evaluated(step)):
            logging.info("Saved and stopped at step %d. Add --resume to continue.", step)
            stop.end(signal)


class _Results:
    """The weights, the best weights and the record of a run. Only the chief writes them.

    With a moving average of the weights, the averages are evaluated and written.
    """

    def __init__(
        self,
        config: PretrainConfig,
        train_step: TrainStep,
        record: dict[str, Any],
        is_chief: bool,
        valid_files: list[Path],
    ):
        self._workdir = Path(config.workdir)
        self._model = train_step.model
        self._average = train_step.average
        self.record = record
        self._is_chief = is_chief
        self._perplexity = (
            Perplexity(self._model, valid_files) if valid_files and is_chief else None
        )
        if self._perplexity is not None:
            history = record["perplexity"]
            record["perplexity"] = [one for one in history if self._perplexity.is_of_text(one)]
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
            result = None
            with stop.interruptible():
                result = self._perplexity(shown=False)
            if result is None:
                return
            logger.evaluation(step, result)
            history = self.record["perplexity"]
            is_best = result["average"] < min((one["average"] for one in history), default=math.inf)
            history.append({"step": step, **result})
            if is_best:
                save_language_model(self._model, self._workdir / BEST_FOLDER)
        write_json(self._workdir / RECORD_FILE, self.record)

    def is_evaluated(self, step: int) -> bool:
        """Whether the held-out perplexity at a step is known, or there is no held-out text."""
        history = self.record["perplexity"]
        return self._perplexity is None or any(one["step"] == step for one in history)

    def write(self) -> None:
        """Writes the weights and the record."""
        if self._is_chief:
            with self._average.applied():
                save_language_model(self._model, self._workdir)
            write_json(self._workdir / RECORD_FILE, self.record)


def _resumes(config: PretrainConfig) -> bool:
    return config.resume and last_save(Path(config.workdir)) is not None


def _new_lexicon(
    config: PretrainConfig, shape: BiLMConfig, vocabulary: Vocabulary, files: list[Path]
) -> tuple[Lexicon, BiLMConfig]:
    """The lexicon of a run, and the shape of its biLM with the sizes of the lexicon.

    It is that of the work directory, if there is one, or else built from the text and vocabulary.
    """
    char_cnn = shape.char_cnn
    has_words = char_cnn.lexicon.num_words > 0
    is_given = Path(config.workdir, CHARACTERS_FILE).exists() and not config.overwrite
    if is_given or _resumes(config):
        lexicon = Lexicon.load(config.workdir, has_words)
    else:
        words = vocabulary.tokens[len(SPECIAL_TOKENS) :] if has_words else None
        lexicon = Lexicon.build(read_sentences(files), words, char_cnn.max_chars)
        logging.info("Built a %r from the training text.", lexicon)
    sizes = LexiconConfig(lexicon.num_characters, lexicon.num_words, char_cnn.lexicon.word_dim)
    char_cnn = dataclasses.replace(char_cnn, lexicon=sizes)
    return lexicon, dataclasses.replace(shape, char_cnn=char_cnn)


def _check_corpus_size(count: CorpusCount, batch_size: int, unroll: int) -> None:
    if count.targets < batch_size * unroll:
        raise ValueError(
            f"The corpus has {count.targets} tokens, sentence ends included: too few for one step "
            f"of batch_size {batch_size} by unroll {unroll}. Lower them."
        )
    warn_of_unknown(
        count,
        " of the training text",
        "the model does not learn these words, and its perplexity is misleadingly low. Build the "
        "vocabulary from this text, or with a larger --max-size.",
    )
    if count.unknown == 0 and count.types >= _CLOSED_TYPES:
        logging.warning(
            "The vocabulary holds every token of the corpus, so <UNK> is never learned and unknown "
            "words of other text get far too low probabilities. Build the vocabulary with "
            "--min-count 2 or --max-size."
        )


def _check_finite(step: int, losses: dict[str, float]) -> None:
    for name, value in (("loss", losses["loss"]), ("gradient norm", losses["norm"])):
        if not math.isfinite(value):
            raise FloatingPointError(
                f"The {name} is {value} at step {step}: training has diverged. Lower the learning "
                "rate, and start again or resume from the last save."
            )
