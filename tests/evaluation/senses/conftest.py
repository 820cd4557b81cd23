"""Small sense-annotated texts."""

from pathlib import Path

import pytest

from elmo_tf.evaluation import SenseInventory
from sense_files import write_corpus, write_inventory


@pytest.fixture
def corpus(tmp_path):
    """Writes a sense-annotated text and its gold keys; returns the path of the text."""

    def write(sentences, name="text", **kwargs) -> Path:
        return write_corpus(tmp_path / f"{name}.data.xml", sentences, **kwargs)

    return write


@pytest.fixture
def inventory(tmp_path):
    """Writes an inventory and reads it."""

    def read(*lines):
        return SenseInventory(write_inventory(tmp_path / "senses.tsv", *lines))

    return read
