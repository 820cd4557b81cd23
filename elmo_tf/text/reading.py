"""Text and FASTA files ─► lines; strings ─► UTF-8 bytes. Does not import TensorFlow."""

import contextlib
import glob
import gzip
import itertools
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from elmo_tf.logs import warn_once

# A file, or a binary stream such as `sys.stdin.buffer`.
TextSource = str | os.PathLike | BinaryIO
# Suffixes of each format other than text.
_SUFFIXES = {
    "conllu": (".conllu",),
    "conll": (".conll", ".conllx", ".conll.txt", ".bio", ".iob", ".iob2", ".iobes", ".bioes"),
    "fasta": (".fa", ".fasta", ".faa"),
}
_MAX_LISTED = 50  # invalid records


def read_lines(source: TextSource, first: int = 1) -> Iterator[str]:
    """Yields the lines of a text, split at newlines only, as `line_dataset` does in a graph.

    Invalid UTF-8 is kept as lone surrogates (`surrogateescape`). A byte order mark is removed. A
    file is decompressed if its name ends in `.gz`; a binary stream stays open. `first` is the
    number of the first line, above 1 for a part of a text.

    Raises:
        ValueError: a `.gz` file is damaged, or a carriage return alone separates two tokens.
        OSError: the file cannot be read.
    """
    name, is_path = _name_of(source), isinstance(source, str | os.PathLike)
    try:
        with open_bytes(source) if is_path else contextlib.nullcontext(source) as lines:
            for line_number, line in enumerate(lines, start=first):
                line = decode(line)
                if line_number == 1:
                    # TensorFlow's reader drops carriage returns, also before a byte order mark.
                    line = re.sub("^\r*\ufeff", "", line)
                # TensorFlow's reader drops all carriage returns, `str.split` splits there.
                if "\r" in line and line.replace("\r", "").split() != line.split():
                    message = "a carriage return between two tokens. Or is the text UTF-16?"
                    raise ValueError(f"{name}, line {line_number}: {message}")
                yield line
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"Cannot unpack {name}: {error}") from None


def sentence_lines(source: TextSource, first: int = 1, format: str | None = None) -> Iterator[str]:
    """Yields the sentences of a file as lines of tokens separated by whitespace.

    `format` is "text", for the lines of `read_lines`; "fasta", for the residues of each record of
    `fasta_records`; or None, for FASTA if the file has such a name.

    Raises:
        ValueError: the first line of text that is not empty begins with `>`, as in FASTA; or see
            `read_lines` and `fasta_records`.
        OSError: the file cannot be read.
    """
    name, lines = _name_of(source), read_lines(source, first)
    if (format or format_of(name)) == "fasta":
        for _, residues in fasta_records(lines, name):
            yield " ".join(residues)
        return
    is_beginning = first == 1
    for line_number, line in enumerate(lines, start=first):
        if is_beginning and line.startswith(">"):
            raise ValueError(
                f"{name}, line {line_number}: the text begins with '>', as in FASTA. "
                "Write a space before the '>'; or call FASTA .fasta, or use --input-format."
            )
        is_beginning = is_beginning and not line.strip()
        yield line


def _name_of(source: TextSource) -> str:
    return os.fspath(source) if isinstance(source, str | os.PathLike) else str(source.name)


def format_of(path: str | os.PathLike) -> str:
    """The format by a file's name: text, conll, conllu or fasta; text if the suffix is unknown."""
    name = os.fspath(path).lower().removesuffix(".gz")
    return next((format for format, ends in _SUFFIXES.items() if name.endswith(ends)), "text")


def fasta_records(
    lines: Iterable[str], name: str, on_invalid: str = "error", has_identifiers: bool = False
) -> Iterator[tuple[str, str]]:
    """Yields the identifiers and residues of the valid records of FASTA, of the file `name`.

    An identifier is the first word of a header, perhaps empty. Letters become upper case, the rare
    residues U, Z, O and B become X, as in SeqVec (Heinzinger et al. 2019), and a `*` at the end is
    removed. A record is invalid if it is empty or has a character that is not a letter.

    Args:
        on_invalid: "error" raises an error after the last record that names all invalid ones;
            "skip" logs them once.
        has_identifiers: whether a record is also invalid without an identifier of its own.

    Raises:
        ValueError: see `on_invalid`; or there is text before the first `>`.
    """
    header, line_of_header, parts = None, 0, []
    seen, invalid = set(), []
    for number, line in enumerate(itertools.chain(lines, ">"), start=1):
        if not line.startswith(">"):
            parts += line.split()
            if parts and header is None:
                received = f"Received: {line.strip()!r:.80}. If it is text, rename the file."
                raise ValueError(f"{name}, line {number}: FASTA must begin with '>'. {received}")
            continue
        if header is not None:
            identifier = "".join(header.split()[:1])
            residues = "".join(parts).removesuffix("*")
            place = f"{identifier!r} (line {line_of_header})"
            if not re.fullmatch("[A-Za-z]+", residues):
                invalid.append(f"{place} is not a sequence of letters: {residues!r:.80}")
            elif has_identifiers and (not identifier or identifier in seen):
                invalid.append(f"{place} has no identifier of its own")
            else:
                if has_identifiers:
                    seen.add(identifier)
                residues = re.sub("[BOUZ]", "X", residues.upper())
                yield identifier, residues
        header, line_of_header, parts = line[1:], number, []
    if invalid:
        more = f"; and {len(invalid) - _MAX_LISTED:,} more" * (len(invalid) > _MAX_LISTED)
        message = f"{name}: invalid records: {'; '.join(invalid[:_MAX_LISTED])}{more}."
        if on_invalid != "skip":
            raise ValueError(message)
        warn_once(message, "%s They are skipped.", message)


def open_bytes(path: str | os.PathLike, mode: str = "rb") -> BinaryIO:
    """Opens a text file to read or write bytes; compressed ones if its name ends in `.gz`."""
    return (gzip.open if is_compressed(path) else open)(path, mode)


def is_compressed(path: str | os.PathLike) -> bool:
    """Whether a text file is compressed, by its name."""
    return os.fspath(path).lower().endswith(".gz")


def text_files(patterns: Iterable[str | os.PathLike]) -> list[Path]:
    """Expands patterns to files, sorted by name within each pattern; see `glob`.

    A file that several patterns match is returned for each of them. Hidden files are not matched.

    Raises:
        FileNotFoundError: a pattern matches no file.
    """
    files: list[Path] = []
    for pattern in map(os.fspath, patterns):
        # An existing path is not a pattern, even if it contains wildcards.
        is_path = os.path.exists(pattern)
        names = [pattern] if is_path else sorted(set(glob.glob(pattern, recursive=True)))
        matches = [Path(name) for name in names if name == pattern or not os.path.isdir(name)]
        if not matches:
            problem = "No text file matches" if glob.has_magic(pattern) else "There is no text file"
            raise FileNotFoundError(f"{problem} {pattern}.")
        files += matches
    return files


def checked_files(patterns: Iterable[str | os.PathLike], format: str | None = None) -> list[Path]:
    """The files of `text_files`. The first sentence of each is read, see `sentence_lines`."""
    files = text_files(patterns)
    for file in filter(os.path.isfile, files):  # a pipe can be read only once
        next(sentence_lines(file, format=format), None)
    return files


def check_regular_file(path: str | os.PathLike) -> None:
    """Raises `OSError` or `ValueError` if a text file cannot be read more than once."""
    if os.path.exists(path) and not os.path.isfile(path):  # opening a pipe would block
        raise ValueError(f"{path} is not a regular file, and the text is read more than once.")
    with open(path, "rb"):
        pass


def encode(string: str | bytes) -> bytes:
    """Encodes a string as UTF-8; returns `bytes` unchanged.

    Lone surrogates from U+DC80 to U+DCFF become single bytes, as in Python's `surrogateescape`. Any
    other lone surrogate becomes three bytes, as in `surrogatepass`.
    """
    if isinstance(string, bytes):
        return string
    try:
        return string.encode("utf-8", errors="surrogateescape")
    except UnicodeEncodeError:
        parts = enumerate(re.split("([\udc80-\udcff]+)", string))
        errors = "surrogatepass", "surrogateescape"
        return b"".join(part.encode("utf-8", errors[index % 2]) for index, part in parts)


def decode(text: str | bytes) -> str:
    """Decodes UTF-8, keeping invalid bytes as lone surrogates; returns a `str` unchanged."""
    return text.decode("utf-8", "surrogateescape") if isinstance(text, bytes) else text


def is_utf_8(line: str) -> bool:
    """Whether a line was valid UTF-8: it contains no surrogate of an invalid byte."""
    return not re.search("[\ud800-\udfff]", line)
