"""The description of an occurrence index, `index.json`: reads and checks it."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from elmo_tf.text.corpus import text_files

DESCRIPTION_FILE = "index.json"
FORMAT = 1


def read_description(folder: Path) -> dict[str, Any]:
    """Reads the description of an index, and checks the sizes of its files.

    Raises:
        FileNotFoundError: there is no such directory.
        ValueError: it is not an index, has another format, or a file is damaged.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"There is no index {folder}.")
    file = folder / DESCRIPTION_FILE
    try:
        content = json.loads(file.read_text("utf-8"))
        version = content["format"]
    except FileNotFoundError:
        raise ValueError(
            f"{folder} is not an index of occurrences: it has no {DESCRIPTION_FILE}."
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{file} is damaged: {error!r}. Rebuild the index.") from None
    if version != FORMAT:
        raise ValueError(
            f"{folder} has index format {version!r}, written by elmo_tf {content.get('elmo_tf')}; "
            f"this version reads format {FORMAT}. Rebuild the index."
        )
    for name, size in content["bytes"].items():
        found = (folder / name).stat().st_size if (folder / name).is_file() else None
        if found != size:
            state = "is missing" if found is None else f"has {found:,} bytes, not {size:,}"
            raise ValueError(f"The index is damaged: {folder / name} {state}. Rebuild the index.")
    return content


def check_same_text(
    description: dict[str, Any], folder: Path, patterns: Sequence[str], max_tokens: int | None
) -> None:
    """Checks that an index was built from some files (if any) and `max_tokens` (if not None).

    Raises:
        ValueError: the index was built from other files, or with another limit.
        OSError: a file cannot be read.
    """
    if patterns:
        files = [[os.path.abspath(file), file.stat().st_size] for file in text_files(patterns)]
        if sorted(files) != sorted(description["files"]):
            raise ValueError(
                f"The index {folder} was built from other files, or they have changed: "
                f"{_summary(description['files'])}, not {_summary(files)}. Build another index, or "
                "omit the corpus."
            )
    if max_tokens is not None and max_tokens != description["max_tokens"]:
        raise ValueError(
            f"The index {folder} was built with max_tokens={description['max_tokens']}, not "
            f"{max_tokens}. Build another index, or omit max_tokens."
        )


def _summary(files: Sequence[tuple[str, int]]) -> str:
    total = sum(size for _, size in files)
    return f"{len(files)} files of {total:,} bytes ({files[0][0]}{', …' * (len(files) > 1)})"
