"""Shared by the readers of task files: errors that name a line, tables, and checks of labels."""

import contextlib
import csv
import os
import sys
from collections.abc import Collection, Iterator, Sequence

from elmo_tf.tasks.tag_schemes import TokenError
from elmo_tf.text.reading import read_lines
from elmo_tf.text.sentence_files import Row, is_utf_8, line_error

TABLE_SUFFIXES = (".csv", ".tsv")


@contextlib.contextmanager
def naming_line(path: str | os.PathLike, line: int) -> Iterator[None]:
    """Adds the file and the line to the message of a `ValueError` that its block raises."""
    try:
        yield
    except ValueError as error:
        raise line_error(path, line, str(error)) from None


@contextlib.contextmanager
def naming_row(path: str | os.PathLike, rows: Sequence[Row]) -> Iterator[None]:
    """Adds the file and the line of a token to the message of a `TokenError`."""
    try:
        yield
    except TokenError as error:
        raise line_error(path, rows[error.position].line, str(error)) from None


def check_label(label: str, known: Collection[str] | None) -> None:
    """Checks that a label is not empty, is valid UTF-8 and, unless `known` is None, known."""
    if not label:
        raise ValueError("the label is empty.")
    if not is_utf_8(label):
        raise ValueError(f"the label is not valid UTF-8: {label!r}.")
    if known is not None and label not in known:
        raise ValueError(f"unknown label {label!r}. Known labels: {', '.join(known)}.")


def not_empty(path: str | os.PathLike, examples: list, kind: str = "examples") -> list:
    """The examples of a file, or an error if there are none."""
    if not examples:
        raise ValueError(f"{os.fspath(path)} has no {kind}.")
    return examples


def is_table(path: str | os.PathLike) -> bool:
    """Whether the name of a file is that of a TSV or CSV file."""
    return _table_name(path).endswith(TABLE_SUFFIXES)


def table_rows(
    path: str | os.PathLike, names: Sequence[str], has_header: bool = True
) -> Iterator[tuple[int, dict[str | int, str]]]:
    """Reads the rows of a table. Empty lines are skipped.

    Args:
        path: `.csv` or `.tsv`, perhaps with `.gz`.
        names: names of columns that the header must have.
        has_header: whether the first line has the names of the columns. Defaults to True.

    Yields:
        The line number from 1, and the cells by the numbers of their columns, from 1, and names.
    """
    rows = _rows(path)
    first, cells = next(rows, (1, []))
    width, header = len(cells), []
    if has_header:
        header = [cell.strip() for cell in cells]
        if missing := [name for name in names if name not in header]:
            columns = ", ".join(filter(None, header))[:200] or "none"
            message = f"there is no column {' or '.join(missing)}. Columns: {columns}."
            raise line_error(path, first, message)
    elif cells:
        yield first, dict(enumerate(cells, start=1))
    for line, cells in rows:
        if len(cells) != width:
            raise line_error(path, line, f"{len(cells)} columns, not {width} as in line {first}.")
        yield line, {**dict(enumerate(cells, start=1)), **dict(zip(header, cells, strict=False))}


def _table_name(path: str | os.PathLike) -> str:
    return os.fspath(path).lower().removesuffix(".gz")


def _rows(path: str | os.PathLike) -> Iterator[tuple[int, list[str]]]:
    is_csv = _table_name(path).endswith(".csv")
    quotes = {} if is_csv else {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
    reader = csv.reader(read_lines(path), strict=True, **quotes)
    line = 1
    limit = csv.field_size_limit(sys.maxsize)  # a field may be a long document
    try:
        for cells in reader:
            if cells:
                yield line, cells
            line = reader.line_num + 1  # a field may hold line breaks
    except csv.Error as error:
        raise line_error(path, line, f"not valid CSV: {error}.") from None
    finally:
        csv.field_size_limit(limit)
