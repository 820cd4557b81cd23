import functools

import numpy as np
import pytest

from elmo_tf import Elmo, Embedder
from elmo_tf.embedding import embedder as module
from elmo_tf.embedding import long_sentences

WORDS = ["a", "the", "cat", "서울", "sat", "x" * 20]


def sentence(length, seed=0):
    return list(np.random.default_rng(seed).choice(WORDS, length))


@pytest.fixture
def windows(monkeypatch):
    """Sets windows of 8 tokens and records the shapes of the windows that are read."""
    shapes = []
    read = module.WindowReader.__call__
    for where in (module, long_sentences):
        monkeypatch.setattr(where, "MIN_WINDOW", 2)
        monkeypatch.setattr(where, "MAX_WINDOW", 8)

    def watched(reader, sentences):
        compute = reader._read

        def recorded(windows, states):
            shapes.append(tuple(windows.shape[1:3]))
            return compute(windows, states)

        monkeypatch.setattr(reader, "_read", recorded)
        try:
            return read(reader, sentences)
        finally:
            monkeypatch.setattr(reader, "_read", compute)

    monkeypatch.setattr(module.WindowReader, "__call__", watched)
    return shapes


@pytest.fixture(scope="module")
def embedder_of(elmo):
    """Embedders of an Elmo, shared by the tests: each traces its graphs once."""
    return functools.cache(
        lambda layers, batch_tokens: Embedder(elmo, layers, batch_tokens=batch_tokens)
    )


# With two boundaries, 22 tokens fill three windows; for 23, the last window contains only `</S>`.
@pytest.mark.parametrize("length", [17, 22, 23, 50])
@pytest.mark.parametrize("layers", ["all", "mix"])
def test_windows_give_the_same_vectors_as_one_pass(embedder_of, windows, elmo, layers, length):
    tokens = sentence(length)

    (found,) = embedder_of(layers, 16).embed([tokens])

    assert {size for _, size in windows} == {8}
    assert found.dtype == np.float32
    expected = elmo([tokens]) if layers == "mix" else elmo.bilm([tokens])["layers"]
    np.testing.assert_allclose(found, expected[0], atol=1e-5)


def test_long_sentences_are_read_side_by_side_and_returned_in_input_order(
    embedder_of, windows, bilm
):
    sentences = [sentence(n, n) for n in (3, 40, 0, 17, 90, 16, 5, 9)]

    found = list(embedder_of("all", 32).embed(sentences))

    # The five sentences of more than 8 tokens; the shortest end first.
    assert [rows for rows, _ in windows] == sorted((rows for rows, _ in windows), reverse=True)
    assert windows[0] == (5, 6)
    assert windows[-1] == (1, 6)
    for tokens, vectors in zip(sentences, found, strict=True):
        expected = bilm([tokens])["layers"][0, :, : len(tokens)]
        np.testing.assert_allclose(vectors, expected, atol=1e-5)


def test_more_long_sentences_than_tokens_of_a_batch_are_read_in_parts(embedder_of, windows, bilm):
    sentences = [sentence(n, n) for n in range(9, 29)]

    found = list(embedder_of("all", 16).embed(sentences))

    assert max(rows * size for rows, size in windows) == 16
    for tokens, vectors in zip(sentences, found, strict=True):
        np.testing.assert_allclose(vectors, bilm([tokens])["layers"][0], atol=1e-5)


@pytest.mark.usefixtures("eager_functions")
def test_windows_start_from_the_warm_start_state(fresh_bilm, windows):
    new_bilm = fresh_bilm()
    new_bilm.warm_start(["the cat sat", "a 서울"])
    tokens = sentence(30)

    (found,) = Embedder(new_bilm, batch_tokens=16).embed([tokens])

    assert windows
    np.testing.assert_allclose(found, new_bilm([tokens])["layers"][0], atol=1e-5)


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
