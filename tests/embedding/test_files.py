"""`embed_file` writes a complete file of vectors in every format, or no file."""

import gzip
import itertools
import os

import h5py
import numpy as np
import pyarrow.parquet as pq
import pytest

from elmo_tf.embedding.vector_files import HDF5File, OutputOptions
from elmo_tf.text.sentence_files import FileSentence
from vector_files import read_vectors, sentence_to_index

pytestmark = pytest.mark.usefixtures("eager_module")

formats = pytest.mark.parametrize("suffix", [".hdf5", ".parquet"])
LINES = ["the cat sat", "", "", "\udcff and / or"]


@pytest.fixture
def text(tmp_path):
    """Four lines, the second and third without tokens, the last without a newline."""
    path = tmp_path / "text.txt"
    path.write_bytes(b"the cat sat\n\n  \n\xff and / or")
    return path


@pytest.mark.parametrize(
    ("suffix", "pool"),
    [*itertools.product([".hdf5", ".parquet"], ["none", "mean"]), (".npy", "mean")],
)
@pytest.mark.parametrize(("layers", "dtype"), [("all", "float32"), ("top", "float16")])
def test_every_format_stores_one_array_per_line(
    embedder_of, text, tmp_path, suffix, layers, dtype, pool
):
    embedder = embedder_of(layers)
    output = tmp_path / "new" / f"vectors{suffix}"

    embedder.embed_file(text, output, dtype=dtype, pool=pool)

    arrays = read_vectors(output)
    assert sorted(arrays) == [0, 1, 2, 3]
    atol, rtol = (1e-6, 1e-3) if dtype == "float16" else (1e-5 if pool == "none" else 1e-6, 1e-7)
    vectors = embedder.embed(LINES) if pool == "none" else embedder.encode(LINES)
    for number, expected in enumerate(vectors):
        assert arrays[number].dtype == dtype
        assert arrays[number].shape == expected.shape
        np.testing.assert_allclose(arrays[number], expected, rtol, atol)
    assert not list(output.parent.glob("*.unfinished"))


def test_sentences_are_stored_unless_forget_sentences_is_set(embedder, text, tmp_path):
    for suffix in (".parquet", ".hdf5"):
        embedder.embed_file(text, tmp_path / f"with{suffix}")
        embedder.embed_file(text, tmp_path / f"without{suffix}", forget_sentences=True)

    table = pq.read_table(tmp_path / "with.parquet")
    assert table.column_names == ["line", "text", "tokens", "shape", "vectors"]
    assert table["line"].to_pylist() == [0, 1, 2, 3]
    assert table["text"].to_pylist() == ["the cat sat", "", "", "\ufffd and / or"]
    assert table["tokens"].to_pylist()[2:] == [[], ["\ufffd", "and", "/", "or"]]
    assert pq.read_table(tmp_path / "without.parquet").column_names == ["line", "shape", "vectors"]
    expected = {"the cat sat": "0", "": "2", "\udcff and / or": "3"}
    assert sentence_to_index(tmp_path / "with.hdf5") == expected
    with pytest.raises(KeyError, match="sentence_to_index"):
        sentence_to_index(tmp_path / "without.hdf5")


@formats
def test_an_empty_file_gives_an_output_without_arrays_and_a_damaged_one_no_files(
    embedder, tmp_path, suffix
):
    (tmp_path / "text.txt").write_bytes(b"")
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"a b\n" * 500)[:-12])

    with pytest.raises(ValueError, match=r"Cannot unpack .*cut\.gz: .*ended before the end-of-str"):
        embedder.embed_file(tmp_path / "cut.gz", tmp_path / f"vectors{suffix}")
    assert sorted(os.listdir(tmp_path)) == ["cut.gz", "text.txt"]
    count = embedder.embed_file(tmp_path / "text.txt", tmp_path / f"vectors{suffix}")

    assert count.sentences == 0
    assert read_vectors(tmp_path / f"vectors{suffix}") == {}


def test_suspicious_lines_are_counted_and_logged(embedder, text, tmp_path, caplog):
    with open(text, "ab") as file:
        file.write(b"\n" + b"x" * 10_000 + b" y\nThe cat sat.\nIt did.\n")

    count = embedder.embed_file(text, tmp_path / "vectors.hdf5")

    assert (count.sentences, count.tokens, count.longest) == (7, 14, 4)
    assert "2 that look like raw text, such as 'sat.'" in caplog.text
    assert "2 without tokens" in caplog.text
    assert "1 with a token longer than the model reads" in caplog.text


@formats
def test_an_existing_output_is_replaced_only_with_overwrite(embedder, text, tmp_path, suffix):
    output = tmp_path / f"vectors{suffix}"
    embedder.embed_file(text, output)
    text.write_text("only this")

    message = rf"vectors{suffix} exists\. Choose another path or add"
    with pytest.raises(FileExistsError, match=message):
        embedder.embed_file(text, output)
    assert len(read_vectors(output)) == 4

    embedder.embed_file(text, output, overwrite=True)
    assert len(read_vectors(output)) == 1
    if output.is_dir():  # a folder with other files is never replaced
        (output / "thesis.tex").write_text("years")
        with pytest.raises(FileExistsError, match=r"contains other files: thesis\.tex"):
            embedder.embed_file(text, output, overwrite=True)


@pytest.mark.parametrize(
    ("suffix", "choices", "message"),
    [
        ("", {}, r"must end in \.hdf5, \.h5, \.parquet, \.npy\. .*vectors"),
        (".npy", {}, r'NumPy \(\.npy\) requires pool="mean"'),
        (".parquet", {"use_sentence_keys": True}, "Parquet does not support"),
        (".hdf5", {"pool": "max"}, "`pool`: Input should be 'none' or 'mean'. Received: 'max'"),
        (".hdf5", {"use_sentence_keys": True, "forget_sentences": True}, "exclude each other"),
    ],
)
def test_an_unsupported_output_option_raises_an_error(
    embedder, text, tmp_path, suffix, choices, message
):
    with pytest.raises(ValueError, match=message):
        embedder.embed_file(text, tmp_path / f"vectors{suffix}", **choices)
    assert os.listdir(tmp_path) == ["text.txt"]


# Sentences with slashes (paths in HDF5), names that would be both a dataset and a group, a repeated
# sentence, invalid names, and a sentence that equals a replacement name (`line 6`).
TEXTS = [
    *("and / or", "a", "a/b", "x/y", "x", "the cat", "", ".", "the cat"),
    *("/ at the front", "at the end /", "line 6", "\udcff", "nul \0 nul", "서울", "/"),
    *("and //  or", "and // or", "./the cat", "the cat/", "/the cat", "sentence_to_index"),
]
VALID = ("and / or", "a", "x/y", "the cat", "서울")


def test_each_distinct_sentence_has_one_dataset_under_itself_or_its_line(tmp_path):
    output = HDF5File(OutputOptions(use_sentence_keys=True))
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

    with h5py.File(output.join(shards, (None, 3), tmp_path)) as file:
        file.visititems(add)

    keys = {TEXTS.index(text): text for text in VALID}
    expected = {keys.get(line, f"line {line}"): line for line in range(len(TEXTS)) if line != 8}
    assert {name: line for name, (line, _) in found.items()} == expected
    for line, vectors in found.values():
        assert (vectors == line).all()
