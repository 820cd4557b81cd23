"""`--tokenize`: raw text, split by the tokenizer of the model's training text."""

import json
from pathlib import Path

import pytest

from elmo_tf.commands.options import with_tokenizer

pytest.importorskip("spacy")

RAW = "The dog barked. It didn't bite!"
SENTENCES = ["The dog barked .", "It did n't bite !"]


@pytest.fixture(autouse=True)
def _texts():
    Path("raw.txt").write_text(f"{RAW}\n\nA dog!")
    Path("text.txt").write_text("\n".join([*SENTENCES, "A dog !"]))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("embed small-en --tokenize a.txt b.hdf5", "embed small-en --tokenize model a.txt b.hdf5"),
        ("embed small-en a.txt b.npy --tokenize", "embed small-en a.txt b.npy --tokenize model"),
        ("score m --tokenize ko-morph text.txt", "score m --tokenize ko-morph text.txt"),
        ("score --tokenize=en", "score --tokenize=en"),
        ("score m --tokenize en", "score m --tokenize en"),
        ("score --tokenize run a.txt", "score --tokenize model run a.txt"),
        ("score --tokenize my-run a.txt", "score --tokenize model my-run a.txt"),
    ],
)
def test_without_the_code_of_a_language_the_tokenizer_is_that_of_the_model(given, words):
    for folder in ("en", "run"):  # only the second one is no code of a language
        Path(folder).mkdir()
    assert with_tokenizer(given.split()) == words.split()


def test_raw_text_is_scored_as_its_tokens(command):
    _, found, _ = command("score", "small-en", "--tokenize", "raw.txt", "--per-token")
    _, expected, _ = command("score", "small-en", "text.txt", "--per-token")
    assert found == expected


def test_marks_in_raw_text_name_tokens(command):
    marked = "The **dog** barked. It **did**n't bite! No."
    _, found, _ = command("substitutes", "small-en", "--tokenize", marked, "--top", "2")
    tokens = ["The **dog** barked .", "It **did** n't bite !"]
    _, expected, _ = command("substitutes", "small-en", *tokens, "--top", "2")
    assert found == expected
    status, _, err = command("substitutes", "small-en", "--tokenize", RAW)
    assert (status, "mark a token of" in err) == (2, True)


def test_neighbors_are_found_in_raw_text(command):
    call = ("neighbors", "dog", "--model", "small-en", "--layer", "1", "--corpus")
    options = ("--tokenize", "--sentence", "A dog sat.")
    _, found, _ = command(*call, "raw.txt", *options)
    _, expected, _ = command(*call, "text.txt", "--sentence", "A dog sat .")
    found, expected = (
        json.loads(each)["occurrences"][0]["neighbors"] for each in (found, expected)
    )
    assert [one["line"] for one in found["1"]] == [1, 3, 1, 1][: len(found["1"])]
    for one in [*found["1"], *expected["1"]]:
        del one["file"], one["line"]
    assert found == expected


def test_a_probe_reads_the_means_of_the_tokens_of_words(stdout_of):
    rows = [("don't", "A"), ("stop!", "B"), ("", "")] * 4
    Path("tags.conll").write_text("\n".join(f"{word} {tag}".strip() for word, tag in rows))
    call = ("probe", "small-en", "--train", "tags.conll", "--test", "tags.conll", "--tokenize")
    out = stdout_of(*call)
    result = json.loads(out)
    assert result["train_tokens"] == 8
    assert [layer["accuracy"]["all"] for layer in result["layers"]] == [1.0, 1.0, 1.0]


def test_a_run_records_the_tokenizer_of_its_text(command):
    tiny = ("--preset", "tiny", "--steps", "1", "--batch-size", "1", "--unroll", "3")
    assert command("tokenize", "raw.txt", "--language", "xx", "--output", "a.txt")[0] == 0
    for options in ((), ("--resume",)):
        assert command("train", "--corpus", "a.txt", "--workdir", "a", *tiny, *options)[0] == 0
    from_a = ("--from", "a", *tiny[2:])
    assert command("train", "--corpus", "text.txt", "--workdir", "b", *from_a)[0] == 0
    changed = ("--resume", "--workdir", "b", "--corpus", "text.txt", "--tokenizer", "en")
    status, _, err = command("train", *changed)
    assert (status, "tokenizer was None" in err) == (1, True)
    english = json.loads(Path("a/options.json").read_text()) | {"tokenizer": "en"}
    Path("english.json").write_text(json.dumps(english))
    shape = ("--options", "english.json", *tiny[2:])
    assert command("train", "--corpus", "a.txt", "--workdir", "c", *shape)[0] == 0
    for folder in "abc":
        assert json.loads(Path(folder, "options.json").read_text())["tokenizer"] == "xx"
