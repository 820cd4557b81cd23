"""Reads labelled texts and labelled sentence pairs ─► their tokens and labels."""

import csv
import json
import os
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from absl import logging

from elmo_tf.tasks.data.sentiment_trees import read_trees, unescaped
from elmo_tf.text.data_warnings import is_utf_8, line_error
from elmo_tf.text.vocabulary import read_lines

# SNLI's label of a pair on which the annotators disagree; also the label of unlabelled texts.
NO_GOLD_LABEL = "-"
TABLE_SUFFIXES = (".csv", ".tsv")
_COLUMNS_REMEDY = (
    " Name or number the columns (text_column, label_column; --text-column, --label-column)."
)
_PAIR_FIELDS = ("sentence1", "sentence2", "gold_label")


class LabelledText(NamedTuple):
    """The tokens and the label of a sentence or phrase."""

    tokens: list[str]
    label: str


class LabelledPair(NamedTuple):
    """The tokens of two sentences, and the label of the pair."""

    premise: list[str]
    hypothesis: list[str]
    label: str


def read_sentiment(
    path: str | os.PathLike,
    least_phrase_tokens: int | None = None,
    is_binary: bool = False,
    known: Collection[str] | None = None,
) -> list[LabelledText]:
    """Reads labelled sentences of the Stanford Sentiment Treebank.

    Args:
        path: one bracketed tree per line, see `read_trees`; `.gz` is decompressed.
        least_phrase_tokens: int >= 1 or None. Also returns each phrase of at least this many
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
    for line, phrases in read_trees(path):
        for number, (label, tokens) in enumerate(phrases):
            is_long = least_phrase_tokens is not None and len(tokens) >= least_phrase_tokens
            is_sentence = number == 0
            if not (is_sentence or is_long) or (is_binary and label == "2"):
                continue
            if is_binary:
                label = _polarity(path, line, label)
            _check_label(path, line, label, known)
            texts.append(LabelledText(tokens, sys.intern(label)))
    return _not_empty(path, texts)


def read_labelled(
    path: str | os.PathLike,
    text_column: str | int = "text",
    label_column: str | int = "label",
    known: Collection[str] | None = None,
    is_labelled: bool = True,
) -> list[LabelledText]:
    """Reads labelled texts from two columns of a table.

    Texts are split into whitespace-separated tokens. Labels are stripped, and whitespace within
    them becomes one space. Empty lines are skipped.

    Args:
        path: `.csv`, as Python's `csv` reads it (a field in double quotes may hold commas, doubled
            quotes and line breaks), or `.tsv` (fields are separated by tabs, and quotes have no
            special meaning). `.gz` is decompressed.
        text_column, label_column: the name of a column, or its number (int >= 1). If both are
            numbers, the file has no header.
        known: allowed labels; None allows all.
        is_labelled: whether to read labels. If False, the label column may be missing, and all
            labels are `-`; a file without a header may then have the text column only. Defaults
            to True.

    Returns:
        At least one example.

    Raises:
        ValueError: the suffix is neither `.csv` nor `.tsv`; a column is missing; a line differs
            from the first in its number of fields, or has an empty text or label; a label is
            unknown; or the quoting is wrong. The message names the line.
        OSError: the file cannot be read.
    """
    if not is_table(path):
        raise ValueError(
            f"{os.fspath(path)}: the name of a table must end in {' or '.join(TABLE_SUFFIXES)}."
        )
    columns = (text_column, label_column) if is_labelled else (text_column,)
    names = [column for column in columns if isinstance(column, str)]
    has_header = isinstance(text_column, str) or isinstance(label_column, str)
    texts, label = [], NO_GOLD_LABEL
    for line, row in _table_rows(path, names, has_header, _COLUMNS_REMEDY):
        has_only_text = not is_labelled and len(row) == 1
        tokens = _cell(path, line, row, 1 if has_only_text else text_column).split()
        if not tokens:
            raise line_error(path, line, "the text is empty.")
        if is_labelled:
            label = " ".join(_cell(path, line, row, label_column).split())
            _check_label(path, line, label, known)
        texts.append(LabelledText(tokens, sys.intern(label)))
    labels = [text.label for text in _not_empty(path, texts)]
    if not has_header and known is None and labels.count(labels[0]) == 1 < len(labels):
        logging.warning(
            "%s, line 1: no other example has the label %r. If this is a header, name the columns "
            "instead of numbering them.",
            *(os.fspath(path), labels[0]),
        )
    return texts


def is_table(path: str | os.PathLike) -> bool:
    """Whether the name of a file is that of a TSV or CSV file."""
    return _table_name(path).endswith(TABLE_SUFFIXES)


def read_pairs(
    path: str | os.PathLike, known: Collection[str] | None = None, is_labelled: bool = True
) -> list[LabelledPair]:
    """Reads labelled sentence pairs, as in the Stanford Natural Language Inference corpus (SNLI).

    Tokens are those of the fields `sentence1_binary_parse` and `sentence2_binary_parse` where a
    line has them (with the escapes undone: `-LRB-` is `(`), and otherwise the whitespace-separated
    tokens of the sentences. Pairs with the label `-` (the annotators disagree) are left out, and
    their number is logged.

    Args:
        path: lines of JSON objects with `sentence1`, `sentence2` and `gold_label`; or `.tsv` or
            `.csv` with columns of these names, see `read_labelled`. `.gz` is decompressed.
        known: allowed labels; None allows all.
        is_labelled: whether to read labels. If False, labels may be missing, no pair is left out,
            and all labels are `-`. Defaults to True.

    Returns:
        At least one pair.

    Raises:
        ValueError: a line is not such an object, lacks a field, or has an empty sentence or an
            unknown label. The message names the line.
        OSError: the file cannot be read.
    """
    rows = _table_rows if is_table(path) else _json_rows
    pairs, num_undecided = [], 0
    for line, row in rows(path, _PAIR_FIELDS[: 3 if is_labelled else 2]):
        label = NO_GOLD_LABEL
        if is_labelled:
            label = " ".join(row["gold_label"].split())
            if label == NO_GOLD_LABEL:
                num_undecided += 1
                continue
            _check_label(path, line, label, known)
        premise, hypothesis = (_pair_tokens(path, line, row, field) for field in _PAIR_FIELDS[:2])
        pairs.append(LabelledPair(premise, hypothesis, sys.intern(label)))
    if num_undecided:
        logging.info(
            "%s: left out %s pairs without a gold label.", os.fspath(path), f"{num_undecided:,}"
        )
    return _not_empty(path, pairs)


def _polarity(path: str | os.PathLike, line: int, label: str) -> str:
    if label not in ("0", "1", "3", "4"):
        raise line_error(
            path, line, f"binary labels need the labels 0 to 4 in the file. Received: {label!r}"
        )
    return "negative" if label < "2" else "positive"


def _json_rows(
    path: str | os.PathLike, fields: Sequence[str]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a file of JSON lines, with their line numbers from 1."""
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise line_error(path, number, f"not a JSON object: {error}") from None
        if not isinstance(row, dict):
            raise line_error(path, number, f"not a JSON object: {line[:80]!r}.")
        for field in fields:
            if not isinstance(row.get(field), str):
                raise line_error(
                    path,
                    number,
                    f"the string `{field}` is missing. Fields: {', '.join(row) or 'none'}.",
                )
        yield number, row


def _table_rows(
    path: str | os.PathLike, names: Sequence[str], has_header: bool = True, remedy: str = ""
) -> Iterator[tuple[int, dict[str | int, str]]]:
    """The cells of each line by the numbers of their columns, from 1, and by their names."""
    rows = (_csv_rows if _table_name(path).endswith(".csv") else _tsv_rows)(path)
    first, cells = next(rows, (1, []))
    width, header = len(cells), []
    if has_header:
        header = [cell.strip() for cell in cells]
        _check_header(path, first, header, names, remedy)
    elif cells:
        yield first, dict(enumerate(cells, start=1))
    for line, cells in rows:
        if len(cells) != width:
            raise line_error(path, line, f"{len(cells)} columns, not {width} as in line {first}.")
        by_name = zip(header, cells, strict=True) if has_header else ()
        yield line, dict([*enumerate(cells, start=1), *by_name])


def _table_name(path: str | os.PathLike) -> str:
    return os.fspath(path).lower().removesuffix(".gz")


def _tsv_rows(path: str | os.PathLike) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip("\r\n"):
            yield number, line.rstrip("\r\n").split("\t")


def _csv_rows(path: str | os.PathLike) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(read_lines(path), strict=True)
    line = 1
    limit = csv.field_size_limit(sys.maxsize)  # a field may be a long document
    try:
        for cells in reader:
            if cells:
                yield line, cells
            line = reader.line_num + 1  # a field may hold line breaks
    except csv.Error as error:
        raise line_error(
            path,
            line,
            f"not valid CSV ({str(error).partition(' - ')[0]}). Enclose a field in double quotes "
            "if it holds a comma, a quote or a line break, and double the quotes in it.",
        ) from None
    finally:
        csv.field_size_limit(limit)


def _check_header(
    path: str | os.PathLike, line: int, header: Sequence[str], names: Sequence[str], remedy: str
) -> None:
    missing = [name for name in names if name not in header]
    if missing:
        columns = ", ".join(filter(None, header))[:200] or "none"
        message = f"there is no column {', '.join(missing)}. Columns: {columns}.{remedy}"
        raise line_error(path, line, message)
    for name in names:
        if header.count(name) > 1:
            raise line_error(path, line, f"{header.count(name)} columns have the name {name!r}.")


def _cell(path: str | os.PathLike, line: int, row: dict[str | int, str], column: str | int) -> str:
    if column not in row:
        width = sum(isinstance(key, int) for key in row)
        raise line_error(path, line, f"there is no column {column}; the line has {width}.")
    return row[column]


def _pair_tokens(path: str | os.PathLike, line: int, row: dict[str, Any], field: str) -> list[str]:
    parse = row.get(f"{field}_binary_parse")
    if isinstance(parse, str) and parse.strip():
        leaves = re.sub(r"(?<!\S)[()](?!\S)", " ", parse)
        tokens = [unescaped(token) for token in leaves.split()]
    else:
        tokens = row[field].split()
    if not tokens:
        raise line_error(path, line, f"`{field}` has no token.")
    return tokens


def _check_label(
    path: str | os.PathLike, line: int, label: str, known: Collection[str] | None
) -> None:
    if not label:
        raise line_error(path, line, "the label is empty.")
    if not is_utf_8(label):
        raise line_error(path, line, f"the label is not valid UTF-8: {label!r}.")
    if known is not None and label not in known:
        raise line_error(path, line, f"unknown label {label!r}. Known labels: {', '.join(known)}.")


def _not_empty(path: str | os.PathLike, examples: list) -> list:
    if not examples:
        raise ValueError(f"{os.fspath(path)} has no examples.")
    return examples
