"""The folder of an exported model: its versions, each in a folder named by a number."""

from pathlib import Path


def versions_in(directory: Path) -> dict[int, Path]:
    """The versions in a folder, by their numbers; empty if there is none."""
    folders = [path.parent for path in directory.glob("*/saved_model.pb")]
    return {
        int(folder.name): folder
        for folder in folders
        if folder.name.isascii() and folder.name.isdecimal() and int(folder.name) < 2**63
    }
