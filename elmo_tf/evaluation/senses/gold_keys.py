"""Files of sense keys, one occurrence a line ◄─► the keys of each occurrence."""

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from elmo_tf.text.vocabulary import read_lines

_DATA_SUFFIX, _GOLD_SUFFIX = ".data.xml", ".gold.key.txt"


def name_of(data: str | os.PathLike) -> str:
    """What a text is called: the name of its file without `.data.xml`."""
    return Path(data).name.removesuffix(_DATA_SUFFIX)


def gold_beside(data: str | os.PathLike) -> Path:
    """The file of gold keys that belongs to a text: `X.gold.key.txt` beside `X.data.xml`.

    Raises:
        ValueError: the text has another name.
    """
    data = Path(data)
    if not data.name.endswith(_DATA_SUFFIX):
        raise ValueError(
            f"Cannot tell the gold keys of {data}: of X{_DATA_SUFFIX} they are X{_GOLD_SUFFIX} "
            "beside it. Rename the file."
        )
    return data.with_name(name_of(data) + _GOLD_SUFFIX)


def read_keys(path: str | os.PathLike) -> dict[str, tuple[str, ...]]:
    """Reads lines of an occurrence's id and its sense keys, between spaces.

    Returns:
        For each id its keys, each once.

    Raises:
        ValueError: a line without a key, an id on two lines, or no line at all.
        OSError: the file cannot be read.
    """
    keys: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(read_lines(path), start=1):
        fields = line.split()
        if not fields:
            continue
        occurrence, *senses = fields
        place = f"{os.fspath(path)}, line {number}"
        if not senses:
            raise ValueError(f"{place}: {occurrence!r} has no sense key.")
        if occurrence in keys:
            raise ValueError(f"{place}: {occurrence!r} had its sense keys on an earlier line.")
        # A sense is named as often as it occurs, and kept once.
        keys[occurrence] = tuple(dict.fromkeys(map(sys.intern, senses)))
    if not keys:
        raise ValueError(f"{os.fspath(path)} holds no sense key.")
    return keys


def write_keys(path: Path, keys: Mapping[str, Iterable[str]]) -> None:
    """Writes such a file; an occurrence without a key is left out."""
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        for occurrence, senses in keys.items():
            if senses:
                file.write(f"{' '.join([occurrence, *senses])}\n")
