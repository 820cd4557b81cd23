"""A small text and its index."""

import pytest

from elmo_tf.evaluation import OccurrenceIndex, build_occurrence_index

SENTENCES = [
    "the bank raised its rates",
    "they sat on the bank of the river",
    "the bank raised its rates",  # repeated: not counted
    "a bank lent the money",
    "caf\udce9 größe",
    "the play was good",
    "children play in the park",
    "they play cards , and play well",
    "no such word here",
    "the river rose",
]


@pytest.fixture(scope="session")
def lines():
    """The sentences in the order of the index, without repetitions."""
    return list(dict.fromkeys(SENTENCES))


@pytest.fixture(scope="session")
def text_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    lines = ["", *SENTENCES]  # empty lines are counted in line numbers
    path.write_text("\n".join(lines) + "\n", "utf-8", "surrogateescape")
    return path


@pytest.fixture(scope="session")
def folder(tmp_path_factory, embedder, text_file, checkpoint_directory):
    folder = tmp_path_factory.mktemp("indices") / "index"
    build_occurrence_index(embedder, [text_file], folder, model=str(checkpoint_directory))
    return folder


@pytest.fixture(scope="session")
def index(folder):
    return OccurrenceIndex(folder)
