import numpy as np
import pytest

from elmo_tf import Embedder, Vocabulary
from elmo_tf.embedding import token_table
from elmo_tf.embedding.token_table import TokenTable
from elmo_tf.models.token_ids import NUM_SPECIAL_TOKENS

pytestmark = pytest.mark.usefixtures("eager_module")

SENTENCES = [[b"the", b"cat"], [], ["서울".encode(), b"the", b"\xff"], [b"cat", b"x" * 60, b"on"]]
NUM_TOKENS = 6


@pytest.fixture
def encoded(monkeypatch):
    """The tokens that a table asks its biLM to encode, in order."""
    found = []
    encode = TokenTable._encode

    def watched(self, tokens):
        found.extend(tokens)
        return encode(self, tokens)

    monkeypatch.setattr(TokenTable, "_encode", watched)
    return found


def assert_matches_bilm(bilm, table, sentences):
    for tokens, rows in zip(sentences, table.rows(sentences), strict=True):
        assert rows.dtype == np.int32
        vectors = table.vectors(rows)
        assert vectors.dtype == np.float32
        words = [token.decode("utf-8", "surrogateescape") for token in tokens]
        expected = bilm.token_embeddings(words) if words else np.zeros((0, 6))
        np.testing.assert_allclose(vectors, expected, atol=1e-6)


def test_the_first_rows_are_padding_and_the_sentence_boundaries(bilm):
    vectors = TokenTable(bilm, 100).vectors(np.arange(NUM_SPECIAL_TOKENS))

    np.testing.assert_array_equal(vectors[0], np.zeros(6))
    np.testing.assert_allclose(vectors[1:], bilm.boundary_embeddings(), atol=1e-6)


def test_repeated_tokens_are_encoded_once(bilm, encoded):
    table = TokenTable(bilm, 100)
    for sentences in (SENTENCES, SENTENCES[::-1], [[b"cat"], [b"sat"]]):
        table.rows(sentences)

    assert len(encoded) == len(set(encoded)) == NUM_TOKENS + 1


@pytest.mark.parametrize("capacity", [0, 6, 100])
def test_vectors_match_the_bilm_even_after_tokens_are_evicted(bilm, capacity):
    table = TokenTable(bilm, capacity, pinned=[b"the", b"never"])
    for sentences in (SENTENCES, [[b"a", b"b", b"c", b"the"]], SENTENCES, [[b"a"]]):
        assert_matches_bilm(bilm, table, sentences)
    assert len(table._rows) <= 2 + max(capacity, 1)


def test_pinned_tokens_are_never_encoded_again(bilm, encoded):
    table = TokenTable(bilm, 0, pinned=[b"the", b"cat"])
    for _ in range(3):
        table.rows([[b"the", b"dog"], [b"cat"]])

    assert encoded == [b"the", b"cat", b"dog", b"dog", b"dog"]


def test_a_table_grows_and_encodes_many_tokens_in_batches(bilm, monkeypatch):
    monkeypatch.setattr(token_table, "_TOKENS_AT_ONCE", 7)
    monkeypatch.setattr(token_table, "_FIRST_SIZE", 5)
    table = TokenTable(bilm, 100)
    words = [str(number).encode() for number in range(30)]

    assert_matches_bilm(bilm, table, [words[:9], words[3:25], words])


@pytest.mark.parametrize("vocabulary", [None, Vocabulary.build(["the the cat"])])
def test_cache_size_and_vocabulary_do_not_change_the_vectors(bilm, vocabulary):
    sentences = ["the cat sat", "on 서울 the", "", "cat cat \N{GRINNING FACE}"] * 3

    found = Embedder(bilm, batch_tokens=16, cache_tokens=1, vocabulary=vocabulary).embed(sentences)

    for vectors, expected in zip(found, Embedder(bilm).embed(sentences), strict=True):
        np.testing.assert_allclose(vectors, expected, atol=1e-6)


def test_weights_that_change_between_two_calls_are_used(fresh_bilm):
    new_bilm = fresh_bilm()
    embedder = Embedder(new_bilm)
    before = embedder.encode("the cat")
    for weight in new_bilm.token_encoder.trainable_weights:
        weight.assign(weight * 0.5)

    expected = new_bilm(["the cat"])["layers"][0].numpy().mean(axis=1)
    np.testing.assert_allclose(embedder.encode("the cat"), expected, atol=1e-5)
    assert np.abs(before - expected).max() > 1e-3
