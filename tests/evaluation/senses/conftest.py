"""Small texts with senses."""

from pathlib import Path

import pytest

from elmo_tf import Embedder
from elmo_tf.evaluation import SenseInventory
from sense_files import write_corpus, write_inventory


@pytest.fixture(scope="session")
def embedder(bilm):
    return Embedder(bilm)


@pytest.fixture
def corpus(tmp_path):
    """Writes a text with senses and its gold keys, and gives the path of the text."""

    def write(sentences, name="text", **kwargs) -> Path:
        return write_corpus(tmp_path / f"{name}.data.xml", sentences, **kwargs)

    return write


@pytest.fixture
def inventory(tmp_path):
    """Writes an inventory and reads it."""

    def read(*lines):
        return SenseInventory(write_inventory(tmp_path / "senses.tsv", *lines))

    return read
