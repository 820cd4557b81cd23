import re

import pytest

from elmo_tf.evaluation import SenseCorpus
from elmo_tf.evaluation.senses.sense_corpus import Occurrence, SenseSentence
from sense_files import word

INSTANCE = '<instance id="i0" lemma="cat" pos="NOUN">cat</instance>'


@pytest.fixture
def raw(tmp_path):
    """Makes a corpus of this XML, with the gold keys of i0."""

    def write(xml, gold="i0 cat%1\n"):
        (tmp_path / "raw.data.xml").write_bytes(xml.encode() if isinstance(xml, str) else xml)
        (tmp_path / "raw.gold.key.txt").write_text(gold, "utf-8")
        return SenseCorpus(tmp_path / "raw.data.xml")

    return write


def inside(*lines):
    """XML with these lines, from line 4 on, in a sentence."""
    return "\n".join(
        ["<corpus>", "<text>", "<sentence>", *lines, "</sentence>", "</text>", "</corpus>"]
    )


def test_sentences_have_tokens_and_occurrences(corpus):
    read = SenseCorpus(
        corpus(
            [
                ["The", word("Grand Jury", "Grand_Jury", "jury%1", "group%1"), "said", "R&D"],
                [word("sat", "sit", "sit%2", pos="verb")],
            ],
            texts=[1, 1],
        )
    )

    first = Occurrence("s0.w1", "grand_jury", "noun", 1, 3, ("jury%1", "group%1"))
    second = Occurrence("s1.w0", "sit", "verb", 0, 1, ("sit%2",))
    assert list(read) == list(read)  # a corpus can be read repeatedly
    assert list(read) == [
        SenseSentence(0, ["The", "Grand", "Jury", "said", "R&D"], [first]),
        SenseSentence(1, ["sat"], [second]),
    ]
    assert first.lemma_pos == ("grand_jury", "noun")


def test_words_are_not_split_at_the_limits_of_read_chunks(corpus):
    # Each sentence takes about 100 bytes: the file is read in several pieces.
    sentences = [["größer", word(f"cat{n}", "cat", "cat%1")] for n in range(3000)]

    read = list(SenseCorpus(corpus(sentences)))

    assert [sentence.tokens for sentence in read] == [["größer", f"cat{n}"] for n in range(3000)]


def test_sentences_are_read_lazily(corpus):
    path = corpus([["a", word("cat", "cat", "cat%1")]])
    text = path.read_text("utf-8").replace("</text>", "<sentence></sentence>\n" * 9000)
    path.write_text(text, "utf-8")  # the <text> has no end

    read = iter(SenseCorpus(path))

    assert next(read).tokens == ["a", "cat"]
    with pytest.raises(ValueError, match=r"text\.data\.xml, line 9008: broken XML: mismatched tag"):
        list(read)


def test_instances_without_gold_keys_are_words_with_one_warning(corpus, caplog):
    sentence = [word("cat", "cat", "cat%1"), word("sat", "sit", pos="verb"), word("dog", "dog")]
    read = SenseCorpus(corpus([sentence]))

    for _ in range(2):
        (only,) = read
        assert only.tokens == ["cat", "sat", "dog"]
        assert [one.id for one in only.occurrences] == ["s0.w0"]

    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 1
    assert messages[0].endswith("2 of 3 instances have no gold keys and are read as plain words.")


@pytest.mark.parametrize(
    ("xml", "message"),
    [
        (inside(INSTANCE).replace("</corpus>", ""), "line 7: broken XML: no element found"),
        (inside("<wf>R&D</wf>"), "line 4: broken XML: not well-formed"),
        (inside("<wf>\udcff</wf>").encode("utf-8", "surrogateescape"), "line 4: broken XML"),
        ("", "line 1: broken XML: no element found"),
        (inside("<wf>cat</wf>"), "raw.data.xml has no <instance>"),
        (inside("<b>cat</b>"), "line 4: <b> is not allowed in <sentence>"),
        ("<text></text>", "line 1: <text> is not allowed as the outermost element"),
        (inside("", "cat"), "line 5: text outside <wf> and <instance>: 'cat'"),
        (inside(INSTANCE.replace("id=", "name=")), "line 4: an <instance> has no 'id'"),
        (inside(INSTANCE.replace('"cat"', '" "')), "line 4: an <instance> has no 'lemma'"),
        (inside(INSTANCE.replace("pos=", "tag=")), "line 4: an <instance> has no 'pos'"),
        (
            inside(INSTANCE.replace("NOUN", "DET")),
            "line 4: 'pos' of an <instance> must be one of NOUN, VERB, ADJ, ADV. Received: 'DET'",
        ),
        (
            inside(INSTANCE.replace("i0", "i 0")),
            "line 4: the 'id' of an <instance> must not contain whitespace: 'i 0'",
        ),
        (inside(INSTANCE.replace(">cat", "> ")), "line 4: the <instance> 'i0' has no word"),
        (inside(INSTANCE, INSTANCE), "line 5: the id 'i0' is repeated"),
        (
            f'<!DOCTYPE corpus [<!ENTITY a "aa">]>\n{inside("<wf>&a;</wf>")}',
            "line 1: a document type declaration is not supported",
        ),
    ],
)
def test_errors_in_a_corpus_name_file_and_line(raw, xml, message):
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        list(raw(xml))

    assert "raw.data.xml" in str(caught.value)


@pytest.mark.parametrize("encoding", ["utf-16", "windows-1252"])
def test_a_corpus_may_declare_another_encoding(raw, encoding):
    head = f'<?xml version="1.0" encoding="{encoding}"?>\n'

    (sentence,) = raw((head + inside("<wf>größer</wf>", INSTANCE)).encode(encoding))

    assert sentence.tokens == ["größer", "cat"]


def test_gold_keys_of_another_text_are_refused(raw):
    read = raw(inside(INSTANCE), gold="i0 cat%1\nj7 dog%1\n")

    with pytest.raises(ValueError, match=r"raw\.gold\.key\.txt has sense keys for 'j7', which is"):
        list(read)


def test_a_missing_file_is_named(corpus, tmp_path):
    path = corpus([[word("cat", "cat", "cat%1")]])
    (tmp_path / "text.gold.key.txt").unlink()

    with pytest.raises(FileNotFoundError, match=r"text\.gold\.key\.txt"):
        SenseCorpus(path)
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"text\.data\.xml"):
        SenseCorpus(path)
