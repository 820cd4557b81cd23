"""Evaluates trained task models, and predicts the labels of files."""

import collections
import contextlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

from elmo_tf.extras import require_extra
from elmo_tf.files import atomic_file, refuse_file
from elmo_tf.progress import progress
from elmo_tf.tasks.batches import Batches
from elmo_tf.tasks.ensemble import Ensemble
from elmo_tf.tasks.specification import (
    TaskSpecification,
    has_finder,
    load_task,
    read_runs,
    specification_of,
)
from elmo_tf.tasks.task_model import TaskModel
from elmo_tf.text.input_warnings import warn_of_raw_text
from elmo_tf.text.reading import encode
from elmo_tf.text.sentence_files import TOKEN_COLUMNS, format_of

_BATCH_SIZE = 64
_FOUND_SUFFIX = ".found"  # of the file with the predictions for sentences alone
_WORDS_SUFFIX = ".words"  # of the file with the tokens, if the predictions lack them


def evaluate_task(
    workdir: str | os.PathLike | Sequence[str | os.PathLike],
    files: str | os.PathLike | Sequence[str | os.PathLike],
    output: str | os.PathLike | None = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Scores the best model of a work directory on labeled files.

    A model of "srl" that finds predicates also predicts from the sentences alone, see
    `found_role_scores`; these predictions are written to `output` + `.found`.

    Args:
        workdir: the work directory of `train_task`, or several, whose models predict together, see
            `Ensemble`.
        files: one or several labeled files, in the format of the training files.
        output: the file to write the predictions to, see `predict_task`; None keeps none. Defaults
            to None.
        overwrite: whether to replace an existing output file. Defaults to False.

    Returns:
        The scores of the task, see `TaskSpecification.scores`.

    Raises:
        FileExistsError: `output` exists, and `overwrite` is False.
        FileNotFoundError: the model or a file is missing.
        ValueError: a file is wrong, or has a label that the model does not know; the message names
            the line.
        MissingExtraError: the packages of the extra `tasks` are not installed.
    """
    if output is not None:
        refuse_file(output, overwrite)
    workdirs = _as_list(workdir)
    config, labels = read_runs(*workdirs)
    task = specification_of(config.task)
    for module in task.packages:
        require_extra(module, "tasks", "The score of this task")
    examples = task.read(_as_list(files), config, known=labels)
    parts = {"": examples}
    if task.finder is not None and all(map(has_finder, workdirs)):
        parts[_FOUND_SUFFIX] = task.plain(examples)
    (_, predicted), *found = _predictions(task, workdirs, parts, output, overwrite)
    scores = task.scores([task.gold(example) for example in examples], predicted)
    return scores | (task.found_scores(examples, *found[0]) if found else {})


def predict_task(
    workdir: str | os.PathLike | Sequence[str | os.PathLike],
    input: str | os.PathLike | Sequence[str | os.PathLike],
    output: str | os.PathLike,
    format: str | None = None,
    token_column: int | None = None,
    overwrite: bool = False,
) -> int:
    """Writes the predictions of the best model of a work directory for one or several files.

    For "ner" and "pos", the output has one token and its tag per line, with an empty line after
    each sentence; for "sst" and "classify", a label, a tab and the text per line; for "snli", JSON
    lines with `sentence1`, `sentence2` and `label`; for "squad", a JSON object from ids to answers;
    for "srl", the props format of CoNLL-2005: for a predicate its lemma (or the token itself), for
    other tokens `-`, and one column of brackets per predicate, with the tokens in a second file,
    `output` + `.words`; for "coref", document, part, number of the token, token, and the brackets
    of entities.

    Args:
        workdir: see `evaluate_task`.
        input: a file, or several, whose predictions are written to one output in their order:
            text (one tokenized sentence per line) or CoNLL columns; for "sst" also trees, for
            "classify" also `.tsv` and `.csv`, see `read_labeled`; for "snli" see `read_pairs`,
            for "squad" `read_questions`; for "srl" columns, see `read_propositions`, or lines, see
            `read_proposition_lines`, or plain text, in which the model finds the predicates; for
            "coref" columns, see `read_documents`, or text with an empty line between documents.
            Labels are ignored.
        output: the file to write.
        format: "text", "conll", "conllu" or "fasta". None: by the name of each input.
        token_column: int >= 1 or None. Column of the tokens of CoNLL files, see `sentence_reader`.
            For columns, `format` and `token_column` default to those of the training files.
        overwrite: whether to replace an existing output file. Defaults to False.

    Returns:
        The number of examples; for "srl" that of propositions.

    Raises:
        FileExistsError: `output` exists, and `overwrite` is False.
        FileNotFoundError: the model or an input is missing.
        ValueError: an input is wrong (the message names the line), or is read as text but looks
            like columns; or a question or document is in several inputs.
    """
    refuse_file(output, overwrite)
    workdirs = _as_list(workdir)
    config, labels = read_runs(*workdirs)
    task = specification_of(config.task)
    for name, value in (("format", format), ("token_column", token_column)):
        if value is not None and name not in task.input_options:
            raise ValueError(f"`{name}` is not for --task {config.task}. Received: {value!r}")
    files, examples = _as_list(input), []
    for file in files:
        columns = format, token_column
        if (format or format_of(file)) in TOKEN_COLUMNS:
            columns = format or config.format, token_column or config.token_column
        examples += task.read_inputs(file, config, labels, *columns)
    examples = task.join_inputs(examples, files)
    texts = (text for example in examples for text in task.texts(example))
    collections.deque(warn_of_raw_text(texts), maxlen=0)
    parts = {"": examples}
    ((examples, _),) = _predictions(task, workdirs, parts, output, overwrite)
    return task.count(examples)


def _as_list(files: str | os.PathLike | Sequence[str | os.PathLike]) -> list[str]:
    return [
        os.fspath(file) for file in ([files] if isinstance(files, str | os.PathLike) else files)
    ]


def _predictions(
    task: TaskSpecification,
    workdirs: Sequence[str],
    parts: Mapping[str, Sequence[Any]],
    output: str | os.PathLike | None,
    overwrite: bool,
) -> list[tuple[Sequence[Any], list[Any]]]:
    """Predicts, and writes the predictions to a file, and the tokens to another if they lack them.

    The model is loaded last.

    Args:
        task, workdirs, output, overwrite: see `evaluate_task`.
        parts: the examples of each file, by what is added to the name `output`.

    Returns:
        The examples of each file, with what the model finds in them, and their predictions.
    """
    words = {suffix + _WORDS_SUFFIX: task.word_lines(part) for suffix, part in parts.items()}
    files = {suffix: lines for suffix, lines in words.items() if lines is not None}
    for suffix in (*parts, *files) if output is not None else ():
        refuse_file(os.fspath(output) + suffix, overwrite)
    model = load_task(*workdirs)
    predicted = []

    def predict(task, model, examples):
        batches = task.batches(model, examples, _BATCH_SIZE)
        return predict_batches(task, model, batches, examples, shown=True)

    for suffix, examples in parts.items():
        examples = task.with_found(model, examples, predict)
        predicted.append((examples, predict(task, model, examples)))
        files[suffix] = task.lines(*predicted[-1])
    with contextlib.ExitStack() as stack:  # writes all files or none
        for suffix, lines in files.items() if output is not None else ():
            part = stack.enter_context(atomic_file(os.fspath(output) + suffix, overwrite))
            part.write_bytes(b"".join(encode(line) + b"\n" for line in lines))
    return predicted


def predict_batches(
    task: TaskSpecification,
    model: TaskModel | Ensemble,
    batches: Batches,
    examples: Sequence[Any],
    shown: bool = False,
) -> list[Any]:
    """The predictions for all examples, in their order; `shown` shows progress."""
    predicted: dict[int, Any] = {}
    with progress(len(batches), "predicting", "batches", shown=shown) as meter:
        for batch in batches.sorted_by_length():
            of_batch = task.predict(model, batch.inputs, [examples[i] for i in batch.indices])
            predicted.update(zip(batch.indices, of_batch, strict=True))
            meter.update(1)
    return [predicted[index] for index in range(len(examples))]
