"""Files of sentences or pairs of sentences with a label each ─► their tokens and labels."""

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

# Of a pair on which those who labelled it did not agree.
NO_GOLD_LABEL = "-"
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
            and how many tokens they must have; a phrase that stands twice in a sentence counts
            twice. None takes whole sentences alone.
        is_binary: whether "0" and "1" become "negative", "3" and "4" "positive", and what is
            neutral is left out.
        known: labels that may stand in the file; None allows all.

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


def read_pairs(
    path: str | os.PathLike, known: Collection[str] | None = None, is_labelled: bool = True
) -> list[LabelledPair]:
    """Reads pairs of sentences as the Stanford Natural Language Inference corpus has them.

    Tokens are those of the parses `sentence1_binary_parse` and `sentence2_binary_parse` where a
    line has them, with the escapes undone (`-LRB-` is `(`), and else what stands between white
    space. Pairs whose label is `-`, on which
    nobody agreed, are left out; their number is logged.

    Args:
        path: lines of JSON objects with `sentence1`, `sentence2` and `gold_label`; if the name ends
            in `.tsv` or `.tsv.gz`, columns with a first line of these names. `.gz` is unpacked.
        known: labels that may stand in the file; None allows all.
        is_labelled: whether labels are read. If not, they need not be there, no pair is left out,
            and all labels are `-`.

    Returns:
        At least one pair.

    Raises:
        ValueError: a line is no such object, lacks a field or a sentence, or has a label that is
            not known. The message names the line.
        OSError: the file cannot be read.
    """
    name = os.fspath(path)
    rows = _table_rows if name.removesuffix(".gz").endswith(".tsv") else _json_rows
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
        logging.info("%s: left out %s pairs without a gold label.", name, f"{num_undecided:,}")
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
    path: str | os.PathLike, fields: Sequence[str]
) -> Iterator[tuple[int, dict[str, Any]]]:
    lines = (line.rstrip("\r\n").split("\t") for line in read_lines(path))
    header = next(lines, [])
    missing = [field for field in fields if field not in header]
    if missing:
        raise ValueError(
            f"{os.fspath(path)}, line 1: no column {', '.join(missing)}. Its columns are "
            f"{', '.join(filter(None, header)) or 'none'}."
        )
    for number, cells in enumerate(lines, start=2):
        if cells == [""]:
            continue
        if len(cells) != len(header):
            raise ValueError(
                f"{os.fspath(path)}, line {number}: {len(cells)} columns, not {len(header)} as in "
                "line 1."
            )
        yield number, dict(zip(header, cells, strict=True))


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
