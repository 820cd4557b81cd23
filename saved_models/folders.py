"""The folder of an exported model: its versions, each in a folder named by a number."""

import os
from pathlib import Path

from elmo_tf.files import refuse_directory

# The content of a version's folder.
VERSION_FILES = ("saved_model.pb", "fingerprint.pb", "variables", "assets", "assets.extra")


def versions_in(directory: Path) -> dict[int, Path]:
    """The versions in a folder, by their numbers; empty if there is none."""
    folders = [path.parent for path in directory.glob("*/saved_model.pb")]
    return {
        int(folder.name): folder
        for folder in folders
        if folder.name.isascii() and folder.name.isdecimal() and int(folder.name) < 2**63
    }


def check_new_version(directory: str | os.PathLike, version: int, overwrite: bool) -> None:
    """Raises `FileExistsError`, which names the next free version, if one may not be written.

    Args:
        directory: of all versions of a model.
        version: the one to write.
        overwrite: whether it may be replaced.
    """
    directory = Path(directory)
    free = max([version, *versions_in(directory)]) + 1
    remedy = (
        f"Add `--version {free}` or `--overwrite` (in Python: version={free} or overwrite=True)."
    )
    refuse_directory(directory / str(version), overwrite, VERSION_FILES, remedy)
