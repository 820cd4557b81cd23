"""Sentences as keys: `file[sentence]` works for every sentence that is a valid HDF5 name."""

import h5py
import numpy as np

from elmo_tf.embedding.vector_formats import HDF5Output
from elmo_tf.embedding.vector_output import OutputOptions
from elmo_tf.text.sentence_files import FileSentence

# Sentences with slashes (paths in HDF5), names that would be both a dataset and a group, a repeated
# sentence, invalid names, and a sentence that equals a replacement name (`line 6`).
TEXTS = [
    *("and / or", "a", "a/b", "x/y", "x", "the cat", "", ".", "the cat"),
    *("/ at the front", "at the end /", "line 6", "\udcff", "nul \0 nul", "서울", "/"),
    *("and //  or", "and // or", "./the cat", "the cat/", "/the cat"),
]
VALID = ("and / or", "a", "x/y", "the cat", "서울")


def test_each_distinct_sentence_has_one_dataset_under_itself_or_its_line(tmp_path):
    output = HDF5Output(OutputOptions(use_sentence_keys=True))
    sentences = [FileSentence(text, ["a", "b"]) for text in TEXTS]
    shards = []
    for start, end in ((0, 5), (5, len(TEXTS))):
        arrays = [np.full((2, 3), TEXTS.index(text), np.float32) for text in TEXTS[start:end]]
        shards.append((tmp_path / str(start), sentences[start:end]))
        output.write_shard(shards[-1][0], start, sentences[start:end], arrays)
    found = {}

    def add(name, item):
        if isinstance(item, h5py.Dataset):
            found[name] = item.attrs["line"], item[()]

    with h5py.File(output.join(shards, tmp_path)[""]) as file:
        file.visititems(add)

    keys = {TEXTS.index(text): text for text in VALID}
    expected = {keys.get(line, f"line {line}"): line for line in range(len(TEXTS)) if line != 8}
    assert {name: line for name, (line, _) in found.items()} == expected
    for line, vectors in found.values():
        assert (vectors == line).all()
