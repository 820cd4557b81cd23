"""Numbers of an analysis ─► JSON for programs, tables in Markdown for people."""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from elmo_tf.commands.options import json_text, print_json
from elmo_tf.extras import require_extra
from elmo_tf.files import atomic_file, refuse_file

FORMATS = ("json", "markdown")


def add_report_options(parser: argparse.ArgumentParser) -> None:
    """How a subcommand tells its numbers."""
    group = parser.add_argument_group("the results")
    group.add_argument(
        "--format",
        dest="report_format",
        choices=FORMATS,
        help="on stdout (markdown on a terminal, json elsewhere)",
    )
    group.add_argument("--json", metavar="FILE", help="write them there too, as JSON")
    group.add_argument("--overwrite", action="store_true", help="replace outputs that exist")


def check_report_options(arguments: Any) -> None:
    """Refuses, before the work begins, what could not be written at its end."""
    if arguments.json is not None:
        refuse_file(arguments.json, arguments.overwrite)
    if _format(arguments) == "markdown":
        require_extra("tabulate", "analysis", "A table in Markdown")


def report(arguments: Any, content: Mapping[str, Any], markdown: Callable[[], str]) -> None:
    """Writes the results to stdout, and to the file that `--json` names.

    Args:
        arguments: of the call, with what `add_report_options` added.
        content: the results.
        markdown: gives the same for people.
    """
    if arguments.json is not None:
        with atomic_file(arguments.json, arguments.overwrite) as part:
            part.write_bytes(json_text(content, indent=2).encode() + b"\n")
    if _format(arguments) == "json":
        print_json(content, indent=2)
    else:
        print(markdown())


def markdown_table(headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table in Markdown. The first column is text, the others are numbers, None for none.

    Args:
        headers: of the columns.
        rows: a cell for each of them; numbers as they are to be read, in strings.
    """
    tabulate = require_extra("tabulate", "analysis", "A table in Markdown").tabulate
    alignment = ["left"] + ["right"] * (len(headers) - 1)
    return tabulate(
        rows, headers, "pipe", colalign=alignment, missingval="-", disable_numparse=True
    )


def percent(share: float | None) -> str | None:
    """A share of 1 as a number of percent with one decimal; None stays None."""
    return None if share is None else f"{100 * share:.1f}"


def _format(arguments: Any) -> str:
    return arguments.report_format or ("markdown" if sys.stdout.isatty() else "json")
