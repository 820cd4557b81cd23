"""Results of an analysis ─► JSON or Markdown tables."""

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from elmo_tf.commands.options import add_overwrite, print_json
from elmo_tf.extras import require_extra
from elmo_tf.files import refuse_file, write_json


def add_report_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `report`."""
    group = parser.add_argument_group("results")
    group.add_argument(
        "--format",
        dest="report_format",
        choices=("json", "markdown"),
        help="format on stdout (default: markdown on a terminal, json elsewhere)",
    )
    group.add_argument("--json", metavar="FILE", help="also write the results there, as JSON")
    add_overwrite(group)


def check_report_options(arguments: Any) -> None:
    """Raises before the work begins if `report` could not write its results."""
    if arguments.json is not None:
        refuse_file(arguments.json, arguments.overwrite)
    if _format(arguments) == "markdown":
        require_extra("tabulate", "analysis", "A table in Markdown")


def report(arguments: Any, content: Mapping[str, Any], markdown: Callable[[], str]) -> None:
    """Prints the results, and writes them to the file that `--json` names.

    Args:
        arguments: parsed arguments, with the options of `add_report_options`.
        content: the results.
        markdown: returns the results as Markdown.
    """
    if arguments.json is not None:
        write_json(arguments.json, content, arguments.overwrite)
    if _format(arguments) == "json":
        print_json(content, indent=2)
    else:
        print(markdown())


def markdown_table(headers: Sequence[str], rows: Sequence[Sequence[str | None]]) -> str:
    """A Markdown table. The first column is text; the others are formatted numbers or None."""
    tabulate = require_extra("tabulate", "analysis", "A table in Markdown").tabulate
    # tabulate 0.9 refuses an alignment of no rows.
    alignment = ["left"] + ["right"] * (len(headers) - 1) if rows else None
    return tabulate(
        rows, headers, "pipe", colalign=alignment, missingval="-", disable_numparse=True
    )


def percent(share: float | None) -> str | None:
    """A share in [0, 1] as percent with one decimal. None stays None."""
    return None if share is None else f"{100 * share:.1f}"


def short_names(paths: Sequence[str]) -> list[str]:
    """Shortens paths to the least number of last parts that makes them different."""
    parts = [os.path.abspath(path).split(os.sep) for path in paths]
    for length in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-length:]) for part in parts]
        if len(set(names)) == len(names):
            break
    return names


def _format(arguments: Any) -> str:
    return arguments.report_format or ("markdown" if sys.stdout.isatty() else "json")
