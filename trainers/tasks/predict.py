"""Evaluates trained task models, and predicts the labels of files."""

import collections
import contextlib
import functools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from absl import logging

from elmo_tf.files import atomic_file, json_text, refuse_file
from elmo_tf.logs import progress
from elmo_tf.settings import as_tuple
from elmo_tf.tasks.batches import Batches
from elmo_tf.tasks.registry import TASKS, load_task, read_runs
from elmo_tf.tasks.scores import found_role_scores
from elmo_tf.tasks.semantic_roles import TO_FIND, Proposition, by_sentence
from elmo_tf.tasks.semantic_roles.predicates import (
    PredicateTagging,
    has_predicate_tagger,
    load_predicate_tagger,
    predicates_of,
    tags_by_predicate,
)
from elmo_tf.tasks.task import Task
from elmo_tf.tasks.task_model import Ensemble, TaskModel
from elmo_tf.text.counting import KnownText, reported_sentences
from elmo_tf.text.reading import encode, format_of, open_bytes
from elmo_tf.text.sentence_files import TOKEN_COLUMNS

# The tasks whose files have a format of their own.
_OWN_FORMATS = ("snli", "squad")
# The tasks with one label per example, and the names of their texts in JSON lines.
_TEXTS = {"sst": ["text"], "classify": ["text"], "snli": ["sentence1", "sentence2"]}


def evaluate_task(
    workdir: str | os.PathLike | Sequence[str | os.PathLike],
    files: str | os.PathLike | Sequence[str | os.PathLike],
    output: str | os.PathLike | None = None,
    overwrite: bool = False,
    tokenizer: str | None = None,
) -> dict[str, Any]:
    """Scores the best model of a work directory on labeled files.

    A model of "srl" that finds predicates also predicts from the sentences alone, see
    `found_role_scores`.

    Args:
        workdir: the work directory of `train_task`, or several for an `Ensemble`.
        files: one or several labeled files, in the format of the training files.
        output, overwrite, tokenizer: see `predict_task`; without an output, predictions are not
            written.

    Returns:
        The scores of the task, see `Task.scores`.

    Raises: see `predict_task`; a label that the model does not know is a `ValueError`.
    """
    workdirs = as_tuple(workdir)
    config, labels = read_runs(*workdirs)
    task = TASKS[config.task]()
    examples = task.read(as_tuple(files), config, known=labels)
    if output is not None:
        _refuse_files(output, task, overwrite)
    model = load_task(*workdirs, tokenizer=tokenizer)
    predicted = predict_examples(task, model, examples, config.batch_size)
    scores = task.scores([task.gold(example) for example in examples], predicted)
    if config.task == "srl" and all(map(has_predicate_tagger, workdirs)):
        sentences = [group[0] for group in by_sentence(examples)]
        found = _with_found_predicates(workdirs, model, sentences, config.batch_size)
        pairs = zip(found, predict_examples(task, model, found, config.batch_size), strict=True)
        propositions = [proposition._replace(tags=tags) for proposition, tags in pairs]
        scores |= found_role_scores(*map(tags_by_predicate, (examples, propositions)))
    if output is not None:
        _write_files(output, task.outputs(examples, predicted), overwrite)
    return scores


def predict_task(
    workdir: str | os.PathLike | Sequence[str | os.PathLike],
    input: str | os.PathLike,
    output: str | os.PathLike,
    format: str | None = None,
    token_column: int | None = None,
    probabilities: bool = False,
    overwrite: bool = False,
    tokenizer: str | None = None,
) -> int:
    """Writes the predictions of the best model of a work directory for a file.

    The formats of the input and the output are those of the table "Files" in
    docs/guides/tasks.md. Labels in the input are ignored.

    Args:
        workdir: see `evaluate_task`.
        input: text (a sentence per line, tokenized, or raw for a model of texts with a tokenizer)
            or CoNLL columns; see `Task.read_inputs`.
        output: the file to write.
        format: "text", "conll", "conllu" or "fasta". None: by the name of the input.
        token_column: int >= 1 or None. Column of the tokens of CoNLL files, see `sentence_reader`.
            For columns, `format` and `token_column` default to those of the training files.
        probabilities: whether to write JSON lines with the texts, the label and the probability of
            each label; only for tasks with one label per example. Defaults to False.
        overwrite: whether to replace an existing output file. Defaults to False.
        tokenizer: replaces that of the training run, see `TaskModel`. Defaults to None.

    Returns:
        The number of examples; for "srl" that of propositions.

    Raises:
        FileExistsError: `output` exists, and `overwrite` is False.
        OSError: the model or a file cannot be read.
        ValueError: a file is wrong; the message names the line.
    """
    workdirs = as_tuple(workdir)
    config, _ = read_runs(*workdirs)
    task = TASKS[config.task]()
    if probabilities and config.task not in _TEXTS:
        raise ValueError(f"`probabilities` is not for --task {config.task}: {', '.join(_TEXTS)}.")
    if config.task in _OWN_FORMATS and (format or token_column):
        raise ValueError(f"`format` and `token_column` are not for --task {config.task}.")
    _refuse_files(output, task, overwrite)
    input, columns = os.fspath(input), (format, token_column)
    if (format or format_of(input)) in TOKEN_COLUMNS:
        columns = format or config.format, token_column or config.token_column
    examples = task.read_inputs(input, config, *columns)
    model = load_task(*workdirs, tokenizer=tokenizer)
    if model.tokenizer is None:
        texts = (text for example in examples for text in task.texts(example))
        collections.deque(reported_sentences(texts, KnownText()), maxlen=0)
    if config.task in ("ner", "pos") and format is None and format_of(input) == "text":
        ends = {example.tokens[-1] for example in examples if example.tokens}
        if ends <= {*model.labels} and any(map(str.isalpha, ends)):
            message = "All lines of %s end in labels. Columns need --input-format conll (format=)."
            logging.warning(message, input)
    lines = None
    if probabilities:
        lines = functools.partial(_lines_with_probabilities, task, _TEXTS[config.task])
    if config.task == "srl" and examples and examples[0].predicate == TO_FIND:
        examples = _with_found_predicates(workdirs, model, examples, config.batch_size)
    predicted = predict_examples(task, model, examples, config.batch_size, lines)
    outputs = {"": predicted} if probabilities else task.outputs(examples, predicted)
    _write_files(output, outputs, overwrite)
    return sum(each is not None for each in predicted)


def _with_found_predicates(
    workdirs: Sequence[str | os.PathLike],
    role_tagger: TaskModel | Ensemble,
    sentences: Sequence[Proposition],
    batch_size: int,
) -> list[Proposition]:
    """An example for each predicate that is found in sentences, or one without a predicate."""
    tagger = load_predicate_tagger(workdirs, role_tagger)
    tagged = predict_examples(PredicateTagging(), tagger, sentences, batch_size)
    return [
        Proposition(sentence.tokens, predicate, [])
        for sentence, tags in zip(sentences, tagged, strict=True)
        for predicate in predicates_of(tags) or [None]
    ]


def _refuse_files(output: str | os.PathLike, task: Task, overwrite: bool) -> None:
    for suffix in task.outputs([], []):
        refuse_file(os.fspath(output) + suffix, overwrite)


def _write_files(
    output: str | os.PathLike, outputs: Mapping[str, Iterable[str]], overwrite: bool
) -> None:
    """Writes all files or none."""
    with contextlib.ExitStack() as stack:
        for suffix, lines in outputs.items():
            part = stack.enter_context(atomic_file(os.fspath(output) + suffix, overwrite))
            with open_bytes(part, "wb") as file:
                file.writelines(encode(line) + b"\n" for line in lines)


def _lines_with_probabilities(
    task: Task, names: Sequence[str], model: TaskModel | Ensemble, inputs: Any, examples: Any
) -> list[str]:
    """In place of `Task.predict`: JSON lines of texts, by `names`, label and probabilities."""
    lines = []
    predicted = model.listed_predictions(inputs)["probabilities"].numpy().astype(float)
    for example, row in zip(examples, predicted, strict=True):
        texts = dict(zip(names, map(" ".join, task.texts(example)), strict=True))
        probabilities = dict(zip(model.labels, row.round(6).tolist(), strict=True))
        labels = {"label": model.labels[row.argmax()], "probabilities": probabilities}
        lines.append(json_text(texts | labels))
    return lines


def predict_examples(
    task: Task,
    model: TaskModel | Ensemble,
    examples: Sequence[Any],
    batch_size: int,
    predict: Callable[..., list[Any]] | None = None,
) -> list[Any]:
    """The predictions for all examples, in their order, by `Task.predict` or another function."""
    tokenized = task.tokenized(examples, model, model.tokenizer)
    batches = task.batches(model, tokenized, batch_size)
    return predict_batches(predict or task.predict, model, batches, examples, shown=True)


def predict_batches(
    predict: Callable[..., list[Any]],
    model: TaskModel | Ensemble,
    batches: Batches,
    examples: Sequence[Any],
    shown: bool = False,
) -> list[Any]:
    """The predictions for all examples, in their order; `shown` shows progress."""
    predicted: dict[int, Any] = {}
    with progress(len(batches), "predicting", "batches", shown=shown) as meter:
        for batch in batches.sorted_by_length():
            of_batch = predict(model, batch.inputs, [examples[i] for i in batch.indices])
            predicted.update(zip(batch.indices, of_batch, strict=True))
            meter.update(1)
    return [predicted[index] for index in range(len(examples))]
