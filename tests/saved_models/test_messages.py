"""How sentences are split into requests."""

import itertools

import pytest

from elmo_tf.saved_models.messages import sentence_batches


@pytest.mark.parametrize(
    ("limits", "sizes"),
    [
        ((2, 99), [2, 2, 1]),
        ((99, 99), [5]),
        ((99, 4), [2, 1, 2]),  # 2 × 2 tokens at most, padding included
        ((99, 1), [1, 1, 1, 1, 1]),
    ],
)
def test_requests_are_limited_in_sentences_and_tokens(limits, sizes):
    sentences = ["a bb", "c", "d e f", "g", "h i"]
    for kind in (sentences, [sentence.split() for sentence in sentences]):
        batches = list(sentence_batches(kind, *limits))
        assert [len(batch) for batch in batches] == sizes
        assert list(itertools.chain(*batches)) == kind
    assert list(sentence_batches([], *limits)) == [[]]


def test_each_byte_of_raw_text_counts_as_a_token():
    sizes = [len(batch) for batch in sentence_batches(["a b", "서울", "c"], 9, 12, is_raw=True)]
    assert sizes == [2, 1]
    assert [*sentence_batches([["a", "b"]], 9, 12, is_raw=True)] == [[["a", "b"]]]
