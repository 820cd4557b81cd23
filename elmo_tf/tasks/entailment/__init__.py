"""One label per pair of sentences: JSON lines or tables ─► labeled pairs."""

import json
import os
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from absl import logging

from elmo_tf.tasks.classification import NO_LABEL, unescaped
from elmo_tf.tasks.entailment.model import ESIM
from elmo_tf.tasks.reading import check_label, is_table, naming_line, not_empty, table_rows
from elmo_tf.tasks.task import Task
from elmo_tf.tasks.task_model import TaskModel
from elmo_tf.text.reading import read_lines

_FIELDS = ("sentence1", "sentence2", "gold_label")


class LabeledPair(NamedTuple):
    """The tokens of two sentences, and the label of the pair."""

    premise: list[str]
    hypothesis: list[str]
    label: str


class Entailment(Task):
    """One label per pair of sentences."""

    models: ClassVar[Mapping[str, type[TaskModel]]] = {"esim": ESIM}
    packages: ClassVar = ("sklearn.metrics",)
    input_options: ClassVar = ()

    def _read(self, path, config, known):
        return read_pairs(path, known)

    def read_inputs(self, path, config, known, format=None, token_column=None):
        return read_pairs(path, is_labeled=False)

    def texts(self, example):
        return (example.premise, example.hypothesis)

    def lines(self, examples, predicted):
        for pair, label in zip(examples, predicted, strict=True):
            row = {"sentence1": " ".join(pair.premise), "sentence2": " ".join(pair.hypothesis)}
            yield json.dumps({**row, "label": label}, ensure_ascii=False)


def read_pairs(
    path: str | os.PathLike, known: Collection[str] | None = None, is_labeled: bool = True
) -> list[LabeledPair]:
    """Reads labeled sentence pairs, as in the Stanford Natural Language Inference corpus (SNLI).

    Tokens are those of the fields `sentence1_binary_parse` and `sentence2_binary_parse` where a
    line has them (with the escapes undone: `-LRB-` is `(`), and otherwise the whitespace-separated
    tokens of the sentences. Pairs with the label `-` (the annotators disagree) are left out, and
    their number is logged.

    Args:
        path: lines of JSON objects with `sentence1`, `sentence2` and `gold_label`; or `.tsv` or
            `.csv` with columns of these names, see `read_labeled`. `.gz` is decompressed.
        known: allowed labels; None allows all.
        is_labeled: whether to read labels. If False, labels may be missing, no pair is left out,
            and all labels are `-`. Defaults to True.

    Returns:
        At least one pair.

    Raises:
        ValueError: a line is not such an object, lacks a field, or has an empty sentence or an
            unknown label. The message names the line.
        OSError: the file cannot be read.
    """
    rows = table_rows if is_table(path) else _json_rows
    pairs, num_undecided = [], 0
    for line, row in rows(path, _FIELDS if is_labeled else _FIELDS[:2]):
        label = " ".join(row["gold_label"].split()) if is_labeled else NO_LABEL
        if is_labeled and label == NO_LABEL:
            num_undecided += 1
            continue
        with naming_line(path, line):
            if is_labeled:
                check_label(label, known)
            premise, hypothesis = (_tokens(row, field) for field in _FIELDS[:2])
        pairs.append(LabeledPair(premise, hypothesis, sys.intern(label)))
    if num_undecided:
        logging.info(
            "%s: left out %s pairs without a gold label.", os.fspath(path), f"{num_undecided:,}"
        )
    return not_empty(path, pairs)


def _json_rows(
    path: str | os.PathLike, fields: Sequence[str]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a file of JSON lines, with their line numbers from 1."""
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        with naming_line(path, number):
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"not a JSON object: {error}") from None
            if not isinstance(row, dict):
                raise ValueError(f"not a JSON object: {line[:80]!r}.")
            missing = [field for field in fields if not isinstance(row.get(field), str)]
            if missing:
                names = ", ".join(row) or "none"
                raise ValueError(f"the string `{missing[0]}` is missing. Fields: {names}.")
        yield number, row


def _tokens(row: dict[str, Any], field: str) -> list[str]:
    parse = row.get(f"{field}_binary_parse")
    if isinstance(parse, str) and parse.strip():
        leaves = re.sub(r"(?<!\S)[()](?!\S)", " ", parse)
        tokens = [unescaped(token) for token in leaves.split()]
    else:
        tokens = row[field].split()
    if not tokens:
        raise ValueError(f"`{field}` has no token.")
    return tokens
