"""`elmo-tf distill`: static vectors of words."""

import os
from pathlib import Path

import numpy as np
import pytest

from elmo_tf import Embedder
from elmo_tf.tasks.reading import read_word_vectors

pytestmark = pytest.mark.usefixtures("eager_module")

LINES = ["the cat sat .", "a dog saw the cat !", "the dog sat .", "서울"]


def test_vocabulary_words_get_context_free_vectors(command, checkpoint_directory, bilm):
    Path("words.txt").write_text("<S>\n</S>\n<UNK>\nthe\n서울\nnever\n")
    call = ("distill", checkpoint_directory, "--vocab", "words.txt", "--output", "vectors.txt")
    assert command(*call)[0] == 0

    words = ["the", "서울", "never"]
    expected = bilm.token_embeddings(words)
    text = read_word_vectors("vectors.txt")
    assert Path("vectors.txt").read_text().startswith(f"3 {expected.shape[1]}\nthe ")
    assert [*text] == words
    for word, vector in zip(words, expected, strict=True):
        np.testing.assert_allclose(text[word], vector, rtol=1e-5, atol=1e-6)


def test_corpus_words_get_the_mean_vectors_of_their_occurrences(
    command, checkpoint_directory, bilm
):
    call = ("distill", checkpoint_directory, "--corpus", "text.txt", "--output", "vectors.txt")
    assert command(*call, "--layers", "top", "--min-count", 2, "--max-size", 4)[0] == 0

    occurrences = {}
    for line, vectors in zip(LINES, Embedder(bilm, layers="top").embed(LINES), strict=True):
        for token, vector in zip(line.split(), vectors, strict=True):
            occurrences.setdefault(token, []).append(vector)
    found = read_word_vectors("vectors.txt")
    assert [*found] == ["the", ".", "cat", "dog"]  # the most frequent, then by name
    for token in found:
        expected = np.mean(occurrences[token], axis=0)
        np.testing.assert_allclose(found[token], expected, rtol=1e-4, atol=1e-5)
    os.mkfifo("pipe")
    _, _, err = command("distill", checkpoint_directory, "--corpus", "pipe", "--output", "v")
    assert "pipe is not a regular file" in err
