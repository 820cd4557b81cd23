import functools

import numpy as np
import pytest

from elmo_tf import Elmo, Embedder
from elmo_tf.embedding import embedder as module

WORDS = ["a", "the", "cat", "서울", "sat", "x" * 20]


def sentence(length, seed=0):
    return list(np.random.default_rng(seed).choice(WORDS, length))


@pytest.fixture
def windows(monkeypatch):
    """Sets windows of 8 tokens and records the shapes of the windows that are read."""
    sizes = []
    read = module.WindowReader._read
    monkeypatch.setattr(module, "_WINDOW", 8)

    def watched(self, vectors, mask, states):
        sizes.append(vectors.shape)
        return read(self, vectors, mask, states)

    monkeypatch.setattr(module.WindowReader, "_read", watched)
    return sizes


@pytest.fixture(scope="module")
def embedder_of(elmo):
    """Embedders of an Elmo, shared by the tests: each traces its graphs once."""
    return functools.cache(
        lambda layers, batch_tokens: Embedder(elmo, layers, batch_tokens=batch_tokens)
    )


# With two boundaries, 22 tokens fill three windows; for 23, the last window contains only `</S>`.
@pytest.mark.parametrize("length", [17, 22, 23, 50])
@pytest.mark.parametrize("layers", ["all", "mix"])
def test_windows_give_the_same_vectors_as_one_long_window(embedder_of, windows, layers, length):
    tokens = sentence(length)
    (expected,) = embedder_of(layers, 4096).embed([tokens])
    assert not windows

    (found,) = embedder_of(layers, 16).embed([tokens])

    assert {shape[1] for shape in windows} == {8}
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_long_and_short_sentences_are_returned_in_input_order(embedder_of, windows):
    sentences = [sentence(n, n) for n in (3, 40, 0, 17, 90, 16, 5)]
    expected = list(embedder_of("all", 4096).embed(sentences))

    found = list(embedder_of("all", 16).embed(sentences))

    assert windows
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.usefixtures("eager_functions")
def test_windows_start_from_the_warm_start_state(fresh_bilm, windows):
    new_bilm = fresh_bilm()
    new_bilm.warm_start(["the cat sat", "a 서울"])
    tokens = sentence(30)
    (expected,) = Embedder(new_bilm).embed([tokens])

    (found,) = Embedder(new_bilm, batch_tokens=16).embed([tokens])

    assert windows
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.usefixtures("eager_functions")
def test_a_forward_bilm_is_read_in_windows(forward_bilm, windows):
    tokens = sentence(30)

    (found,) = Embedder(forward_bilm, batch_tokens=16).embed([tokens])

    assert windows
    np.testing.assert_allclose(found, forward_bilm([tokens])["layers"][0], atol=1e-5)


@pytest.mark.usefixtures("eager_functions")
def test_sentences_are_not_split_into_windows_for_a_mix_with_layer_norm(bilm, windows):
    elmo = Elmo(bilm, layer_norm=True)
    elmo.build()
    tokens = sentence(30)
    (expected,) = Embedder(elmo, "mix").embed([tokens])

    (found,) = Embedder(elmo, "mix", batch_tokens=16).embed([tokens])

    assert not windows
    np.testing.assert_allclose(found, expected, atol=1e-5)
