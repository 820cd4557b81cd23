import numpy as np
import pytest

from elmo_tf import Embedder
from elmo_tf.embedding.vectors import unit_vectors
from elmo_tf.evaluation import neighbors
from elmo_tf.evaluation.neighbors import (
    Occurrence,
    distinct_sentences,
    nearest_tokens,
    occurrences_of,
    typical_occurrences,
    visible,
)
from elmo_tf.evaluation.stored_vectors import open_vectors

pytestmark = pytest.mark.usefixtures("eager_module")

SENTENCES = [
    "the bank raised its rates",
    "they sat on the bank of the river",
    "a bank lent the money",
    "caf\udce9 größe",
    "the play was good",
    "children play in the park",
    "they play cards , and play well",
    "no such word here",
    "the river rose",
]


@pytest.fixture(scope="module")
def text_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    # Empty lines are counted in line numbers. A repeated sentence is compared once.
    lines = ["", *SENTENCES[:2], "the  bank raised its rates", *SENTENCES[2:]]
    path.write_text("\n".join(lines) + "\n", "utf-8", "surrogateescape")
    return path


@pytest.fixture(scope="module")
def text(text_file):
    return distinct_sentences([text_file])


@pytest.fixture(autouse=True)
def several_blocks(monkeypatch):
    monkeypatch.setattr(neighbors, "_TOKENS_PER_BLOCK", 20)


@pytest.fixture(scope="module")
def expected(bilm):
    """Compares a token with each token of the text: the best of each sentence, nearest first."""

    def units(tokens):
        return unit_vectors(np.array(bilm([tokens])["layers"][0]))

    def call(tokens, position, layer, words):
        query = units(tokens)[layer, position]
        best = []
        for line in SENTENCES:
            others = line.split()
            is_same = np.array([other == tokens[position] for other in others])
            allowed = {"any": True, "same": is_same, "other": ~is_same}[words]
            cosines = np.where(allowed, units(others)[layer] @ query, -2)
            if others != tokens and cosines.max() >= -1:
                best.append((float(cosines.max()), line, int(cosines.argmax())))
        return sorted(best, reverse=True)

    return call


@pytest.mark.parametrize("words", ["any", "same", "other"])
@pytest.mark.parametrize("sentence", [SENTENCES[6], "we play cards"])
def test_the_nearest_token_of_each_sentence_is_found(embedder, text, expected, sentence, words):
    queries = [Occurrence(tuple(sentence.split()), place) for place in (1, 2)]

    found = nearest_tokens(embedder, queries, text, top_n=4, words=words)

    for query, by_layer in zip(queries, found, strict=True):
        assert list(by_layer) == [1, 2]
        for layer, nearest in by_layer.items():
            wanted = expected(sentence.split(), query.position, layer, words)[:4]
            assert [(" ".join(one.tokens), one.position) for one in nearest] == [
                (line, position) for _, line, position in wanted
            ]
            similarities = [one.similarity for one in nearest]
            np.testing.assert_allclose(similarities, [near for near, *_ in wanted], atol=1e-5)


def test_layer_0_compares_the_words_of_the_text(embedder, bilm, text):
    for word in ("play", "plays"):
        types = list(dict.fromkeys(token for line in SENTENCES for token in line.split()))
        query, *vectors = unit_vectors(bilm.token_embeddings([word, *types]).numpy())
        cosines = np.stack(vectors) @ query
        wanted = [row for row in np.argsort(-cosines) if types[row] != word][:3]

        [found] = nearest_tokens(embedder, [Occurrence([word], 0)], text, [0], top_n=3)

        assert [one.token for one in found[0]] == [types[row] for row in wanted]
        near = [one.similarity for one in found[0]]
        np.testing.assert_allclose(near, cosines[wanted], atol=1e-5)


def test_occurrences_have_the_file_and_line_of_their_first_appearance(embedder, text, text_file):
    [found] = nearest_tokens(embedder, [Occurrence(["the", "bank"], 1)], text, [1], 3, "same")
    lines = text_file.read_text("utf-8", "surrogateescape").split("\n")

    assert sorted(one.line for one in found[1]) == [2, 3, 5]
    for one in found[1]:
        assert one.file == str(text_file)
        assert lines[one.line - 1] == " ".join(one.tokens)
    assert occurrences_of("caf\udce9", text) == [(SENTENCES[3].split(), 0, str(text_file), 6, None)]
    assert list(distinct_sentences([text_file], max_tokens=6)) == SENTENCES[:2]


def test_typical_occurrences_of_the_larger_use_come_first():
    class Angles:
        num_layers, dim = 1, 2

        def embed(self, sentences):
            for (angle,) in sentences:
                yield np.array([np.cos(float(angle)), np.sin(float(angle))]).reshape(1, 1, 2)

    angles = [Occurrence([a], 0) for a in ("1.5", "0.1", "0.2", "0.3", "1.3", "1.4", "0.22")]

    found = typical_occurrences(Angles(), angles, 2, layer=0)

    assert [one.token for one in found] == ["0.2", "1.4"]
    assert typical_occurrences(Angles(), angles[:1], 2, layer=0) == angles[:1]


def test_vectors_of_another_shape_are_errors(embedder, bilm, text, text_file, tmp_path):
    with pytest.raises(ValueError, match="In layer 0, all occurrences of a word"):
        nearest_tokens(embedder, [], text, [0], words="same")
    with pytest.raises(ValueError, match=r"must return all layers.*Received: 'top'"):
        nearest_tokens(Embedder(bilm, layers="top"), [], text)
    Embedder(bilm, layers="top").embed_file(text_file, tmp_path / "top.hdf5")
    with pytest.raises(ValueError, match=r"top\.hdf5 has 1 layers of width 12, and the biLM 3"):
        nearest_tokens(embedder, [], text, stored=open_vectors(tmp_path / "top.hdf5"))


def test_invisible_characters_are_escaped():
    assert visible("plain Äpfel 은행 😀 नि\u200dशा") == "plain Äpfel 은행 😀 नि\u200dशा"
    assert visible("a\tb\r\nc\x00\x85\u2028\u2029\udcff") == r"a\tb\r\nc\x00\x85\u2028\u2029\udcff"
