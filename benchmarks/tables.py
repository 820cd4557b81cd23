"""Markdown tables of the pages that report measurements."""

import re
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

Rows = Iterable[Sequence[Any]]


def table(head: Sequence[str], rows: Rows) -> str:
    """A Markdown table; the columns of numbers are right-aligned."""
    rows = [[_cell(value) for value in row] for row in rows]
    aligned = [
        "--:" if all(re.match(r"-?[\d*]|$", row[i]) for row in rows) else ":--"
        for i in range(len(head))
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in [list(head), aligned, *rows])


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else str(value)


def spread(scores: Sequence[float], digits: int = 1) -> str:
    """The mean and the standard deviation of scores."""
    if not scores:
        return ""
    deviation = f" ± {statistics.stdev(scores):.{digits}f}" if len(scores) > 1 else ""
    return f"{statistics.fmean(scores):.{digits}f}{deviation}"


def accuracies(found: Sequence[Any], parts: Sequence[str]) -> list[str]:
    """The accuracies of several measurements, each of several parts of the tokens, in percent."""
    return [f"{100 * accuracy[part]:.1f}" for accuracy in found for part in parts]


def in_context(found: dict[str, Any]) -> str:
    """A token in bold, with 8 tokens on each side."""
    from elmo_tf.evaluation import neighbors

    tokens = found["sentence"].split(" ")
    return neighbors.in_context(tokens, found["position"])
