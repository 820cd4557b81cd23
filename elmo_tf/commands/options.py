"""What the options of several subcommands have in common."""

import argparse
import contextlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

STDIN = "-"  # in place of a text file
# The models that go by a name. (What knows their files is slow to import.)
MODELS = "small-en, which comes with elmo-tf, or the published original, small, medium, 5.5B"
CHECKPOINT = f"a directory, a zip, a URL, or a name: {MODELS}"


def add_files(parser: argparse.ArgumentParser) -> None:
    """The text that a subcommand reads."""
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILES",
        help=f"text, one tokenised sentence a line; .gz is unpacked; {STDIN} is stdin",
    )


def text_sources(patterns: Iterable[str]) -> list[Any]:
    """The text files that some patterns name, see `text_files`; `-` is stdin, to be read once."""
    from elmo_tf.text.corpus import text_files

    sources: dict[Any, None] = {}
    for pattern in patterns:
        found = [sys.stdin.buffer] if pattern == STDIN else text_files([pattern])
        sources.update(dict.fromkeys(found))
    return list(sources)


@contextlib.contextmanager
def stdin_in_a_file(paths: Sequence[str]) -> Iterator[list[str]]:
    """Gives `-` the path of a temporary copy of stdin, for text that is read more than once."""
    with contextlib.ExitStack() as stack:
        copy = None
        if STDIN in paths:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="elmo-tf-"))
            copy = os.path.join(folder, "stdin")
            with open(copy, "wb") as file:
                shutil.copyfileobj(sys.stdin.buffer, file)
        yield [copy if path == STDIN else path for path in paths]


def add_checkpoint(parser: argparse.ArgumentParser) -> None:
    """The checkpoint that a subcommand reads."""
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help=CHECKPOINT)


def add_language_model(parser: Any) -> None:
    """The language model that a subcommand reads."""
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="work directory of elmo-tf train")


def add_model(parser: argparse.ArgumentParser) -> None:
    """The model whose vectors a subcommand uses."""
    parser.add_argument("model", metavar="MODEL", help=CHECKPOINT)


def add_input_columns(group: Any) -> None:
    """How a file of sentences is read that may hold CoNLL columns."""
    group.add_argument(
        "--input-format",
        choices=("text", "conll", "conllu"),
        help="instead of what the input's name tells",
    )
    group.add_argument(
        "--token-column",
        type=positive,
        metavar="N",
        help="of CoNLL columns, from 1 (1, or 2 of .conllu)",
    )


def add_overwrite(parser: argparse.ArgumentParser) -> None:
    """The permission to replace an output."""
    parser.add_argument("--overwrite", action="store_true", help="replace an output that exists")


def add_precision(parser: argparse.ArgumentParser) -> None:
    """The precision in which a model multiplies where it is used."""
    parser.add_argument(
        "--precision",
        choices=("float32", "bfloat16"),
        default="float32",
        help="of products; bfloat16 is faster where the processor has it, and less exact (float32)",
    )


def print_json(content: Any, indent: int | None = None) -> None:
    """Writes one JSON value to stdout, see `json_text`."""
    print(json_text(content, indent))


def json_text(content: Any, indent: int | None = None) -> str:
    """A JSON value. What stands for an invalid byte of a text is escaped."""
    text = json.dumps(content, ensure_ascii=False, indent=indent)
    return text.encode("utf-8", "backslashreplace").decode()


def natural(text: str) -> int:
    """An integer of at least 0."""
    return _number(text, int, lambda value: value >= 0, "an integer of at least 0")


def positive(text: str) -> int:
    """An integer of at least 1."""
    return _number(text, int, lambda value: value >= 1, "an integer of at least 1")


def positive_float(text: str) -> float:
    """A number above 0."""
    return _number(text, float, lambda value: 0 < value < float("inf"), "a number above 0")


def not_negative(text: str) -> float:
    """A number of at least 0."""
    return _number(text, float, lambda value: 0 <= value < float("inf"), "a number of at least 0")


def rate(text: str) -> float:
    """A number from 0 to below 1."""
    return _number(text, float, lambda value: 0 <= value < 1, "a number from 0 to below 1")


def _number(text: str, kind: Callable, is_allowed: Callable, allowed: str) -> Any:
    try:
        value = kind(text)
    except ValueError:
        value = None
    if value is None or not is_allowed(value):
        raise argparse.ArgumentTypeError(f"must be {allowed}, not {text!r}")
    return value
