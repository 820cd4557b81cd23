"""The folder of an exported model, with its versions in numbered folders."""

import os
from pathlib import Path

from elmo_tf.files import refuse_directory

# Files and folders of a version.
VERSION_FILES = ("saved_model.pb", "fingerprint.pb", "variables", "assets", "assets.extra")


def versions_in(directory: Path) -> dict[int, Path]:
    """Returns the folders of all versions by number; empty if there are none."""
    folders = [path.parent for path in directory.glob("*/saved_model.pb")]
    return {
        int(folder.name): folder
        for folder in folders
        if folder.name.isascii() and folder.name.isdecimal() and int(folder.name) < 2**63
    }


def newest_version(path: str | os.PathLike) -> Path | None:
    """Returns the folder of an exported model or of its newest version; None if there is none."""
    path = Path(path)
    if (path / "saved_model.pb").is_file():
        return path
    versions = versions_in(path)
    return versions[max(versions)] if versions else None


def check_new_version(directory: str | os.PathLike, version: int, overwrite: bool) -> None:
    """Checks that a version may be written to the directory of a model.

    Raises:
        FileExistsError: the version exists; the message names the next free version.
    """
    directory = Path(directory)
    free = max([version, *versions_in(directory)]) + 1
    remedy = (
        f"Add `--version {free}` or `--overwrite` (in Python: version={free} or overwrite=True)."
    )
    refuse_directory(directory / str(version), overwrite, VERSION_FILES, remedy)
