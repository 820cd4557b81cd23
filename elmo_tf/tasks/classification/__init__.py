"""One label per text: tables, or trees of the Stanford Sentiment Treebank ─► labeled texts."""

import os
import re
import sys
from collections.abc import Collection, Iterator
from typing import ClassVar, NamedTuple

from elmo_tf.tasks.classification.model import BCN, BiLSTMClassifier
from elmo_tf.tasks.config import TaskConfig
from elmo_tf.tasks.reading import (
    TABLE_SUFFIXES,
    check_label,
    is_table,
    labeled_lines,
    naming_line,
    not_empty,
    table_rows,
)
from elmo_tf.tasks.task import Task, first_line
from elmo_tf.text.reading import format_of

NO_LABEL = "-"  # of unlabeled texts
# An opening bracket and its label, a closing bracket, or a token.
_PARTS_OF_TREE = re.compile(r"\(\s*([^\s()]+)?|(\))|([^\s()]+)")
_TREE = re.compile(r"\(\s*[^\s()]+\s*\(")  # its beginning
# The Penn Treebank escapes brackets.
_ESCAPED = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}
_POLARITIES = {"0": "negative", "1": "negative", "3": "positive", "4": "positive"}


class LabeledText(NamedTuple):
    """The tokens and the label of a sentence or phrase."""

    tokens: list[str]
    label: str


class Classification(Task):
    """One label per text."""

    models: ClassVar = {"bcn": BCN, "bilstm": BiLSTMClassifier}

    def _read(self, path, config, known):
        return read_labeled(path, *_columns(config), known)

    def read_inputs(self, path, config, format=None, token_column=None):
        if is_table(path) and format is None:
            return read_labeled(path, *_columns(config), is_labeled=False)
        return super().read_inputs(path, config, format, token_column)


def _columns(config: TaskConfig) -> list[str | int]:
    """The names or numbers of the columns of text and label."""
    columns = (config.text_column, config.label_column)
    return [int(column) if column.isdecimal() else column for column in columns]


class Sentiment(Classification):
    """One label per sentence of a file of trees."""

    def _read(self, path, config, known):
        phrases = config.phrases if known is None else None  # for training only
        return read_sentiment(path, phrases, config.binary, known)

    def read_inputs(self, path, config, format=None, token_column=None):
        name = format or ("table" if is_table(path) else format_of(path))
        if name == "text" and _TREE.match(first_line(path)):
            return [phrases[0]._replace(label=NO_LABEL) for _, phrases in read_trees(path)]
        return super().read_inputs(path, config, format, token_column)


def read_labeled(
    path: str | os.PathLike,
    text_column: str | int = "text",
    label_column: str | int = "label",
    known: Collection[str] | None = None,
    is_labeled: bool = True,
) -> list[LabeledText]:
    """Reads labeled texts from two columns of a table.

    Texts are split into whitespace-separated tokens. Labels are stripped, and whitespace within
    them becomes one space. Empty lines are skipped.

    Args:
        path: `.csv`, as Python's `csv` reads it (a field in double quotes may hold commas, doubled
            quotes and line breaks), or `.tsv` (fields are separated by tabs, and quotes have no
            special meaning); or `.jsonl`, lines of JSON objects. `.gz` is decompressed.
        text_column, label_column: the name of a column, or its number (int >= 1). If both are
            numbers, the file has no header.
        known: allowed labels; None allows all.
        is_labeled: whether to read labels. If False, the label column may be missing, and all
            labels are `-`. Defaults to True.

    Returns:
        At least one example if they are labeled, whose texts are not empty.

    Raises:
        ValueError: the suffix is another, or the file is wrong. The message names the line.
        OSError: the file cannot be read.
    """
    if not is_table(path):
        raise ValueError(
            f"{os.fspath(path)}: the name of a table must end in {' or '.join(TABLE_SUFFIXES)}."
        )
    columns = (text_column, label_column) if is_labeled else (text_column,)
    names = [column for column in columns if isinstance(column, str)]
    has_header = isinstance(text_column, str) or isinstance(label_column, str)
    texts, label = [], NO_LABEL
    for line, row in table_rows(path, names, has_header):
        with naming_line(path, line):
            tokens = _cell(row, text_column).split()
            if is_labeled:
                if not tokens:
                    raise ValueError("the text is empty.")
                label = " ".join(_cell(row, label_column).split())
                check_label(label, known)
        texts.append(LabeledText(tokens, sys.intern(label)))
    return not_empty(path, texts) if is_labeled else texts


def _cell(row: dict[str | int, str], column: str | int) -> str:
    if column not in row:
        width = sum(isinstance(key, int) for key in row)
        raise ValueError(f"there is no column {column}; the line has {width}.")
    return row[column]


def read_sentiment(
    path: str | os.PathLike,
    min_phrase_tokens: int | None = None,
    is_binary: bool = False,
    known: Collection[str] | None = None,
) -> list[LabeledText]:
    """Reads labeled sentences of the Stanford Sentiment Treebank.

    Args:
        path: one bracketed tree per line, see `read_trees`; `.gz` is decompressed.
        min_phrase_tokens: int >= 1 or None. Also returns each phrase of at least this many
            tokens, as often as it occurs. None returns sentences only.
        is_binary: whether "0" and "1" become "negative", "3" and "4" become "positive", and
            neutral texts ("2") are left out. Defaults to False.
        known: allowed labels; None allows all.

    Returns:
        At least one example.

    Raises:
        ValueError: see `read_trees`; an unknown label, or one other than 0 to 4 if `is_binary`.
        OSError: the file cannot be read.
    """
    texts = []
    for line, (sentence, *phrases) in read_trees(path):
        if min_phrase_tokens is None:
            phrases = []
        long_phrases = [each for each in phrases if len(each.tokens) >= min_phrase_tokens]
        for tokens, label in (sentence, *long_phrases):
            if is_binary and label == "2":
                continue
            with naming_line(path, line):
                if is_binary:
                    check_label(label, _POLARITIES)
                    label = _POLARITIES[label]
                check_label(label, known)
            texts.append(LabeledText(tokens, sys.intern(label)))
    return not_empty(path, texts)


def read_trees(path: str | os.PathLike) -> Iterator[tuple[int, list[LabeledText]]]:
    r"""Reads one tree per line, such as `(3 (2 The) (4 (3 best) (2 film)))`; skips empty lines.

    The escapes of the Penn Treebank are undone: `-LRB-` is `(`, and `\/` is `/`.

    Yields:
        The line number from 1, and all phrases of the tree: the sentence first, and each phrase
        before its parts.

    Raises:
        ValueError: a line does not hold exactly one tree, or see `read_lines`.
        OSError: the file cannot be read.
    """
    for number, line in enumerate(labeled_lines(path), start=1):
        if line.strip():
            with naming_line(path, number):
                phrases = _phrases(line)
            yield number, phrases


def _phrases(line: str) -> list[LabeledText]:
    """Parses a tree without recursion, as it may be as deep as its sentence is long."""
    phrases: list[LabeledText] = []
    open_phrases: list[LabeledText] = []
    for part in _PARTS_OF_TREE.finditer(line):
        label, closing, token = part.groups()
        if label and (open_phrases or not phrases):
            phrases.append(LabeledText([], label))
            open_phrases.append(phrases[-1])
        elif closing and open_phrases and open_phrases[-1].tokens:
            open_phrases.pop()
        elif token and open_phrases:
            for phrase in open_phrases:
                phrase.tokens.append(unescaped(token))
        else:
            place = f"{part[0][:40]!r} in column {part.start() + 1}"
            raise ValueError(f"not a tree such as (3 (2 a) (3 film)): {place}.")
    if open_phrases:
        raise ValueError(f"the tree is not balanced: {len(open_phrases)} brackets are not closed.")
    return phrases


def unescaped(token: str) -> str:
    """The token that an escaped token of the Penn Treebank stands for."""
    return _ESCAPED.get(token) or token.replace("\\/", "/").replace("\\*", "*")
