"""Raw text is tokenized, and the offsets of its tokens are returned with the vectors."""

import json
import pickle
import unicodedata

import numpy as np
import pytest

from elmo_tf import Embedder
from elmo_tf.checkpoints.named_models import find_named_model
from elmo_tf.embedding.word_means import WordMeans, means_of_parts
from elmo_tf.text.tokenizers import Token
from nested_arrays import assert_close
from vector_files import read_vectors, sentence_to_index

pytestmark = pytest.mark.usefixtures("eager_module")

TEXTS = ["The cat sat.  It left!", "", "Dogs (two) bark."]
TOKENS = [["The", "cat", "sat", "."], ["It", "left", "!"], ["Dogs", "(", "two", ")", "bark", "."]]


@pytest.fixture(scope="module")
def embedder(bilm):
    return Embedder(bilm, tokenizer="en")


@pytest.fixture(scope="module")
def expected(bilm):
    return list(Embedder(bilm).embed(TOKENS))


def test_a_text_has_the_vectors_of_its_sentences(embedder, expected):
    first, empty, last = embedder.embed_texts(TEXTS)

    assert first.tokens == TOKENS[0] + TOKENS[1]
    assert [TEXTS[0][start:end] for start, end in first.offsets] == first.tokens
    np.testing.assert_allclose(first.vectors, np.concatenate(expected[:2], axis=1), atol=1e-6)
    np.testing.assert_allclose(last.vectors, expected[2], atol=1e-6)
    assert (empty.tokens, empty.offsets.shape, empty.vectors.shape[1]) == ([], (0, 2), 0)
    vectors = [text.vectors for text in (first, empty, last)]
    assert_close(list(embedder.embed(TEXTS)), vectors, atol=1e-6)
    means = [array.sum(axis=(0, 1)) / (3 * max(1, array.shape[1])) for array in vectors]
    copy = pickle.loads(pickle.dumps(embedder))  # with its tokenizer
    assert_close(list(copy.encode(TEXTS)), means, atol=1e-6)
    assert_close(embedder.encode(TEXTS[2]), means[2], atol=1e-6)
    (tokenized,) = embedder.embed_texts([["a.b", "c"]])
    assert tokenized.tokens == ["a.b", "c"]
    assert tokenized.offsets.tolist() == [[0, 3], [4, 5]]


def test_a_word_has_the_mean_of_the_vectors_of_its_tokens(embedder, bilm):
    words = [["Dogs", "(two)", "", "bark."], []]
    means, empty = WordMeans(embedder).embed(words)

    (tokens,) = Embedder(bilm).embed([TOKENS[2]])
    expected = [[0], [1, 2, 3], [], [4, 5]]
    for word, parts in zip(means.swapaxes(0, 1), expected, strict=True):
        mean = tokens[:, parts].mean(axis=1) if parts else np.zeros_like(word)
        np.testing.assert_allclose(word, mean, atol=1e-6)
    assert empty.shape == (3, 0, embedder.dim)
    assert WordMeans(embedder).settings()["model"] != embedder.settings()["model"]
    assert means_of_parts(np.ones((1, 2, 1)), [-1, 0], 1).tolist() == [[[1.0]]]  # of no word
    with pytest.raises(ValueError, match="has no tokenizer"):
        WordMeans(Embedder(bilm))


KOREAN = "감독이 만든 세계관과 배우들의 연기력이 돋보였던 작품입니다. 다음편이 기다려집니다!"
COUNTS = json.loads((find_named_model("small-ko").folder / "training.json").read_text())["corpus"]
UNKNOWN_IN_TRAINING = f"{COUNTS['unknown'] / COUNTS['tokens']:.1%}"


@pytest.mark.parametrize(
    ("text", "tokenizer", "message"),
    [
        (KOREAN, None, f"not in the vocabulary of the model, but only {UNKNOWN_IN_TRAINING} of"),
        (KOREAN, "model", None),
        (unicodedata.normalize("NFD", KOREAN), None, "not in Unicode's normal form NFC"),
        ("Съешь ещё этих мягких булок", "model", "of letters that the vocabulary lacks"),
    ],
)
def test_text_that_the_model_does_not_know_is_reported(text, tokenizer, message, caplog):
    Embedder("small-ko", layers=0, tokenizer=tokenizer).encode([text] * 3)
    assert message in caplog.text if message else not caplog.text


def test_a_missing_tokenizer_and_one_that_returns_no_tokens_are_refused(bilm, tmp_path):
    with pytest.raises(ValueError, match="has no tokenizer"):
        Embedder(bilm).embed_texts(TEXTS)
    (tmp_path / "text.txt").write_text("a b")
    for returned in (["a", "b"], [["a", "b"]], [Token("a", 0, 1)], [[Token("", 0, 0)]]):
        embedder = Embedder(bilm, tokenizer=lambda text, returned=returned: returned)
        message = r"`tokenizer` must return .* `Token\(text, start, end\)`, none of them empty"
        with pytest.raises(TypeError, match=message):
            next(embedder.embed_texts(TEXTS))
        with pytest.raises(TypeError, match=message):
            embedder.embed_file(tmp_path / "text.txt", tmp_path / "vectors.hdf5")


def test_a_file_of_raw_text_has_one_array_per_sentence(
    command, checkpoint_directory, expected, tmp_path
):
    (tmp_path / "text.txt").write_text("\n".join(TEXTS))
    output = tmp_path / "vectors.hdf5"

    paths = checkpoint_directory, tmp_path / "text.txt", output
    assert command("embed", *paths, "--tokenize", "en")[0] == 0

    arrays = read_vectors(output)
    for number, wanted in enumerate(expected):
        np.testing.assert_allclose(arrays[number], wanted, atol=1e-6)
    assert list(sentence_to_index(output)) == [" ".join(tokens) for tokens in TOKENS]
    lines = (tmp_path / "vectors.hdf5.tokens.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["line"] for row in rows] == [0, 0, 2]
    assert [row["tokens"] for row in rows] == TOKENS
    for row in rows:
        places = zip(row["starts"], row["ends"], strict=True)
        assert [TEXTS[row["line"]][start:end] for start, end in places] == row["tokens"]


@pytest.mark.parametrize("tokenizer", ["en", None])
def test_the_tokens_file_of_another_output_is_replaced_only_with_overwrite(
    bilm, tmp_path, tokenizer
):
    text, output = tmp_path / "text.txt", tmp_path / "vectors.hdf5"
    tokens = tmp_path / "vectors.hdf5.tokens.jsonl"
    for path in (text, tokens):
        path.write_text("The cat.")
    embedder = Embedder(bilm, tokenizer=tokenizer)

    with pytest.raises(FileExistsError, match=r"tokens\.jsonl exists"):
        embedder.embed_file(text, output)
    assert tokens.read_text() == "The cat."

    embedder.embed_file(text, output, overwrite=True)
    assert tokens.exists() == (tokenizer is not None)


def test_a_job_interrupted_between_its_two_files_can_be_resumed(bilm, tmp_path, monkeypatch):
    def embedder():  # with another tokenizer object each time, as another process has
        return Embedder(bilm, tokenizer=lambda text: [[], [Token(text, 0, len(text))]])

    text, output = tmp_path / "text.txt", tmp_path / "vectors.hdf5"
    text.write_text("The cat.\nIt left!")

    def move_tokens(part, path):
        if path == output:
            raise KeyboardInterrupt
        part.rename(path)

    with monkeypatch.context() as patch:
        patch.setattr("elmo_tf.embedding.file_jobs.put_in_place", move_tokens)
        with pytest.raises(KeyboardInterrupt):
            embedder().embed_file(text, output)
    assert not output.exists()

    embedder().embed_file(text, output)

    assert len(read_vectors(output)) == 2
    assert len((tmp_path / "vectors.hdf5.tokens.jsonl").read_text().splitlines()) == 2
