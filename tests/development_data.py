"""Real data and published files, which stand beside the repository where it is developed."""

from pathlib import Path

import pytest


def shared(*names):
    """A path below the folder `shared`; skips the test where it is not at hand."""
    for parent in Path(__file__).resolve().parents:
        for folder in (parent / "shared", parent.parent / "shared"):
            path = folder.joinpath(*names)
            if path.exists():
                return path
    return pytest.skip(f"{'/'.join(('shared', *names))} is not here")
