"""Pretrains a biLM: text and vocabulary ─► checkpoint directory.

`_pretrain` is the recipe: it checks the work directory and the text, builds the model, optimizer
and text stream, restores a save if the run is resumed, and runs the training loop. `streams` cuts
the text into windows, `steps` trains on one window, `checkpointing` saves the state of the run.
"""

import contextlib
import dataclasses
import math
import time
from pathlib import Path
from typing import Any

import keras
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
    read_sentences,
    report_corpus,
    text_files,
    warn_of_unknown,
)
from elmo_tf.text.lexicon import CHARACTERS_FILE, Lexicon
from elmo_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from elmo_tf.trainers.checkpointing import RunState, last_save
from elmo_tf.trainers.cluster import Cluster, cluster_from_environment
from elmo_tf.trainers.config import DEFAULT_EPOCHS, RECORD_FILE, PretrainConfig
from elmo_tf.trainers.finetuning import (
    InitialWeights,
    check_same_shape,
    check_workdir_hides_no_model,
)
from elmo_tf.trainers.interrupts import StopRequest
from elmo_tf.trainers.optimizers import optimizer_named
from elmo_tf.trainers.schedules import learning_rate_schedule
from elmo_tf.trainers.steps import TrainStep
from elmo_tf.trainers.streams import training_windows
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
# The message that each worker sends with a step; larger values are numbers of received signals.
_NO_REQUEST, _SAVE = 0, 1


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
    # Before TensorFlow computes anything.
    cluster = cluster_from_environment(config.batch_size, config.accumulate)
    config = dataclasses.replace(config, precision=usable_precision(config.precision))
    with cluster.reporting_lost_workers():
        return _pretrain(config, cluster, vocabulary, files, valid_files)


def bilm_shape(config: PretrainConfig, num_tokens: int) -> BiLMConfig:
    """The shape of a run's biLM: that of the checkpoint it starts from, or else of its settings.

    Args:
        config: the settings of the run.
        num_tokens: int >= 1. Size of the vocabulary.

    Raises:
        FileNotFoundError: the checkpoint is missing.
        ValueError: the options are wrong, or `workdir` hides the named model to start from.
    """
    if config.start_from is None:
        return config.bilm_config(num_tokens)
    check_workdir_hides_no_model(config.start_from, config.workdir)
    if _resumes(config):  # without the checkpoint, which may have been removed
        shape = BiLMConfig.from_options(Path(config.workdir, OPTIONS_FILE))
    else:
        shape = load_config(config.start_from)
        if shape.char_cnn is None or shape.num_tokens is not None:
            shape = dataclasses.replace(shape, num_tokens=num_tokens)
    return shape


def _pretrain(
    config: PretrainConfig,
    cluster: Cluster,
    vocabulary: Vocabulary,
    files: list[Path],
    valid_files: list[Path],
) -> dict[str, Any]:
    workdir = Path(config.workdir)

    # Read and check everything before the work directory changes.
    shape = bilm_shape(config, len(vocabulary))
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
    corpus = {**count._asdict(), "bytes": [file.stat().st_size for file in files]}
    tokens_per_step = config.batch_size * config.unroll
    _check_corpus_size(count, config.batch_size, config.unroll)
    if cluster.is_chief:
        check_corpus(workdir, config, corpus)
        if valid_files:
            count_corpus(valid_files, vocabulary)  # fails if the text cannot be read

    # Build the model, its optimizer and the text stream.
    epochs = config.epochs or DEFAULT_EPOCHS
    num_steps = config.steps or max(1, round(epochs * count.targets / tokens_per_step))
    schedule = learning_rate_schedule(
        config.schedule, config.learning_rate, config.warmup_steps, num_steps
    )
    keras.utils.set_random_seed(config.seed)
    with cluster.strategy.scope(), dtype_policy(config.precision):
        model = LanguageModel.create(shape, vocabulary, config.num_sampled, lexicon)
        if initial_weights is not None:
            initial_weights.assign_to(model)
        del initial_weights  # frees its memory
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
    windows = iter(training_windows(files, config.batch_size, config.unroll, config.seed))

    with contextlib.ExitStack() as stack:
        # Start the run, or resume it from its last save.
        record = {"step": 0, "perplexity": []}
        if cluster.is_chief:
            stack.enter_context(claimed_workdir(workdir))
            check_workdir(workdir, config, shape, vocabulary)  # another run may have ended
            prepare_workdir(workdir, config, shape, vocabulary, lexicon)
        state = RunState(workdir, train_step, windows, cluster)
        done = record["step"] = state.restore() if config.resume else 0
        if cluster.is_chief:
            record = begin_record(workdir, config, shape, corpus, done)
        results = _Results(workdir, train_step, record, cluster.is_chief, valid_files)
        # Train.
        eval_every = config.eval_every or math.ceil(num_steps / 10)
        save_seconds = math.inf if config.save_minutes is None else 60 * config.save_minutes
        stop = stack.enter_context(StopRequest())
        logger = stack.enter_context(
            TrainingLogger(config, schedule, num_steps, done, cluster.is_chief)
        )
        if done in (0, num_steps) or done % eval_every == 0:
            results.evaluate(done, logger, stop)  # unless it was evaluated before the resume
        if done >= num_steps:
            logging.info("%s is at step %d already: there is nothing left to train.", workdir, done)
            results.write()
            if stop.received and not results.is_evaluated(done):
                stop.end(stop.received)
        saved_at = time.monotonic()
        for step in range(done + 1, num_steps + 1):
            window = next(windows)  # strings (direction, row, token)
            save_is_due = time.monotonic() - saved_at >= save_seconds
            request = stop.received or (_SAVE if save_is_due else _NO_REQUEST)
            outputs = train_step(window["inputs"], window["targets"], request)
            losses = {name: float(value) for name, value in outputs.items()}
            request = int(losses.pop("signal"))  # the largest of all workers
            is_skipped = losses.pop("skipped")
            logger.step(step, losses, train_step)
            _check_finite(step, losses)
            if is_skipped:
                logging.warning(
                    "Step %d: the gradient is ignored, because its norm, %.0f, is more than 10 "
                    "times the usual norm. If this happens often, lower the learning rate.",
                    step,
                    losses["norm"],
                )
            record.update(step=step, loss=losses["loss"])
            if step == num_steps or step % eval_every == 0:
                results.evaluate(step, logger, stop)
                # Several workers must agree, in the next step.
                if cluster.num_workers == 1 or step == num_steps:
                    request = max(request, stop.received)
            if step == num_steps or step % config.save_every == 0 or request:
                state.save()
                results.write()
                saved_at = time.monotonic()
            if request > _SAVE and (step < num_steps or not results.is_evaluated(step)):
                logging.info("Saved and stopped at step %d. Add --resume to continue.", step)
                stop.end(request)
    return record


class _Results:
    """The weights, the best weights and the record of a run. Only the chief writes them.

    With a moving average of the weights, the averages are evaluated and written.
    """

    def __init__(
        self,
        workdir: Path,
        train_step: TrainStep,
        record: dict[str, Any],
        is_chief: bool,
        valid_files: list[Path],
    ):
        self._workdir = workdir
        self._model = train_step.model
        self._average = train_step.average
        self._record = record
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
        if self.is_evaluated(step) or stop.received:
            return
        with self._average.applied():
            result = None
            with stop.interruptible():
                result = self._perplexity(shown=False)
            if result is None:
                return
            logger.evaluation(step, result)
            history = self._record["perplexity"]
            is_best = result["average"] < min((one["average"] for one in history), default=math.inf)
            history.append({"step": step, **result})
            if is_best:
                save_language_model(self._model, self._workdir / BEST_FOLDER)
        write_json(self._workdir / RECORD_FILE, self._record)

    def is_evaluated(self, step: int) -> bool:
        """Whether the held-out perplexity at a step is known, or there is no held-out text."""
        history = self._record["perplexity"]
        return self._perplexity is None or any(one["step"] == step for one in history)

    def write(self) -> None:
        """Writes the weights and the record."""
        if self._is_chief:
            with self._average.applied():
                save_language_model(self._model, self._workdir)
            write_json(self._workdir / RECORD_FILE, self._record)


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
