"""Subcommands, and what several of them share: options, input, and JSON and Markdown results."""

import contextlib
import dataclasses
import itertools
import os
import shutil
import sys
import tempfile
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import PlainValidator

from elmo_tf.checkpoints.named_models import brief_names
from elmo_tf.embedding import LAYERS
from elmo_tf.files import json_text, refuse_file, write_json
from elmo_tf.settings import Texts, checked_dataclass, setting, settings_of

STDIN = "-"  # in place of a text file
CHECKPOINT = (
    f"directory, archive (.zip, .tar.gz), URL or name of a checkpoint; names: {brief_names()} (see "
    "elmo-tf models); hf://OWNER/NAME (Hugging Face Hub)"
)


@dataclasses.dataclass(frozen=True)
class Subcommand:
    """A subcommand: a function whose parameters are its options, or further subcommands."""

    name: str  # on the command line
    summary: str  # the first line of the help
    example: str  # a command that works as pasted
    run: Any = None  # the function; its parameters are checked dataclasses (`elmo_tf.settings`)
    epilog: str | None = None
    needs_tensorflow: bool = True  # which is then imported before the function is called
    leave_out: Sequence[str] = ()  # settings without an option
    metavar: str = ""  # the general name of the further subcommands
    subcommands: Sequence["Subcommand"] = ()

    @property
    def parameters(self) -> list[tuple[Any, list[str]]]:
        """The classes of the function's parameters, and their settings that have an option.

        A class's own settings stand before those of its bases. A setting hides those of the same
        name in the parameters before.
        """
        parameters, hidden = [], set(self.leave_out)
        hints = typing.get_type_hints(self.run)
        for options_class in [cls for name, cls in hints.items() if name != "return"][::-1]:
            classes = [vars(cls).get("__annotations__", {}) for cls in options_class.__mro__]
            declared = dict.fromkeys(itertools.chain.from_iterable(classes))
            names = [name for name in declared if name in settings_of(options_class)]
            parameters.insert(0, (options_class, [name for name in names if name not in hidden]))
            hidden.update(names)
        return parameters


def subcommand(example: str, **facts: Any) -> Callable[[Callable], Subcommand]:
    """Makes a function a subcommand, see `Subcommand`. Its docstring is the summary."""

    def new(run: Callable) -> Subcommand:
        summary = run.__doc__.removesuffix(".")
        name = run.__name__.replace("_", "-")
        return Subcommand(name, summary[0].lower() + summary[1:], example, run, **facts)

    return new


def named_file(text: Any) -> Any:
    """Parses `NAME=FILE`; a pair is returned as it is."""
    if not isinstance(text, str):
        return text
    name, separator, file = text.partition("=")
    if not (name and separator and file):
        raise ValueError(f"must be NAME=FILE, not {text!r}")
    return name, file


def _as_layers(layers: str | int) -> str | int:
    if isinstance(layers, int) or layers in LAYERS:
        return layers
    if not layers.isdecimal():
        raise ValueError(f"use {', '.join(LAYERS)} or a number, not {layers!r}")
    return int(layers)


Model = Annotated[str, setting(is_positional=True, metavar="MODEL", help=CHECKPOINT)]
LanguageModel = Annotated[
    str,
    setting(
        is_positional=True,
        metavar="CHECKPOINT",
        help="checkpoint with a softmax: small-en, or a work directory of elmo-tf train",
    ),
]
TextFiles = Annotated[
    Texts,
    setting(
        is_positional=True,
        metavar="FILES",
        help="text, one tokenized sentence per line; .gz is decompressed; - is stdin",
    ),
]
Layers = Annotated[
    str | int,
    PlainValidator(_as_layers),
    setting(
        metavar="|".join([*LAYERS, "N"]),
        help="all layers (one vector per layer and token); their concat, average or sum; the top "
        "layer; or one layer by number, from 0. mix is the average",
    ),
]
Precision = Annotated[
    Literal["float32", "bfloat16"],
    setting(
        help="precision of matrix products; bfloat16 is less exact, and faster on processors with "
        "bfloat16 instructions"
    ),
]
BatchTokens = Annotated[int, setting(ge=1, help="tokens per batch")]
Overwrite = Annotated[bool, setting(help="replace existing outputs")]
InputFormat = Annotated[
    Literal["text", "conll", "conllu", "fasta"] | None,
    setting(default_help="by the file name", help="format of the input"),
]
TokensFormat = Annotated[
    Literal["text", "fasta"] | None,
    setting(default_help="by the file name", help="format of the text; fasta: protein sequences"),
]
TokenColumn = Annotated[
    int | None,
    setting(ge=1, default_help="1, or 2 of .conllu", help="column of the tokens, from 1"),
]
ModelDirectory = Annotated[
    str, setting(is_positional=True, metavar="DIR", help="the model is written to DIR/VERSION")
]
ModelVersion = Annotated[int, setting(ge=0, help="version number of the model")]
NamedVectors = Annotated[
    tuple[Annotated[tuple[str, str], PlainValidator(named_file)], ...],
    setting(
        metavar="NAME=FILE",
        help="also measure vectors in files: .hdf5 or .parquet with one vector per token, as by "
        "elmo-tf embed, for the same sentences; or static word vectors (text, or word2vec .bin). A "
        "token is a line of CoNLL columns; in .data.xml a word between spaces, so an expression of "
        "several words is several tokens (format: "
        "docs/guides/integrations.md, Vectors of other models)",
    ),
]


def named_vectors(vectors: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Opens the files of `--vectors`; returns them by their names.

    Raises:
        ValueError: a name is given twice; or see `open_vectors`.
    """
    from elmo_tf.evaluation.stored_vectors import open_vectors

    names = [name for name, _ in vectors]
    if len(set(names)) < len(names):
        raise ValueError(f"--vectors has a name twice: {' '.join(names)}")
    return {name: open_vectors(file) for name, file in vectors}


def text_sources(patterns: Iterable[str], format: str | None = None) -> list[Any]:
    """The files that match some patterns, see `sentence_files`. `-` is stdin, read once."""
    from elmo_tf.text.reading import sentence_files

    matches = ([sys.stdin.buffer] if p == STDIN else sentence_files([p], format) for p in patterns)
    return list(dict.fromkeys(itertools.chain.from_iterable(matches)))


@contextlib.contextmanager
def stdin_in_a_file(paths: Sequence[str]) -> Iterator[list[str]]:
    """Replaces `-` by the path of a temporary copy of stdin, for text that is read repeatedly."""
    if STDIN not in paths:
        yield list(paths)
        return
    with tempfile.TemporaryDirectory(prefix="elmo-tf-") as folder:
        copy = os.path.join(folder, "stdin")
        with open(copy, "wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        yield [copy if path == STDIN else path for path in paths]


def print_json(content: Any, indent: int | None = None) -> None:
    """Prints one JSON value, see `json_text`."""
    print(json_text(content, indent))


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

    def report(self, content: Mapping[str, Any], markdown: Callable[[], str]) -> None:
        """Prints the results as JSON or as what `markdown` returns, and writes them to `--json`."""
        if self.json is not None:
            write_json(self.json, content, self.overwrite)
        default = "markdown" if sys.stdout.isatty() else "json"
        if (self.report_format or default) == "json":
            print_json(content, indent=2)
        else:
            print(markdown())

    def measure(
        self,
        vectors: Mapping[str, Any],
        read: Callable[[], Iterable[Sequence[str]]],
        measure: Callable[[Any], Any],
        settings: Sequence[str],
        batch_tokens: int = 4096,
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Measures the vectors of the model and of the files of `--vectors`.

        Args:
            vectors: see `named_vectors`.
            read: yields the tokens of all sentences that are measured.
            measure: returns a result with `to_json`, given an `Embedder` or a `VectorSource`.
            settings: names of options.
            batch_tokens: see `Embedder`.

        Returns:
            The results by name, that of the model with the name ""; and as JSON, with the settings.
        """
        from elmo_tf.embedding import Embedder

        for source in vectors.values():
            source.check(read())
        embedder = Embedder(self.model, "all", self.precision, batch_tokens)
        results = {name: measure(source) for name, source in {"": embedder, **vectors}.items()}
        content = {name: getattr(self, name) for name in settings}
        content |= {"precision": embedder.precision, **results[""].to_json()}
        if vectors:
            content["vectors"] = {name: results[name].to_json() for name in vectors}
        return results, content


def markdown_table(
    headers: Sequence[str], rows: Iterable[Sequence[str | None]], text_columns: int = 1
) -> str:
    """A Markdown table. The first columns are text; the others are formatted numbers or None."""
    table = [["-" if cell is None else str(cell) for cell in row] for row in [headers, *rows]]
    widths = [max(2, *map(len, column)) for column in zip(*table, strict=True)]
    sides = "<" * text_columns + ">" * (len(headers) - text_columns)
    ends = {"<": "-", ">": ":"}
    rule = [ends[side].rjust(width, "-") for side, width in zip(sides, widths, strict=True)]
    lines = (map("{:{}{}}".format, row, sides, widths) for row in [table[0], rule, *table[1:]])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


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
