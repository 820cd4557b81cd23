from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def in_temporary_folder(request, tmp_path, monkeypatch):
    """Runs the test in a folder with the `LINES` of its module, if any, in text.txt."""
    monkeypatch.chdir(tmp_path)
    if lines := getattr(request.module, "LINES", None):
        Path("text.txt").write_text("\n".join(lines) + "\n")
