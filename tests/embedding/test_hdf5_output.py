"""Sentences as keys: `file[sentence]` works for every sentence that is a valid HDF5 name."""

import h5py
import numpy as np
import pytest

from elmo_tf.embedding.outputs.hdf5_output import HDF5Output
from elmo_tf.embedding.outputs.vector_output import OutputOptions
from elmo_tf.text.sentence_files import FileSentence

# Sentences with slashes (paths in HDF5), names that would be both a dataset and a group, a repeated
# sentence, invalid names, and a sentence that equals a replacement name (`line 6`).
TEXTS = [
    *("and / or", "a", "a/b", "x/y", "x", "the cat", "", ".", "the cat"),
    *("/ at the front", "at the end /", "line 6", "\udcff", "nul \0 nul", "서울", "/"),
    *("and //  or", "and // or", "./the cat", "the cat/", "/the cat"),
]


@pytest.fixture
def written(tmp_path):
    output = HDF5Output(OutputOptions(use_sentence_keys=True))
    sentences = [FileSentence(text, ["a", "b"]) for text in TEXTS]
    shards = []
    for start, end in ((0, 5), (5, len(TEXTS))):
        arrays = [np.full((2, 3), TEXTS.index(text), np.float32) for text in TEXTS[start:end]]
        shards.append((tmp_path / str(start), sentences[start:end]))
        output.write_shard(shards[-1][0], start, sentences[start:end], arrays)
    with h5py.File(output.join(shards, tmp_path)[""]) as file:
        yield file


def test_vectors_are_stored_under_their_sentence(written):
    for text in ("and / or", "a", "x/y", "the cat", "서울"):
        assert (written[text][()] == TEXTS.index(text)).all()


def test_sentences_that_are_invalid_names_are_stored_under_line_numbers(written):
    for text in (
        *("a/b", "x", "", ".", "line 6", "\udcff", "nul \0 nul", "/", "/ at the front"),
        *("and // or", "./the cat", "the cat/", "/the cat"),
    ):
        number = TEXTS.index(text)
        assert (written[f"line {number}"][()] == number).all()


def test_every_distinct_sentence_has_one_dataset_with_its_line_number(written):
    numbers = []
    written.visititems(
        lambda name, item: (
            numbers.append(item.attrs["line"]) if isinstance(item, h5py.Dataset) else None
        )
    )

    assert sorted(numbers) == [number for number, text in enumerate(TEXTS) if number != 8]
