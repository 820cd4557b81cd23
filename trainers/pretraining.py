"""Pretrains a biLM: text and vocabulary ─► checkpoint directory."""

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
from absl import logging

from elmo_tf.checkpoints.save import save_bilm, save_softmax, write_json
from elmo_tf.evaluation.perplexity import Perplexity
from elmo_tf.layers.sampled_softmax import SampledSoftmax
from elmo_tf.models.bilm import BiLM
from elmo_tf.models.language_model import LanguageModel
from elmo_tf.progress import progress
from elmo_tf.text.corpus import CorpusCount, count_corpus, text_files
from elmo_tf.text.vocabulary import Vocabulary
from elmo_tf.trainers.checkpointing import RunState
from elmo_tf.trainers.config import DEFAULT_EPOCHS, PretrainConfig
from elmo_tf.trainers.optimizers import Adagrad
from elmo_tf.trainers.steps import TrainStep
from elmo_tf.trainers.streams import training_windows
from elmo_tf.trainers.workdir import (
    LOG_FILE,
    RECORD_FILE,
    begin_record,
    check_corpus,
    check_workdir,
    prepare_workdir,
)

# How much of the loss's past the progress line averages over, as a weight of each new step.
_SMOOTHING = 0.02


def pretrain(config: PretrainConfig) -> dict[str, Any]:
    """Trains a biLM, and leaves a checkpoint directory.

    `config.workdir` gets `options.json`, `weights.hdf5`, `vocab.txt` and `softmax.hdf5`, at every
    save; `training.json`, with the settings, the corpus's size and all perplexities; `log.jsonl`,
    one object a step, written at once; and `state/`, from which `resume` goes on.

    Sets the seeds of Python, NumPy and TensorFlow.

    Args:
        config: a `PretrainConfig`.

    Returns:
        What `training.json` holds.

    Raises:
        FileExistsError: `workdir` is in use, and neither `resume` nor `overwrite` is set.
        FileNotFoundError: a pattern matches no file.
        ValueError: the text is empty or shorter than one step, the vocabulary is no vocabulary, a
            run is resumed with other settings or text, `workdir` has a name that TensorFlow cannot
            write to, or TF_CONFIG names several workers.
        FloatingPointError: the loss is no longer a number.
        OSError: a file cannot be read or written.
    """
    bilm_config = config.bilm_config()
    vocabulary = Vocabulary.load(config.vocab)
    files, valid = text_files(config.corpus), text_files(config.valid)
    _refuse_several_workers()
    workdir = Path(config.workdir)
    check_workdir(workdir, config, vocabulary)
    count = count_corpus(files, vocabulary)
    corpus = {**count._asdict(), "bytes": [file.stat().st_size for file in files]}
    check_corpus(workdir, config, corpus)
    num_steps = _total_steps(config, count)
    prepare_workdir(workdir, config, vocabulary)

    keras.utils.set_random_seed(config.seed)
    softmax = SampledSoftmax(len(vocabulary), config.num_sampled, name="softmax")
    model = LanguageModel(BiLM(bilm_config, name="bilm"), softmax, vocabulary)
    train_step = TrainStep(
        model,
        Adagrad(config.learning_rate),
        num_lanes=config.batch_size,
        dropout=config.dropout,
        clip_norm=config.clip_norm,
        seed=config.seed,
    )
    windows = iter(training_windows(files, config.batch_size, config.unroll, config.seed))
    evaluate = Perplexity(model, valid) if valid else None
    state = RunState(workdir, train_step, windows)
    if config.resume:
        state.restore()
    first = int(train_step.step)
    record = begin_record(workdir, config, corpus, first)

    eval_every = config.eval_every or math.ceil(num_steps / 10)
    if evaluate is not None and first == 0:
        _evaluate(evaluate, record, step=0)
    for step, losses in _train(train_step, windows, workdir, num_steps, config):
        is_last = step == num_steps
        if evaluate is not None and (is_last or step % eval_every == 0):
            _evaluate(evaluate, record, step)
            write_json(workdir / RECORD_FILE, record)
        if is_last or step % config.save_every == 0:
            record.update(step=step, loss=losses["loss"])
            _save(workdir, model, state, record)
    if first >= num_steps:
        logging.info("%s is at step %d already: there is nothing left to train.", workdir, first)
        _save(workdir, model, state, record)
    return record


def _train(
    train_step: TrainStep, windows: Any, workdir: Path, num_steps: int, config: PretrainConfig
) -> Iterator[tuple[int, dict[str, float]]]:
    """Takes the steps that are left, logs each, and gives its number and its losses."""
    first = int(train_step.step)
    tokens = config.batch_size * config.unroll
    smooth = None
    with (
        open(workdir / LOG_FILE, "a", encoding="utf-8") as log,
        progress(num_steps * tokens, "training", "tokens", initial=first * tokens) as meter,
    ):
        for step in range(first + 1, num_steps + 1):
            window = next(windows)
            losses = {
                name: float(value)
                for name, value in train_step(window["inputs"], window["targets"]).items()
            }
            log.write(json.dumps({"step": step, **losses}) + "\n")
            log.flush()
            if not math.isfinite(losses["loss"]):
                raise FloatingPointError(
                    f"The loss is {losses['loss']} at step {step}: training has diverged. Lower "
                    "the learning rate, and begin again or go on from the last save."
                )
            smooth = losses["loss"] if smooth is None else smooth
            smooth += _SMOOTHING * (losses["loss"] - smooth)
            meter.note(
                f"step {step}/{num_steps}, loss {smooth:.3f}, "
                f"sampled perplexity {math.exp(min(smooth, 50)):.1f}"
            )
            meter.update(tokens)
            yield step, losses


def _evaluate(evaluate: Perplexity, record: dict[str, Any], step: int) -> None:
    result = evaluate(shown=False)
    logging.info(
        "Step %d: held-out perplexity %.1f (forward %.1f, backward %.1f; %d tokens).",
        step,
        result["average"],
        result["forward"],
        result["backward"],
        result["tokens"],
    )
    record["perplexity"].append({"step": step, **result})


def _save(workdir: Path, model: LanguageModel, state: RunState, record: dict[str, Any]) -> None:
    state.save()
    save_bilm(model.bilm, workdir)
    save_softmax(model.softmax, workdir)
    write_json(workdir / RECORD_FILE, record)


def _total_steps(config: PretrainConfig, count: CorpusCount) -> int:
    tokens = config.batch_size * config.unroll
    if count.targets < tokens:
        raise ValueError(
            f"The corpus has {count.targets} tokens, sentence ends included: too few for one step "
            f"of batch_size {config.batch_size} by unroll {config.unroll}. Lower them."
        )
    logging.info(
        "Corpus: %d sentences, %d tokens, %.2f %% unknown.",
        count.sentences,
        count.tokens,
        100 * count.unknown / count.tokens,
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


def _refuse_several_workers() -> None:
    cluster = json.loads(os.environ.get("TF_CONFIG") or "{}").get("cluster", {})
    if sum(len(cluster.get(kind, ())) for kind in ("chief", "worker")) > 1:
        raise ValueError(
            "TF_CONFIG names several workers, and pretraining runs on one device: unset it."
        )
