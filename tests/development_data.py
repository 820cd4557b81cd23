"""Real data and published files, which developers have next to the repository."""

from pathlib import Path

import pytest


def shared(*names):
    """A path below the folder `shared`; skips the test if the path does not exist."""
    for parent in Path(__file__).resolve().parents:
        for folder in (parent / "shared", parent.parent / "shared"):
            path = folder.joinpath(*names)
            if path.exists():
                return path
    return pytest.skip(f"{'/'.join(('shared', *names))} is not here")
