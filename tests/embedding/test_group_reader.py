import numpy as np
import pytest

from elmo_tf import Elmo, Embedder
from elmo_tf.embedding import group_reader as module
from elmo_tf.embedding.group_reader import GroupReader, TokenTable
from elmo_tf.models.token_ids import NUM_SPECIAL_TOKENS
from elmo_tf.text import batches

pytestmark = pytest.mark.usefixtures("eager_module")

SENTENCES = [["the", "cat"], [], ["서울", "the", "\udcff"], ["cat", "x" * 60, "on"]]


@pytest.mark.parametrize("capacity", [0, 6, 100])
def test_tokens_are_encoded_once_and_again_after_they_are_evicted(bilm, capacity, monkeypatch):
    # Several batches are encoded.
    monkeypatch.setattr(module, "_TOKENS_AT_ONCE", 3)
    table, encoded = TokenTable(bilm, capacity), []
    encode = table._encode
    monkeypatch.setattr(table, "_encode", lambda tokens: encoded.extend(tokens) or encode(tokens))
    for sentences in (SENTENCES, [["a", "b", "c", "the"]], SENTENCES, [["a"]]):
        for tokens, rows in zip(sentences, table.rows(sentences), strict=True):
            expected = bilm.token_embeddings(tokens) if tokens else np.zeros((0, 6))
            np.testing.assert_allclose(table.vectors[rows], expected, atol=1e-6)
    assert (len(encoded) == len(set(encoded)) == 9) == (capacity == 100)
    assert len(table._rows) <= max(capacity, 1)
    padding, *boundaries = table.vectors[:NUM_SPECIAL_TOKENS]
    assert not padding.any()
    np.testing.assert_allclose(boundaries, bilm.boundary_embeddings(), atol=1e-6)


def test_weights_that_change_between_two_calls_are_used(fresh_bilm):
    new_bilm = fresh_bilm()
    embedder = Embedder(new_bilm)
    before = embedder.encode("the cat")
    for weight in new_bilm.token_encoder.trainable_weights:
        weight.assign(weight * 0.5)

    expected = new_bilm(["the cat"])["layers"][0].numpy().mean(axis=(0, 1))
    np.testing.assert_allclose(embedder.encode("the cat"), expected, atol=1e-5)
    assert np.abs(before - expected).max() > 1e-3


WORDS = ["a", "the", "cat", "서울", "sat", "x" * 20]


def sentence(length, seed=0):
    return list(np.random.default_rng(seed).choice(WORDS, length))


def check(found, bilm, sentences, layer=slice(None)):
    for tokens, vectors in zip(sentences, found, strict=True):
        expected = bilm([tokens])["layers"][0, layer, ..., : len(tokens), :]
        np.testing.assert_allclose(vectors, expected, atol=1e-5)


@pytest.fixture
def windows(monkeypatch):
    """Sets windows of at most 8 tokens and records the (row, token) shapes that are read."""
    shapes = []
    monkeypatch.setattr(batches, "_LEAST_WINDOW", 2)
    monkeypatch.setattr(batches, "_MOST_WINDOW", 8)

    graph_of = GroupReader._graph

    def watched(reader, *kind):
        def read(vectors, *others):
            shapes.append(tuple(vectors.shape[1:3]))
            return graph_of(reader, *kind)(vectors, *others)

        return read

    monkeypatch.setattr(GroupReader, "_graph", watched)
    return shapes


@pytest.mark.parametrize("layers", ["all", "mix"])
def test_sentences_of_all_lengths_share_rows_and_are_returned_in_input_order(windows, elmo, layers):
    sentences = [sentence(n, n) for n in (3, 40, 0, 17, 90, 16, 5, 9)]

    found = list(Embedder(elmo, layers, batch_tokens=32).embed(sentences))

    # Rows of 90 and of 40 + 17 + 16 + 9 + 5 + 3 tokens.
    assert {rows for rows, _ in windows} == {2}
    assert sum(rows * size for rows, size in windows) < 1.1 * sum(map(len, sentences))
    if layers == "all":
        check(found, elmo.bilm, sentences)
    else:
        for tokens, vectors in zip(sentences, found, strict=True):
            np.testing.assert_allclose(vectors, elmo([tokens])[0, : len(tokens)], atol=1e-5)


@pytest.mark.parametrize("layer", [0, 1])
def test_only_the_layers_that_are_needed_are_read(windows, bilm, layer, monkeypatch):
    """The LSTMs above the layer have no result."""
    for stack in bilm.lstm_stacks:
        for lstm in stack.lstms[layer:]:
            monkeypatch.setattr(lstm, "read_packed", None)
    sentences = [sentence(n, n) for n in (3, 0, 17)]

    check(Embedder(bilm, layer).embed(sentences), bilm, sentences, layer)
    assert len(windows) == 3 * (layer > 0)


def test_windows_start_from_the_warm_start_state(fresh_bilm, forward_bilm, windows):
    new_bilm = fresh_bilm()
    new_bilm.warm_start(["the cat sat", "a 서울"])
    for each in (new_bilm, forward_bilm):
        check(Embedder(each, batch_tokens=16).embed([sentence(30)]), each, [sentence(30)])
    assert windows


def test_a_mix_with_layer_norm_is_that_of_each_sentence(bilm, windows):
    elmo = Elmo(bilm, layer_norm=True)
    sentences = [sentence(30), ["the", "cat"], []]

    found = list(Embedder(elmo, "mix", batch_tokens=16).embed(sentences))

    for tokens, vectors in zip(sentences[:2], found, strict=False):
        np.testing.assert_allclose(vectors, elmo([tokens])[0], atol=1e-5)
    assert found[2].shape == (0, bilm.config.output_dim)
    assert len(windows) > 1
