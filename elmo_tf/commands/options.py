"""Options and input and output helpers that several subcommands share."""

import argparse
import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from elmo_tf.config import LAYERS
from elmo_tf.files import json_text
from elmo_tf.settings import Setting

STDIN = "-"  # in place of a text file
# Where the format of files of vectors is described, for help texts.
VECTORS_GUIDE = "format: docs/guides/integrations.md, Vectors of other models"
# A literal, because the modules with the names of the models are slow to import.
CHECKPOINT = (
    "directory, archive (.zip, .tar.gz), URL or name of a checkpoint; names: small-en (included); "
    "original, small, medium, 5.5B, manylangs-de and other languages (downloaded); "
    "hf://OWNER/NAME (Hugging Face Hub)"
)


def add_flag(parser: Any, name: str, help: str) -> None:
    """Adds an option without a value."""
    parser.add_argument(name, action="store_true", help=help)


def add_choice(parser: Any, name: str, choices: Sequence[str], help: str) -> None:
    """Adds an option that takes one of `choices`. The first is the default."""
    parser.add_argument(name, choices=choices, default=choices[0], help=help)


def add_files(
    parser: argparse.ArgumentParser, content: str = "text, one tokenized sentence per line"
) -> None:
    """Adds the text files that a subcommand reads."""
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILES",
        help=f"{content}; .gz is decompressed; {STDIN} is stdin",
    )


def text_sources(patterns: Iterable[str]) -> list[Any]:
    """The text files that match some patterns, see `text_files`. `-` is stdin, read once."""
    from elmo_tf.text.corpus import text_files

    sources: dict[Any, None] = {}
    for pattern in patterns:
        found = [sys.stdin.buffer] if pattern == STDIN else text_files([pattern])
        sources.update(dict.fromkeys(found))
    return list(sources)


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


def add_model(parser: argparse.ArgumentParser, name: str = "model") -> None:
    """Adds the checkpoint that a subcommand reads."""
    parser.add_argument(name, metavar=name.upper(), help=CHECKPOINT)


def add_vectors(parser: Any) -> None:
    """Adds files of vectors, which are measured like a model."""
    parser.add_argument(
        "--vectors",
        nargs="+",
        type=named_file,
        default=[],
        metavar="NAME=FILE",
        help="also measure vectors in files: .hdf5 or .parquet with one vector per token, as by "
        "elmo-tf embed, for the same sentences; or static word vectors (text, or word2vec .bin). A "
        "token is a line of CoNLL columns; in .data.xml a word between spaces, so an expression of "
        f"several words is several tokens ({VECTORS_GUIDE})",
    )


def named_vectors(arguments: Any) -> dict[str, Any]:
    """Opens the files of `add_vectors`; returns them by their names.

    Raises:
        ValueError: a name is given twice; or see `open_vectors`.
    """
    from elmo_tf.evaluation.stored_vectors import open_vectors

    names = [name for name, _ in arguments.vectors]
    if len(set(names)) < len(names):
        raise ValueError(f"--vectors has a name twice: {' '.join(names)}")
    return {name: open_vectors(file) for name, file in arguments.vectors}


def named_file(text: str) -> tuple[str, str]:
    """Parses `NAME=FILE`."""
    name, separator, file = text.partition("=")
    if not (name and separator and file):
        raise argparse.ArgumentTypeError(f"must be NAME=FILE, not {text!r}")
    return name, file


def optionally_named_file(text: str) -> tuple[str, str]:
    """Parses `NAME=FILE`, or a file, which is its own name."""
    return named_file(text) if "=" in text else (text, text)


def add_language_model(parser: Any) -> None:
    """Adds the language model (a biLM with its softmax) that a subcommand reads."""
    parser.add_argument(
        "checkpoint",
        metavar="CHECKPOINT",
        help="checkpoint with a softmax: small-en, or a work directory of elmo-tf train",
    )


def add_input_columns(group: Any) -> None:
    """Adds the format of an input that holds sentences as text or CoNLL columns."""
    group.add_argument(
        "--input-format",
        choices=("text", "conll", "conllu"),
        help="format of the input (default: by the file name)",
    )
    add_token_column(group)


def add_token_column(group: Any) -> None:
    """Adds the column of the tokens in CoNLL files."""
    group.add_argument(
        "--token-column",
        **at_least_1(),
        help="column of the tokens, from 1 (default: 1, or 2 of .conllu)",
    )


def add_overwrite(parser: argparse.ArgumentParser) -> None:
    """Adds `--overwrite`."""
    add_flag(parser, "--overwrite", "replace existing outputs")


def add_layers(parser: argparse.ArgumentParser, has_mix: bool = False) -> None:
    """Adds the choice of layers, with `has_mix` also the learned mix of an exported model."""
    text = (
        "all layers (one vector per layer and token); their concat, average or sum; the top layer; "
        "or one layer by number, from 0"
    )
    if has_mix:
        text += "; or the learned mix of an exported model (with --cluster)"
    names = [name for name in LAYERS if has_mix or name != "mix"]

    def layers(value: str) -> str | int:
        if not value.isdecimal() and value not in names:
            raise argparse.ArgumentTypeError(f"use {', '.join(names)} or a number, not {value!r}")
        return int(value) if value.isdecimal() else value

    parser.add_argument(
        "--layers",
        type=layers,
        default="all",
        metavar="|".join([*names, "N"]),
        help=f"{text} (default: all)",
    )


def add_batch_tokens(parser: argparse.ArgumentParser) -> None:
    """Adds the size of the batches in which sentences are embedded."""
    parser.add_argument("--batch-tokens", **at_least_1(4096), help="tokens per batch")


def add_version(parser: argparse.ArgumentParser) -> None:
    """Adds the directory and version number of an exported model."""
    parser.add_argument("directory", metavar="DIR", help="the model is written to DIR/VERSION")
    parser.add_argument("--version", **at_least_0(1), help="version number of the model")


def add_precision(parser: argparse.ArgumentParser) -> None:
    """Adds the precision of a model's matrix products."""
    add_choice(
        parser,
        "--precision",
        ("float32", "bfloat16"),
        "precision of matrix products; bfloat16 is less exact, and faster on processors with "
        "bfloat16 instructions",
    )


def print_json(content: Any, indent: int | None = None) -> None:
    """Prints one JSON value, see `json_text`."""
    print(json_text(content, indent))


def at_least_1(default: int | None = None) -> dict[str, Any]:
    """The arguments of `add_argument` for an integer >= 1."""
    return {"type": positive, "default": default, "metavar": "N"}


def at_least_0(default: int | None = None) -> dict[str, Any]:
    """The arguments of `add_argument` for an integer >= 0."""
    return {"type": natural, "default": default, "metavar": "N"}


natural = Setting("", int, least=0).parse
positive = Setting("", int, least=1).parse
positive_float = Setting("", float, above=0).parse
not_negative = Setting("", float, least=0).parse
rate = Setting("", float, least=0, below=1).parse
