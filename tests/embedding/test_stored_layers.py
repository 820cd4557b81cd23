import os

import numpy as np
import pytest

from elmo_tf import Embedder
from elmo_tf.embedding.stored_layers import StoredLayers
from elmo_tf.embedding.word_means import WordMeans
from elmo_tf.text.tokenizers import Token
from nested_arrays import assert_close

pytestmark = pytest.mark.usefixtures("eager_module")

SENTENCES = [["the", "cat", "sat", "."], [], ["a", "dog"], ["this", "and", "that", "or", "those"]]


@pytest.fixture
def calls(monkeypatch):
    """The lists of sentences that are embedded."""
    found, embed = [], Embedder.embed

    def watched(self, sentences):
        found.append(sentences)
        return embed(self, sentences)

    monkeypatch.setattr(Embedder, "embed", watched)
    return found


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "keras"))
    return tmp_path / "keras" / "elmo_tf" / "layers"


def read(embedder, sentences=SENTENCES):
    """Returns the layers of all sentences, in memory."""
    return [*map(StoredLayers(embedder, sentences).sentence, range(len(sentences)))]


def test_layers_equal_those_of_the_embedder_in_float16_and_are_computed_once(embedder, calls):
    others = [["the", "cat", "sat", "."]], [["the", "cat"], ["sat", "."]], [["thecat", "sat", "."]]
    for sentences in (SENTENCES, *others):
        expected = [array.astype(np.float16) for array in embedder.embed(sentences)]
        calls.clear()
        for _ in range(2):  # computed, then read from the file
            stored = StoredLayers(embedder, sentences)
            assert stored.layers.shape == (3, sum(map(len, sentences)), 12)
            assert_close([*map(stored.sentence, range(len(sentences)))], expected)
            for number in range(3):
                layer = stored.layers[number]
                assert isinstance(layer, np.memmap)
                np.testing.assert_array_equal(layer, np.concatenate(expected, 1)[number])
        assert calls == [sentences]
    assert read(embedder, [[]])[0].shape == (3, 0, 12)


@pytest.mark.parametrize("name", ["model", "precision"])
def test_layers_of_another_model_or_precision_are_computed(embedder, calls, monkeypatch, name):
    read(embedder)
    settings = {**embedder.settings(), name: "other"}
    monkeypatch.setattr(embedder, "settings", lambda: settings)
    read(embedder)
    assert len(calls) == 2


class Beginning(int):  # a tokenizer whose only token is the beginning of the text
    def __call__(self, text):
        return [[Token(text[:self], 0, int(self))]]

    def __repr__(self):
        return "Beginning"


def test_layers_of_words_depend_on_the_tokens_of_a_function(bilm):
    sources = [WordMeans(Embedder(bilm, tokenizer=Beginning(length))) for length in (2, 1)]
    (first,), (second,) = (read(source, [["abc"]]) for source in sources)
    assert (first != second).any()


@pytest.mark.parametrize("size", [0, 3 * 11 * 12 * 2 + 1])
def test_a_file_of_another_size_is_computed_again(embedder, calls, folder, size):
    expected = read(embedder)
    (file,) = folder.iterdir()
    os.truncate(file, size)

    assert_close(read(embedder), expected)
    assert len(calls) == 2


def test_a_failure_leaves_no_file_and_a_full_disk_is_found_before_the_computation(
    embedder, calls, folder, files_limited_to, monkeypatch
):
    with files_limited_to(100), pytest.raises(OSError, match=r"too large|No space left on device"):
        read(embedder)
    assert not calls
    for value in (np.nan, -np.inf, 7e4):
        arrays = [np.full((3, 4, 12), 65_504.0), np.zeros((3, 0, 12)), np.full((3, 2, 12), value)]
        monkeypatch.setattr(embedder, "embed", lambda _, arrays=arrays: iter(arrays))
        with pytest.raises(ValueError, match="Vectors of sentence 2 have NaN or values beyond"):
            read(embedder)
    assert not folder.exists()
