import itertools

import pytest

from elmo_tf.text.input_warnings import warn_of_raw_text


@pytest.mark.parametrize(
    ("sentence", "word", "mark", "language"),
    [
        ("The bank raised its rates.", "rates", ".", "en"),
        ("“Well, it did.”", "“Well", ",", "en"),
        (["It", "rained;", "we", "left", "."], "rained", ";", "en"),
        ([b"Wann", b"kommst", b"du?"], "du", "?", "en"),
        ("그는 1981년)이다.", "1981년)이다", ".", "ko-morph"),
        ("我爱你。他也爱我", "我爱你", "。", "zh"),
        ("東京です。", "東京です", "。", "ja"),
        ("ماذا؟", "ماذا", "؟", "en"),
    ],
)
def test_attached_punctuation_is_reported_with_an_example(sentence, word, mark, language, caplog):
    assert list(warn_of_raw_text([sentence])) == [sentence]
    assert f"1 of 1 sentences look like raw text: '{word}{mark}" in caplog.text
    assert f"not as '{word}' and '{mark}" in caplog.text
    assert f'tokenizer="{language}"' in caplog.text


@pytest.mark.parametrize(
    "sentence",
    [
        "The bank raised its rates .",
        "Mr. Smith of the U.S. don't eat 3.5 apples at 5:30 .",
        "He is from the U.S.",
        "It costs 1,000 , see http://a.b/c?d=e , :-) ;",
        "EU:n päätös",
        "M K V L",
        "我 爱 你 。",
        "",
    ],
)
def test_tokens_are_not_raw_text(sentence, caplog):
    assert list(warn_of_raw_text([sentence])) == [sentence]
    assert not caplog.text


def test_the_warning_appears_once_if_more_than_a_fifth_of_the_sentences_are_raw(caplog):
    list(warn_of_raw_text(["It rained."] + ["It rained ."] * 4))
    assert not caplog.text
    for _ in range(2):
        list(warn_of_raw_text(["It rained."] + ["It rained ."] * 3))
    assert caplog.text.count("look like raw text") == 1


def test_an_endless_stream_is_checked_by_its_first_sentences(caplog):
    stream = warn_of_raw_text(itertools.repeat("It rained."))
    assert list(itertools.islice(stream, 1001)) == ["It rained."] * 1001
    assert "1000 of 1000 sentences" in caplog.text
