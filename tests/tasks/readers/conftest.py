import gzip

import pytest


@pytest.fixture
def file(tmp_path):
    """Writes a file; it is compressed if its name ends with .gz."""

    def write(content, name="file.conll"):
        path = tmp_path / name
        content = content if isinstance(content, bytes) else content.encode()
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return path

    return write
