"""The folder of an index ─► its description, checked."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from elmo_tf.evaluation.occurrence_index.building import FORMAT, META
from elmo_tf.text.corpus import text_files

# What is read of a description, besides its format and the sizes of its files.
_KEYS = (
    *("model", "digest", "precision", "files", "max_tokens"),
    *("sentences", "tokens", "types", "layers"),
)


def read_description(folder: Path) -> dict[str, Any]:
    """What was written of an index when it was built.

    Raises:
        FileNotFoundError: there is no such folder.
        ValueError: it is no index, one of another version, or a file of it is damaged.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"There is no index {folder}.")
    file = folder / META
    try:
        content = json.loads(file.read_text("utf-8"))
        version, sizes = content["format"], content["bytes"]
    except FileNotFoundError:
        raise ValueError(f"{folder} is no index of occurrences: it has no {META}.") from None
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{file} is damaged: {error!r}. Build the index anew.") from None
    if version != FORMAT:
        raise ValueError(
            f"{folder} is an index of format {version!r}, made by elmo_tf {content.get('elmo_tf')};"
            f" format {FORMAT} is read here. Build the index anew."
        )
    missing = [key for key in _KEYS if key not in content]
    if missing:
        raise ValueError(f"{file} is damaged: no {missing[0]!r} is in it. Build the index anew.")
    for name, size in sizes.items():
        found = (folder / name).stat().st_size if (folder / name).is_file() else None
        if found != size:
            state = "is missing" if found is None else f"has {found:,} bytes, not {size:,}"
            raise ValueError(f"The index is damaged: {folder / name} {state}. Build it anew.")
    return content


def check_same_text(
    content: dict[str, Any], folder: Path, patterns: Sequence[str], max_tokens: int | None
) -> None:
    """Refuses to take an index for one of other text.

    Args:
        content: see `read_description`.
        folder: of the index.
        patterns: files that it should be of; none if that is left open.
        max_tokens: which it should be cut to; None if that is left open.

    Raises:
        ValueError: it is of other files, or cut elsewhere.
        OSError: a file cannot be read.
    """
    if patterns:
        files = [[os.path.abspath(file), file.stat().st_size] for file in text_files(patterns)]
        if sorted(files) != sorted(content["files"]):
            raise ValueError(
                f"The index {folder} is of other files, or they have changed since: it was built "
                f"from {_told(content['files'])}, not {_told(files)}. Build another index, or "
                "leave the corpus out."
            )
    if max_tokens is not None and max_tokens != content["max_tokens"]:
        raise ValueError(
            f"The index {folder} was built with max_tokens={content['max_tokens']}, not "
            f"{max_tokens}. Build another index, or leave that out."
        )


def _told(files: Sequence[tuple[str, int]]) -> str:
    total = sum(size for _, size in files)
    return f"{len(files)} files of {total:,} bytes ({files[0][0]}{', …' * (len(files) > 1)})"
