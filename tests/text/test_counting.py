import itertools
import re

import pytest

from elmo_tf.text.counting import (
    MAX_SENTENCE_TOKENS,
    KnownText,
    TextCount,
    count_text,
    reported_sentences,
)

LONG = MAX_SENTENCE_TOKENS


SUSPICIOUS_LINES = {
    "invalid": b"caf\xe9 \xe9\n\xed\xa0\x80\n",
    "nul": b"\0 \0\na\0\n",
    "long": b"a " * (LONG + 1) + b"\n" + b"b " * 3 * LONG + b"\n",
    "empty": b"\n \xc2\xa0\n",
    "boundary": b"<S> a </S>\na </S>\n",
}


@pytest.mark.parametrize("kind", SUSPICIOUS_LINES)
def test_suspicious_lines_of_a_corpus_are_counted(tmp_path, kind):
    harmless = "\ufeffß\n한\u2028국어\nb\r \n\u00a0a \u3000b\n<S>>\n".encode()
    content = harmless + SUSPICIOUS_LINES[kind] + b"a" + b" a" * (LONG - 1)
    (tmp_path / "text.txt").write_bytes(content)

    assert +count_text([tmp_path / "text.txt"]).lines == {kind: 2}


@pytest.mark.parametrize(
    ("known", "kind", "number", "example"),
    [
        (KnownText(4), "cut", 2, "äää"),
        (KnownText(3, "characters"), "cut", 1, "4444"),
        (KnownText(characters=frozenset("abcx")), "script", 2, "ä"),
        (KnownText(characters=frozenset("<S>ACDX")), "residues", 2, "4444"),
    ],
)
def test_text_that_a_model_does_not_know_is_reported_with_an_example(
    known, kind, number, example, caplog
):
    count = TextCount(known)
    for sentence in ("", "a 4444 äää", "äää e\u0301 e\u0301"):
        count.add(sentence, sentence.split())

    assert (count.sentences, count.tokens, count.longest) == (3, 6, 3)
    assert count.lines[kind] == number
    count.report()
    assert f"such as {example!r}" in caplog.text


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("The bank raised its rates.", ["rates."]),
        ("“Well, it did.”", ["“Well,"]),
        ("Wann kommst du?", ["du?"]),
        ("그는 1981년)이다.", ["1981년)이다."]),
        ("我爱你。他也爱我", ["我爱你。"]),
        ("ماذا؟", ["ماذا؟"]),
        ("The bank raised its rates .", []),
        ("Mr. Smith of the U.S. don't eat 3.5 apples at 5:30 .", []),
        ("He is from the U.S.", []),
        ("It costs 1,000 , see http://a.b/c?d=e , :-) ;", []),
        ("EU:n päätös", []),
        ("M K V L", []),
        ("我 爱 你 。", []),
        ("", []),
    ],
)
def test_attached_punctuation_is_reported_once_with_an_example(sentence, words, caplog):
    for one in (sentence, sentence.split()):
        assert list(reported_sentences([one], KnownText())) == [one]
    assert re.findall("1 that look like raw text, such as '([^']*)'", caplog.text) == words


def test_raw_text_is_reported_if_it_is_more_than_a_fifth_of_the_first_sentences(caplog):
    list(reported_sentences(["It rained."] + ["It rained ."] * 4, KnownText()))
    assert not caplog.text
    stream = reported_sentences(itertools.repeat("It rained."), KnownText())
    assert list(itertools.islice(stream, 1001)) == ["It rained."] * 1001
    assert "1,000 that look like raw text" in caplog.text
