"""Results of an analysis ─► JSON or Markdown tables."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from elmo_tf.commands.options import Overwrite, named_vectors, print_json
from elmo_tf.extras import require_extra
from elmo_tf.files import refuse_file, write_json
from elmo_tf.settings import checked_dataclass, setting


@checked_dataclass(kw_only=True)
class ReportOptions:
    """The options of results, and their output."""

    report_format: Literal["json", "markdown"] | None = setting(
        None,
        "format on stdout",
        name="--format",
        group="results",
        default_help="markdown on a terminal, json elsewhere",
    )
    json: str | None = setting(None, "also write the results there, as JSON")
    overwrite: Overwrite = False

    def check_report(self) -> None:
        """Raises before the work begins if `report` could not write its results."""
        if self.json is not None:
            refuse_file(self.json, self.overwrite)
        if self._format() == "markdown":
            require_extra("tabulate", "analysis", "A table in Markdown")

    def report(self, content: Mapping[str, Any], markdown: Callable[[], str]) -> None:
        """Prints the results, and writes them to the file that `--json` names.

        Args:
            content: the results.
            markdown: returns the results as Markdown.
        """
        if self.json is not None:
            write_json(self.json, content, self.overwrite)
        if self._format() == "json":
            print_json(content, indent=2)
        else:
            print(markdown())

    def measure(
        self, measure: Callable[[Any], Any], settings: Sequence[str], batch_tokens: int = 4096
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Measures the vectors of the model and of each file of `--vectors`.

        Args:
            measure: returns a result with `to_json`, given an `Embedder` or a `VectorSource`.
            settings: names of options.
            batch_tokens: see `Embedder`.

        Returns:
            The results by name, that of the model with the name ""; and as JSON, with the settings.
        """
        from elmo_tf.embedding import Embedder

        vectors = named_vectors(self.vectors)
        embedder = Embedder(self.model, "all", self.precision, batch_tokens)
        results = {name: measure(source) for name, source in {"": embedder, **vectors}.items()}
        content = {name: getattr(self, name) for name in settings}
        content |= {"precision": embedder.precision, **results[""].to_json()}
        if vectors:
            content["vectors"] = {name: results[name].to_json() for name in vectors}
        return results, content

    def _format(self) -> str:
        return self.report_format or ("markdown" if sys.stdout.isatty() else "json")


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
