import gzip
import itertools
import os

import h5py
import numpy as np
import pytest

from elmo_tf import Embedder


@pytest.fixture
def text(tmp_path):
    """Four lines, the second and third without tokens, the last without a newline."""
    path = tmp_path / "text.txt"
    path.write_bytes(b"the cat sat\n\n  \n\xff a")
    return path


def read_hdf5(path):
    with h5py.File(path) as file:
        return {name: dataset[()] for name, dataset in file.items()}


def test_a_file_gets_one_dataset_a_line(embedder, text, tmp_path):
    embedder.embed_file(text, tmp_path / "new" / "vectors.hdf5")

    arrays = read_hdf5(tmp_path / "new" / "vectors.hdf5")
    lines = ["the cat sat", "", "", b"\xff a"]
    assert set(arrays) == {"0", "1", "2", "3"}
    for number, expected in enumerate(embedder.embed(lines)):
        np.testing.assert_allclose(arrays[str(number)], expected, atol=1e-5)
        assert arrays[str(number)].shape == expected.shape


def test_a_packed_file_is_unpacked(embedder, text, tmp_path):
    packed = tmp_path / "text.txt.gz"
    packed.write_bytes(gzip.compress(text.read_bytes()))

    embedder.embed_file(packed, tmp_path / "packed.hdf5")
    embedder.embed_file(text, tmp_path / "plain.hdf5")

    arrays, expected = read_hdf5(tmp_path / "packed.hdf5"), read_hdf5(tmp_path / "plain.hdf5")
    for number in map(str, range(4)):
        np.testing.assert_array_equal(arrays[number], expected[number])


def test_an_existing_output_is_refused_unless_that_is_allowed(embedder, text, tmp_path):
    output = tmp_path / "vectors.hdf5"
    output.write_text("kept")

    with pytest.raises(FileExistsError, match=r"vectors\.hdf5 exists already"):
        embedder.embed_file(text, output)
    assert output.read_text() == "kept"

    embedder.embed_file(text, output, overwrite=True)
    assert len(read_hdf5(output)) == 4


def test_a_failed_run_leaves_nothing(embedder, tmp_path):
    damaged = tmp_path / "text.txt.gz"
    damaged.write_bytes(gzip.compress(b"a b\n" * 500)[:-12])

    with pytest.raises(
        ValueError, match=r"Cannot unpack .*text\.txt\.gz: .*ended before the end-of-stream marker"
    ):
        embedder.embed_file(damaged, tmp_path / "vectors.hdf5")
    with pytest.raises(FileNotFoundError, match=r"nowhere"):
        embedder.embed_file(tmp_path / "nowhere", tmp_path / "vectors.hdf5")

    assert os.listdir(tmp_path) == ["text.txt.gz"]


def test_a_run_that_is_interrupted_half_way_leaves_nothing(embedder, text, tmp_path, monkeypatch):
    def interrupted(sentences):
        yield from itertools.islice(Embedder.embed(embedder, sentences), 2)
        raise KeyboardInterrupt

    monkeypatch.setattr(embedder, "embed", interrupted)
    with pytest.raises(KeyboardInterrupt):
        embedder.embed_file(text, tmp_path / "vectors.hdf5")

    assert os.listdir(tmp_path) == ["text.txt"]
