"""Files of texts or pairs of sentences with a label each ─► their tokens and labels."""

import csv
import json
import os
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from absl import logging

from elmo_tf.tasks.data.sentiment_trees import read_trees, unescaped
from elmo_tf.text.data_warnings import is_utf_8
from elmo_tf.text.vocabulary import read_lines

# Of a pair on whose label the annotators disagree; of a text whose label is not read.
NO_GOLD_LABEL = "-"
TABLE_SUFFIXES = (".csv", ".tsv")
_COLUMNS_REMEDY = (
    " Name or number the columns (text_column, label_column; --text-column, --label-column)."
)
_PAIR_FIELDS = ("sentence1", "sentence2", "gold_label")


class LabelledText(NamedTuple):
    """The tokens of a sentence or phrase, and its label."""

    tokens: list[str]
    label: str


class LabelledPair(NamedTuple):
    """The tokens of two sentences, and what holds between them."""

    premise: list[str]
    hypothesis: list[str]
    label: str


def read_sentiment(
    path: str | os.PathLike,
    least_phrase_tokens: int | None = None,
    is_binary: bool = False,
    known: Collection[str] | None = None,
) -> list[LabelledText]:
    """Reads sentences of the Stanford Sentiment Treebank with their labels.

    Args:
        path: a bracketed tree a line, see `read_trees`; `.gz` is unpacked.
        least_phrase_tokens: int >= 1 or None. Whether phrases within sentences are examples too,
            and how many tokens they must have; a phrase that occurs twice in a sentence counts
            twice. None takes whole sentences alone.
        is_binary: whether "0" and "1" become "negative", "3" and "4" "positive", and what is
            neutral is left out.
        known: labels allowed in the file; None allows all.

    Returns:
        At least one example.

    Raises:
        ValueError: see `read_trees`; a label that is not known, or above 4 where they become two.
        OSError: the file cannot be read.
    """
    texts = []
    for line, phrases in read_trees(path):
        for number, (label, tokens) in enumerate(phrases):
            is_sentence = number == 0
            if not is_sentence and (
                least_phrase_tokens is None or len(tokens) < least_phrase_tokens
            ):
                continue
            if is_binary:
                if label == "2":
                    continue
                label = _polarity(path, line, label)
            _check_label(path, line, label, known)
            texts.append(LabelledText(tokens, sys.intern(label)))
    return _some(path, texts)


def read_labelled(
    path: str | os.PathLike,
    text_column: str | int = "text",
    label_column: str | int = "label",
    known: Collection[str] | None = None,
    is_labelled: bool = True,
) -> list[LabelledText]:
    """Reads texts with a label each from two columns of a table.

    Tokens are separated by white space. White space around a label is dropped; any within it is
    read as one space. Empty lines are skipped.

    Args:
        path: `.csv`, as Python's `csv` reads it: a field in double quotes may hold commas, doubled
            quotes and line breaks; or `.tsv`: fields are separated by tabs, and a quote is a
            character like any other. `.gz` is unpacked.
        text_column, label_column: a name in the first line, or an int >= 1, the column's number.
            If both are numbers, the file has no header: its first line is an example.
        known: labels allowed in the file; None allows all.
        is_labelled: whether labels are read. If not, their column is not needed, and all labels
            are `-`. A file without a header may then have one column alone, that of the texts.

    Returns:
        At least one example.

    Raises:
        ValueError: the name has another suffix; a column is missing; a line has another number of
            fields than the first, no text, or no label; a label is not known; quotes are wrong. The
            message names the line.
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
        is_text_alone = not is_labelled and len(row) == 1
        tokens = _cell(path, line, row, 1 if is_text_alone else text_column).split()
        if not tokens:
            raise ValueError(f"{os.fspath(path)}, line {line}: the text is empty.")
        if is_labelled:
            label = " ".join(_cell(path, line, row, label_column).split())
            _check_label(path, line, label, known)
        texts.append(LabelledText(tokens, sys.intern(label)))
    labels = [text.label for text in _some(path, texts)]
    if not has_header and known is None and labels.count(labels[0]) == 1 < len(labels):
        logging.warning(
            "%s, line 1: no other example has the label %r. If this is a header, name the columns "
            "instead of numbering them.",
            *(os.fspath(path), labels[0]),
        )
    return texts


def is_table(path: str | os.PathLike) -> bool:
    """Whether a file is TSV or CSV, by its name."""
    return _table_name(path).endswith(TABLE_SUFFIXES)


def read_pairs(
    path: str | os.PathLike, known: Collection[str] | None = None, is_labelled: bool = True
) -> list[LabelledPair]:
    """Reads pairs of sentences as the Stanford Natural Language Inference corpus has them.

    Tokens are those of the parses `sentence1_binary_parse` and `sentence2_binary_parse` where a
    line has them, with the escapes undone (`-LRB-` is `(`), and else those separated by white
    space. Pairs whose label is `-`, because the annotators disagree, are left out; their number is
    logged.

    Args:
        path: lines of JSON objects with `sentence1`, `sentence2` and `gold_label`; if the name ends
            in `.tsv` or `.csv`, columns with a first line of these names, see `read_labelled`.
            `.gz` is unpacked.
        known: labels allowed in the file; None allows all.
        is_labelled: whether labels are read. If not, they need not be there, no pair is left out,
            and all labels are `-`.

    Returns:
        At least one pair.

    Raises:
        ValueError: a line is no such object, lacks a field or a sentence, or has a label that is
            not known. The message names the line.
        OSError: the file cannot be read.
    """
    rows = _table_rows if is_table(path) else _json_rows
    pairs, num_undecided = [], 0
    for line, row in rows(path, _PAIR_FIELDS[: 3 if is_labelled else 2]):
        label = row["gold_label"] if is_labelled else NO_GOLD_LABEL
        if is_labelled and label == NO_GOLD_LABEL:
            num_undecided += 1
            continue
        if is_labelled:
            _check_label(path, line, label, known)
        premise, hypothesis = (_tokens_of(path, line, row, field) for field in _PAIR_FIELDS[:2])
        pairs.append(LabelledPair(premise, hypothesis, sys.intern(label)))
    if num_undecided:
        logging.info(
            "%s: left out %s pairs without a gold label.", os.fspath(path), f"{num_undecided:,}"
        )
    return _some(path, pairs)


def _polarity(path: str | os.PathLike, line: int, label: str) -> str:
    if label not in ("0", "1", "3", "4"):
        raise ValueError(
            f"{os.fspath(path)}, line {line}: the label {label!r} is none of 0 to 4, which become "
            "negative and positive."
        )
    return "negative" if label < "2" else "positive"


def _json_rows(
    path: str | os.PathLike, fields: Sequence[str]
) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{os.fspath(path)}, line {number}: no JSON object: {error}") from None
        if not isinstance(row, dict):
            raise ValueError(f"{os.fspath(path)}, line {number}: no JSON object: {line[:80]!r}.")
        for field in fields:
            if not isinstance(row.get(field), str):
                raise ValueError(
                    f"{os.fspath(path)}, line {number}: no string `{field}`. It has "
                    f"{', '.join(row) or 'nothing'}."
                )
        yield number, row


def _table_rows(
    path: str | os.PathLike, names: Sequence[str], has_header: bool = True, remedy: str = ""
) -> Iterator[tuple[int, dict[str | int, str]]]:
    """The cells of each line, by the numbers of their columns, from 1, and by their names."""
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
            raise ValueError(
                f"{os.fspath(path)}, line {line}: {len(cells)} columns, not {width} as in "
                f"line {first}."
            )
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
    try:
        for cells in reader:
            if cells:
                yield line, cells
            line = reader.line_num + 1  # a field may hold line breaks
    except csv.Error as error:
        raise ValueError(
            f"{os.fspath(path)}, line {line}: not valid CSV ({str(error).partition(' - ')[0]}). "
            "Enclose a field in double quotes if it holds a comma, a quote or a line break, and "
            "double the quotes in it."
        ) from None


def _check_header(
    path: str | os.PathLike, line: int, header: Sequence[str], names: Sequence[str], remedy: str
) -> None:
    missing = [name for name in names if name not in header]
    if missing:
        raise ValueError(
            f"{os.fspath(path)}, line {line}: no column {', '.join(missing)}. Its columns are "
            f"{', '.join(filter(None, header))[:200] or 'none'}.{remedy}"
        )
    for name in names:
        if header.count(name) > 1:
            raise ValueError(
                f"{os.fspath(path)}, line {line}: {header.count(name)} columns have the name "
                f"{name!r}."
            )


def _cell(path: str | os.PathLike, line: int, row: dict[str | int, str], column: str | int) -> str:
    if column not in row:
        width = sum(isinstance(one, int) for one in row)
        raise ValueError(f"{os.fspath(path)}, line {line}: no column {column}: there are {width}.")
    return row[column]


def _tokens_of(path: str | os.PathLike, line: int, row: dict[str, Any], field: str) -> list[str]:
    parse = row.get(f"{field}_binary_parse")
    if not isinstance(parse, str) or not parse.strip():
        parse = None
    text = row[field] if parse is None else re.sub(r"(?<!\S)[()](?!\S)", " ", parse)
    tokens = text.split()
    if not tokens:
        raise ValueError(f"{os.fspath(path)}, line {line}: `{field}` holds no token.")
    return tokens if parse is None else [unescaped(token) for token in tokens]


def _check_label(
    path: str | os.PathLike, line: int, label: str, known: Collection[str] | None
) -> None:
    if not label:
        raise ValueError(f"{os.fspath(path)}, line {line}: the label is empty.")
    if not is_utf_8(label):
        raise ValueError(f"{os.fspath(path)}, line {line}: the label is no valid UTF-8: {label!r}.")
    if known is not None and label not in known:
        raise ValueError(
            f"{os.fspath(path)}, line {line}: the label {label!r} is none of those that are known: "
            f"{', '.join(known)}."
        )


def _some(path: str | os.PathLike, examples: list) -> list:
    if not examples:
        raise ValueError(f"{os.fspath(path)}: there is no example in it.")
    return examples
