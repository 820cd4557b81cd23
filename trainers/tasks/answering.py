"""A trained task model and files of its task ─► scores, or answers in the task's own format."""

import os
from collections.abc import Sequence
from typing import Any

from elmo_tf.files import atomic_file, refuse_file
from elmo_tf.progress import progress
from elmo_tf.tasks.task_model import TaskModel
from elmo_tf.text.sentence_files import format_of
from elmo_tf.text.sentences import encode
from elmo_tf.trainers.tasks.examples import Batches
from elmo_tf.trainers.tasks.kinds import KINDS, TaskKind
from elmo_tf.trainers.tasks.workdir import load_model

_BATCH_SIZE = 64


def evaluate_task(workdir: str | os.PathLike, files: Sequence[str]) -> dict[str, Any]:
    """How good the best model of a work directory is on files of its task.

    Args:
        workdir: of `train_task`.
        files: with labels, in the format of those that it was trained on.

    Returns:
        The scores of its task, see `elmo_tf.evaluation.task_scores`.

    Raises:
        FileNotFoundError: there is no model, or no such file.
        ValueError: a file is broken, or has a label that the model does not know; the message names
            the line.
        MissingExtraError: the packages of the extra `tasks` are not installed.
    """
    model, record = load_model(workdir)
    settings = {**record["settings"], "phrases": None}  # which are to train on
    kind = KINDS[settings["task"]]
    examples = kind.read(files, settings, known=kind.known(model.labels))
    texts = [kind.texts(example) for example in examples]
    found = batch_answers(kind, model, Batches(model, texts, None, _BATCH_SIZE), shown=True)
    return kind.scores([kind.answer(example) for example in examples], found)


def predict_task(
    workdir: str | os.PathLike,
    input: str | os.PathLike,
    output: str | os.PathLike,
    format: str | None = None,
    token_column: int | None = None,
    overwrite: bool = False,
) -> int:
    """Writes what the best model of a work directory says of a file.

    Of "ner" and "pos" a token and its tag a line, with an empty line behind each sentence; of "sst"
    and "classify" a label, a tab and its text a line; of "snli" lines of JSON with `sentence1`,
    `sentence2` and `label`.

    Args:
        workdir: of `train_task`.
        input: without labels, or with some that are not read: text, a tokenised sentence a line, or
            CoNLL columns; of "sst" trees too; of "classify" `.tsv` and `.csv` too, see
            `read_labelled`; of "snli" as `read_pairs` takes it.
        output: the file to write.
        format: "text", "conll" or "conllu"; None to go by the name of the input.
        token_column: int >= 1 or None. Of CoNLL columns, see `sentence_reader`. If it is columns
            by its name, both are those of training where they are not given.
        overwrite: whether it may be replaced.

    Returns:
        The number of examples.

    Raises:
        FileExistsError: `output` exists, and `overwrite` is false.
        FileNotFoundError: there is no model, or no input.
        ValueError: the input is broken; the message names the line. Or it is read as text, and
            looks like columns.
    """
    refuse_file(output, overwrite)
    model, record = load_model(workdir)
    settings = record["settings"]
    kind = KINDS[settings["task"]]
    known = kind.known(model.labels)
    if (format or format_of(input)) != "text":
        format = format or settings["format"]
        token_column = token_column or settings["token_column"]
    settings = {**settings, "format": format, "token_column": token_column}
    texts = kind.unlabelled(os.fspath(input), settings, known)
    found = batch_answers(kind, model, Batches(model, texts, None, _BATCH_SIZE), shown=True)
    with atomic_file(output, overwrite) as part, open(part, "wb") as file:
        for line in kind.lines(texts, found):
            file.write(encode(line) + b"\n")
    return len(texts)


def batch_answers(
    kind: TaskKind, model: TaskModel, batches: Batches, shown: bool = False
) -> list[Any]:
    """What a model says of each example, in their order.

    Args:
        kind: of the task.
        model: a trained one.
        batches: the examples.
        shown: whether progress is.
    """
    answers: dict[int, Any] = {}
    with progress(len(batches), "answering", "batches", shown=shown) as meter:
        for batch in batches.in_order_of_length():
            answers.update(zip(batch.places, kind.answers(model, batch.inputs), strict=True))
            meter.update(1)
    return [answers[place] for place in range(len(answers))]
