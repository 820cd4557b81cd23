import gzip
import json

import pytest


@pytest.fixture
def file(tmp_path):
    """Writes bytes, text, or what becomes JSON; compressed if the name ends with .gz."""

    def write(content, name="file.conll"):
        path = tmp_path / name
        if not isinstance(content, str | bytes):
            content = json.dumps(content)
        content = content if isinstance(content, bytes) else content.encode()
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return path

    return write
