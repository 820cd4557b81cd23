import os

import numpy as np
import pytest

from elmo_tf import Embedder
from elmo_tf.embedding.stored_layers import StoredLayers
from nested_arrays import assert_close

pytestmark = pytest.mark.usefixtures("eager_module")

SENTENCES = [["the", "cat", "sat", "."], [], ["a", "dog"], ["this", "and", "that", "or", "those"]]


class Fake:
    """An `Embedder` whose vectors depend on the tokens; counts how often it embeds."""

    layers, num_layers, dim = "all", 3, 12

    def __init__(self, arrays=None):
        self.calls = 0
        self._arrays = arrays

    def settings(self):
        return {"model": "fake", "precision": "float32"}

    def embed(self, sentences):
        self.calls += 1
        if self._arrays is not None:
            yield from self._arrays
            return
        for tokens in sentences:
            values = np.array([ord(token[0]) for token in tokens], np.float32)
            yield np.arange(36).reshape(3, 1, 12) + values[:, np.newaxis]


@pytest.fixture
def fake():
    return Fake()


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "keras"))
    return tmp_path / "keras" / "elmo_tf" / "layers"


def read(embedder, sentences=SENTENCES):
    """Returns the layers of all sentences, in memory."""
    return [*map(StoredLayers(embedder, sentences).sentence, range(len(sentences)))]


def test_layers_equal_those_of_the_embedder_in_float16(bilm):
    embedder = Embedder(bilm)
    expected = [array.astype(np.float16) for array in embedder.embed(SENTENCES)]

    for _ in range(2):  # computed, then read from the file
        stored = StoredLayers(embedder, SENTENCES)
        assert stored.shape == (3, 11, 12)
        assert_close([*map(stored.sentence, range(4))], expected)
        for number in range(3):
            layer = stored.layer(number)
            assert isinstance(layer, np.memmap)
            np.testing.assert_array_equal(layer, np.concatenate(expected, 1)[number])


def test_each_list_of_sentences_is_computed_once(fake):
    others = [["the", "cat", "sat", "."]], [["the", "cat"], ["sat", "."]], [["thecat", "sat", "."]]

    for _ in range(2):
        for sentences in (SENTENCES, *others):
            assert_close(read(fake, sentences), [*Fake().embed(sentences)])

    assert fake.calls == 1 + len(others)
    for name in ("model", "precision"):
        settings = {**fake.settings(), name: "other"}
        fake.settings = lambda settings=settings: settings
        read(fake)
    assert fake.calls == 3 + len(others)
    assert read(fake, [[]])[0].shape == (3, 0, 12)


@pytest.mark.parametrize("size", [0, 3 * 11 * 12 * 2 + 1])
def test_a_file_of_another_size_is_computed_again(fake, folder, size):
    expected = read(fake)
    (file,) = folder.iterdir()
    os.truncate(file, size)

    assert_close(read(fake), expected)
    assert fake.calls == 2


def test_values_too_large_for_float16_are_clipped_and_logged(caplog):
    array = np.full((3, 2, 12), 1.5, np.float32)
    array[1, 0, :5] = [7e4, -1e5, 65_504, 3e38, -65_504]

    (found,) = read(Fake([array]), [["a", "b"]])

    expected = np.float16([65_504, -65_504, 65_504, 65_504, -65_504, 1.5])
    np.testing.assert_array_equal(found[1, 0, :6], expected)
    assert "Values up to 3e+38 were clipped" in caplog.text


def test_a_failure_leaves_no_file_and_a_full_disk_is_found_before_the_computation(
    fake, folder, files_limited_to
):
    infinite = Fake([np.full((3, 2, 12), np.inf)])
    with pytest.raises(ValueError, match="Vectors of sentence 0 are not finite"):
        read(infinite)
    with files_limited_to(100), pytest.raises(OSError, match=r"too large|No space left on device"):
        read(fake)

    assert fake.calls == 0
    assert not folder.exists()
    assert_close(read(fake), [*Fake().embed(SENTENCES)])
