"""What several subcommands share: options, input, and results as JSON and Markdown."""

import contextlib
import itertools
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from cyclopts.types import NonNegativeInt, PositiveInt

from elmo_tf.embedding import LAYERS
from elmo_tf.files import json_text

STDIN = "/dev/stdin"  # a single hyphen on the command line


def with_tokenizer(words: Sequence[str]) -> list[str]:
    """The words of a call, in which `--tokenize` without the code of a language means "model"."""
    words = list(words)
    if "--tokenize" in words:
        place = words.index("--tokenize") + 1
        code = "".join(words[place : place + 1])
        is_path = len(code) == 3 and os.path.exists(code)  # such as ner, which is no language
        if is_path or not _LANGUAGE.fullmatch(code):
            words.insert(place, "model")
    return words


class WrongCallError(ValueError):
    """Options that exclude each other, or one that another needs."""


CHECKPOINT = (
    "directory, archive (.zip, .tar.gz) or URL of a checkpoint; hf://OWNER/NAME (Hugging Face "
    "Hub); or the name of a model, such as small-en or original (see elmo-tf models)"
)
Model = Annotated[str, Parameter(help=CHECKPOINT)]
LanguageModel = Annotated[
    str,
    Parameter(help="checkpoint with a softmax: small-en, or a work directory of elmo-tf train"),
]
TextFiles = Annotated[
    tuple[str, ...],
    Parameter(help="text, one tokenized sentence per line; .gz is decompressed; - is stdin"),
]
Layers = Annotated[
    int | Literal[*LAYERS],
    Parameter(
        help="all (one vector per layer and token); concat, average or sum of the layers; top; or "
        "the number of a layer, from 0. mix is average"
    ),
]
Precision = Annotated[
    Literal["float32", "bfloat16"],
    Parameter(
        help="precision of matrix products; bfloat16 is less exact, and faster on processors with "
        "bfloat16 instructions"
    ),
]
ResultFormat = Annotated[
    Literal["json", "markdown"] | None,
    Parameter(help="format on stdout; by default markdown on a terminal, and json elsewhere"),
]
Overwrite = Annotated[bool, Parameter(help="replace existing outputs")]
InputFormat = Annotated[
    Literal["text", "conll", "conllu", "fasta"] | None,
    Parameter(help="format of the input; by default chosen by the file name"),
]
TokenColumn = Annotated[
    PositiveInt | None,
    Parameter(help="column of the tokens, from 1; by default 1, or 2 of .conllu"),
]
TokenizerName = Annotated[
    str | None,
    Parameter(
        name="--tokenize",
        help="the text is raw: split it with the tokenizer of this language (en, de, ko, …, xx for "
        "any; see elmo-tf tokenize), or without a value with that of the model's training text; "
        "the words that ner, pos, srl and probe label stay, with the mean vectors of their tokens",
    ),
]
_LANGUAGE = re.compile("model|whitespace|ko-morph|[a-z]{2,3}")
ModelDirectory = Annotated[str, Parameter(help="the model is written to DIRECTORY/VERSION")]
ModelVersion = Annotated[NonNegativeInt, Parameter(help="version number of the model")]
NamedVectors = Annotated[
    tuple[str, ...],
    Parameter(
        help="NAME=FILE: also measure vectors in files: .hdf5 or .parquet with one vector per "
        "token, as by elmo-tf embed, for the same sentences; or static word vectors (text). "
        "A token is a line of CoNLL columns; in .data.xml a word between spaces, so an expression "
        "of several words is several tokens"
    ),
]


def text_sources(patterns: Iterable[str], format: str | None = None) -> list[Any]:
    """The files that match some patterns, see `checked_files`. `STDIN` is read once."""
    from elmo_tf.text.reading import checked_files

    matches = ([sys.stdin.buffer] if p == STDIN else checked_files([p], format) for p in patterns)
    return list(itertools.chain.from_iterable(matches))


@contextlib.contextmanager
def stdin_in_a_file(paths: Sequence[str]) -> Iterator[list[str]]:
    """Replaces `STDIN` by the path of a temporary copy, for text that is read repeatedly."""
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


def print_results(
    content: Mapping[str, Any], markdown: Callable[[], str], format: str | None
) -> None:
    """Prints the results of a measurement as JSON, or as what `markdown` returns."""
    default = "markdown" if sys.stdout.isatty() else "json"
    if (format or default) == "json":
        print_json(content, indent=2)
    else:
        print(markdown())


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


def named_vectors(vectors: Sequence[str]) -> dict[str, Any]:
    """Opens the files `NAME=FILE` of `--vectors`, see `open_vectors`, by their names."""
    from elmo_tf.evaluation.stored_vectors import open_vectors

    pairs = [text.partition("=") for text in vectors]
    names = {name for name, _, path in pairs if name and path}
    if len(names) < len(pairs):
        message = "--vectors need unique names: NAME=FILE. Received: "
        raise WrongCallError(message + " ".join(vectors))
    return {name: open_vectors(file) for name, _, file in pairs}
