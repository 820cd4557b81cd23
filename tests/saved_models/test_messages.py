"""How sentences are split into requests, and arrays of answers joined and cut."""

import itertools

import numpy as np
import pytest

from elmo_tf.saved_models.messages import joined, sentence_batches


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


def answer(lengths, width):
    """An answer whose padding is 9 or `?`."""
    mask = np.arange(width) < np.array(lengths)[:, None]
    tokens = np.where(mask, b"t", b"?").astype(object)
    elmo = np.where(mask[..., None], np.arange(4.0, dtype=np.float32), 9)
    return {"elmo": elmo, "tokens": tokens, "sequence_len": np.array(lengths, np.int32)}


def test_answers_are_padded_to_the_longest_sentence_of_all():
    answers = [answer([1, 2], 6), answer([3], 3), answer([0], 0)]
    whole = joined(answers, ["elmo", "tokens"], {"elmo", "tokens"})
    assert list(whole) == ["elmo", "tokens"]
    assert whole["elmo"].shape == (4, 3, 4)
    assert whole["elmo"].dtype == np.float32
    np.testing.assert_array_equal(whole["elmo"][3], np.zeros((3, 4)))
    assert whole["tokens"][2:].tolist() == [[b"t"] * 3, [b""] * 3]
