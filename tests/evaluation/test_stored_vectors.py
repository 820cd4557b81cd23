"""Vector files used in place of an embedder."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from elmo_tf import Embedder
from elmo_tf.evaluation.stored_vectors import compare_vectors, open_stored, open_vectors
from elmo_tf.text.sentence_files import sentence_reader
from sense_files import word, write_corpus, write_inventory

pytestmark = pytest.mark.usefixtures("eager_module")

LINES = ["the cat sat .", "a dog saw the cat !", "the dog sat ."]


@pytest.fixture(autouse=True)
def in_temporary_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("\n".join(LINES) + "\n")


@pytest.mark.parametrize("layers", ["all", "top"])
@pytest.mark.parametrize("suffix", [".HDF5", ".parquet"])
def test_sentences_are_found_in_any_order(bilm, suffix, layers):
    rows = "a\u00a0b\tX\nc\udcff\tX\n\n" + "".join(f"{token}\tX\n" for token in LINES[0].split())
    Path("text.conll").write_text(rows, "utf-8", "surrogateescape")
    Path("text.txt").write_text("\n" + "\n".join(LINES) + "\n")
    embedder = Embedder(bilm, layers=layers)
    for name in ("text.conll", "text.txt"):
        embedder.embed_file(name, f"{name}{suffix}")
    columns, text = (open_vectors(f"{name}{suffix}") for name in ("text.conll", "text.txt"))

    sentences = [LINES[2].split(), [], LINES[0].split(), LINES[2].split()]
    for found, wanted in zip(text.embed(sentences), embedder.embed(sentences), strict=True):
        np.testing.assert_allclose(found, wanted.reshape(found.shape), atol=1e-6)
    num_layers = 3 if layers == "all" else 1
    assert (text.num_layers, text.dim) == (num_layers, embedder.dim)
    # A token may contain whitespace other than spaces, and invalid UTF-8.
    (odd,) = columns.embed([["a\u00a0b", "c\udcff"]])
    assert odd.shape == (num_layers, 2, embedder.dim)


def test_word_vectors_have_one_layer_and_zeros_for_unknown_words():
    Path("words.txt").write_text("the 1 2\ncat 3 4\n")

    source = open_vectors("words.txt")

    (found,) = source.embed([["the", "dog", "cat"]])
    assert found.tolist() == [[[1, 2], [0, 0], [3, 4]]]
    assert (source.num_layers, source.dim) == (1, 2)
    before = source.settings()
    Path("words.txt").write_text("the 1 2\n")
    assert open_vectors("words.txt").settings() != before


def test_sentences_are_found_by_their_tokens_only(bilm):
    Path("raw.txt").write_text("The cat sat.\n")
    Embedder(bilm, tokenizer="en").embed_file("raw.txt", "raw.hdf5")
    source = open_vectors("raw.hdf5")

    (tokenized,) = source.embed([["The", "cat", "sat", "."]])
    assert tokenized.shape == (3, 4, bilm.config.output_dim)
    for sentence, message in (
        (["The", "cat", "sat."], r"raw\.hdf5 has no vectors of the sentence 'The cat sat\.'"),
        (["The", "cat sat", "."], r"of shape \(3, 3, 12\).*'The cat sat \.'.*: \(3, 4, 12\)"),
    ):
        with pytest.raises(ValueError, match=message):
            next(source.embed([sentence]))


def test_different_vectors_of_proteins_have_the_same_tokens(bilm):
    Path("p.faa").write_text(">P1\nMKT\n")
    Embedder(bilm, layers="top").embed_file("p.faa", "p.parquet")
    average = Embedder(bilm, layers="average")

    found = compare_vectors(open_stored("p.parquet"), average, [*sentence_reader("p.faa")()])

    assert found["first_different"]["difference"] == "token 0, 'M', in layer average"


def test_shards_of_several_texts_are_compared_with_one_of_them(bilm):
    Path("b.txt").write_text("a cat\n")
    Path("both.parquet").mkdir()
    for name in ("text.txt", "b.txt"):
        Embedder(bilm).embed_file(name, f"{name}.parquet")
        table = pq.read_table(f"{name}.parquet/part-00000.parquet")
        table = table.append_column("file", [[name] * len(table)])
        pq.write_table(table, f"both.parquet/{name}.parquet")
    stored, sentences = open_stored("both.parquet"), [*sentence_reader("text.txt")()]
    found = compare_vectors(stored, Embedder(bilm), sentences)
    assert (found["different"], found["more_in_file"]) == (0, 1)


def test_invalid_files_are_reported_by_name(bilm):
    Embedder(bilm, layers="top").embed_file("text.txt", "means.hdf5", pool="mean")
    Path("damaged.hdf5").write_bytes(Path("means.hdf5").read_bytes()[:300])
    pq.write_table(pa.table({"words": [["a"]]}), "other.parquet")

    for name, message in (
        ("means.hdf5", r"means\.hdf5 must have one vector per token"),
        ("damaged.hdf5", r"Cannot read .* in damaged\.hdf5: "),
        ("other.parquet", r"other\.parquet: there is no column line, shape, vec"),
    ):
        with pytest.raises(ValueError, match=message):
            open_vectors(name)


def test_probe_and_senses_accept_vector_files(command, stdout_of, checkpoint_directory):
    rows = "".join(f"{t}\tX\n" for t in LINES[0].split()[:2]) + "sat\tY\n.\tZ\n"
    Path("tags.conll").write_text(rows + "\n" + rows)
    Path("words.txt").write_text("the 1 2\ncat 3 4\nsat 0 1\n")
    command("embed", checkpoint_directory, "tags.conll", "old.hdf5")
    vectors = ("--vectors", "old=old.hdf5", "static=words.txt")

    out = stdout_of(
        *("probe", checkpoint_directory, "--train", "tags.conll", "--test", "tags.conll"), *vectors
    )
    found = json.loads(out)
    of_model, of_file = found["layers"], found["vectors"]["old"]["layers"]
    assert [one["accuracy"] for one in of_file] == [one["accuracy"] for one in of_model]
    assert len(found["vectors"]["static"]["layers"]) == 1
    for name in ("one.data.xml", "two.data.xml"):
        write_corpus(Path(name), [["the", word("cat", "cat", "cat%1"), "sat", "."]])
    write_inventory(Path("senses.tsv"), "cat n cat%1")
    out = stdout_of(
        *("senses", checkpoint_directory, "--train", "one.data.xml", "--test", "two.data.xml"),
        *("--inventory", "senses.tsv", *vectors),
    )
    scores = {name: one["f1"] for name, one in json.loads(out)["vectors"].items()}
    assert scores["old"]["layer_2"]["two"] == scores["static"]["layer_0"]["two"] == 1
    assert "layer_1" not in scores["static"]
