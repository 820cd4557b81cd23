"""Readers of sense-tagged text, gold keys and inventories."""

import gzip
import re

import pytest

from development_data import shared
from elmo_tf.evaluation.senses import (
    SenseInstance,
    SenseSentence,
    f1_table,
    read_inventory,
    read_keys,
    read_sense_corpus,
    write_keys,
)
from sense_files import word, write_corpus

INSTANCE = '<instance id="i0" lemma="cat" pos="NOUN">cat</instance>'
CAT = word("cat", "cat", "cat%1")


@pytest.fixture
def corpus(tmp_path):
    """Writes a sense-annotated text and its gold keys; returns the path of the text."""
    return lambda sentences: write_corpus(tmp_path / "a.data.xml", sentences)


@pytest.fixture
def file(tmp_path):
    def write(text, name="a.txt"):
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return tmp_path / name

    return write


@pytest.fixture
def raw(file):
    """Writes a corpus of this XML, with the gold keys of i0."""

    def write(xml, gold="i0 cat%1\n"):
        file(gold, "raw.gold.key.txt")
        return file(xml, "raw.data.xml")

    return write


def inside(*lines):
    """XML with these lines, from line 4 on, in a sentence."""
    head, tail = ("<corpus>", "<text>", "<sentence>"), ("</sentence>", "</text>", "</corpus>")
    return "\n".join([*head, *lines, *tail])


def test_sentences_have_tokens_and_instances_with_gold_keys(corpus, caplog):
    jury = word("Grand Jury", "Grand_Jury", "jury%1", "group%1")
    sentences = [
        ["The", jury, "said", "R&D"],
        [word("sat", "sit", "sit%2", pos="verb"), word("dog", "dog")],
    ]

    found = read_sense_corpus(corpus(sentences))

    first = SenseInstance("s0.w1", "grand_jury", "noun", 1, 3, ("jury%1", "group%1"))
    assert found == [
        SenseSentence(["The", "Grand", "Jury", "said", "R&D"], [first]),
        SenseSentence(["sat", "dog"], [SenseInstance("s1.w0", "sit", "verb", 0, 1, ("sit%2",))]),
    ]
    assert first.lemma_pos == ("grand_jury", "noun")
    assert "1 of 3 instances have no gold keys" in caplog.text


@pytest.mark.parametrize(
    ("xml", "message"),
    [
        (inside("<wf>cat</wf"), "broken XML: not well-formed (invalid token): line 5"),
        (inside("<wf>cat</wf>"), "raw.data.xml has no <instance>"),
        (inside("<b>cat</b>"), "<b> in a <sentence>, not <wf> or <instance>"),
        (inside(INSTANCE.replace("id=", "name=")), "needs an id without spaces, a lemma, a word"),
        (inside(INSTANCE.replace("NOUN", "DET")), 'as pos. Received: <instance id="i0" lemma="c'),
        (inside(INSTANCE, INSTANCE), "the id 'i0' is repeated"),
    ],
)
def test_errors_in_a_corpus_name_the_file(raw, xml, message):
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        read_sense_corpus(raw(xml))

    assert "raw.data.xml" in str(caught.value)


def test_missing_files_other_names_and_gold_keys_of_another_text_are_errors(raw, corpus, file):
    path = raw(inside(INSTANCE), gold="i0 cat%1\nj7 dog%1\n")
    with pytest.raises(ValueError, match=r"raw\.gold\.key\.txt has sense keys for 'j7', which is"):
        read_sense_corpus(path)
    path = corpus([[CAT]])
    path.with_name("a.gold.key.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"a\.gold\.key\.txt"):
        read_sense_corpus(path)
    with pytest.raises(ValueError, match=r"semcor\.xml: its name must end in \.data\.xml"):
        read_sense_corpus("semcor.xml")


def test_written_keys_round_trip_without_duplicates_and_missing_answers(file, tmp_path):
    path = tmp_path / "answers.key.txt"

    write_keys(path, {"d0.t0": "größe%1", "d0.t1": None, "d0.t2": "gr\udcf6sse%1"})

    assert path.read_bytes() == "d0.t0 größe%1\nd0.t2 ".encode() + b"gr\xf6sse%1\n"
    assert read_keys(path) == {"d0.t0": ("größe%1",), "d0.t2": ("gr\udcf6sse%1",)}
    repeated = read_keys(file("d0.t1 cat%1 cat%2 cat%1\n\nd0.t0 dog%1\r\n"))
    assert repeated == {"d0.t1": ("cat%1", "cat%2"), "d0.t0": ("dog%1",)}


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (read_keys, "d0.t0 cat%1\nd0.t1\n", r"a\.txt, line 2: 'd0\.t1' has no sense key"),
        (read_keys, "a x\nb x\na y\n", r"line 3: 'a' has sense keys on an earlier line"),
        (read_inventory, "cat\tn\tcat%1\ndog\tn\n", r"a\.txt, line 2: expected a lemma, a part of"),
        (read_inventory, "cat\tx\tcat%1\n", r"part of speech \(n, v, a, r\).*Received: 'cat.tx"),
    ],
)
def test_invalid_keys_and_inventories_are_reported_with_the_line(file, read, text, message):
    with pytest.raises(ValueError, match=message):
        read(file(text))


def test_senses_are_in_the_order_of_the_file_and_of_the_exact_spelling_first(file):
    rows = ("bank n b%1", "bank v b%2", "bank n b%3", "March n m%1", "march n m%2", "May n may%1")
    text = "\n".join(rows).replace(" ", "\t") + "\n\nprimary election\tn\tprimary%1\t00183505-n\r\n"
    senses = read_inventory(file(gzip.compress(text.encode()), "senses.tsv.gz"))

    assert senses == {
        ("bank", "noun"): ["b%1", "b%3"],
        ("bank", "verb"): ["b%2"],
        ("march", "noun"): ["m%2", "m%1"],
        ("may", "noun"): ["may%1"],
        ("primary_election", "noun"): ["primary%1"],
    }


def test_the_first_sense_baseline_matches_the_published_f1():
    """Raganato et al. 2017, table 3: the first sense of WordNet 3.0, on SemEval-2007."""
    directory = shared("data", "wsd")
    corpus = read_sense_corpus(directory / "semeval2007" / "semeval2007.data.xml")
    inventory = read_inventory(directory / "wsd_oewn_inventory.tsv")

    instances = [one for sentence in corpus for one in sentence.instances]
    first = {one.id: next(iter(inventory.get(one.lemma_pos, ())), None) for one in instances}
    found = f1_table({"semeval2007": corpus}, {"semeval2007": {"first_sense": first}})

    # The inventory lacks some senses of WordNet 3.0.
    assert found["f1"]["first_sense"]["semeval2007"] == pytest.approx(0.552, abs=0.02)
    assert (found["instances"]["noun"], found["instances"]["verb"]) == (159, 296)
