import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.text.lexicon import Lexicon
from reference import manylangs as reference

MAX_CHARS = 12
TOKENS = [
    *("the", "The", "THE", "ö", "o\u0308", "한국", "\u3000", "\U0001f600", "zzz", "abcdefghij"),
    *("abcdefghijk", "ab cd", "<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<", "é" * 20),
]


@pytest.fixture(scope="module")
def lexicon():
    return Lexicon(reference.CHARACTERS, reference.WORDS)


def test_char_ids_match_the_reference(lexicon):
    rows = lexicon.char_ids(TOKENS, MAX_CHARS).numpy()

    for token, row in zip(TOKENS, rows, strict=True):
        word, characters = reference.ids(token, MAX_CHARS)
        assert row.tolist() == [word + 1, *(number + 1 for number in characters)], token


def test_boundaries_empty_tokens_and_invalid_utf_8_have_rows(lexicon):
    rows = lexicon.char_ids([["the", ""], ["", ""]], MAX_CHARS)
    bos_and_eos, invalid = lexicon.boundary_ids(MAX_CHARS), lexicon.char_ids(b"t\xffe", MAX_CHARS)

    np.testing.assert_array_equal(bos_and_eos, lexicon.char_ids(["<bos>", "<eos>"], MAX_CHARS))
    assert rows.shape == (2, 2, 1 + MAX_CHARS)
    assert np.any(rows, axis=-1).tolist() == [[True, False], [False, False]]
    assert lexicon.char_ids(tf.zeros((0,), tf.string), MAX_CHARS).shape == (0, 1 + MAX_CHARS)
    np.testing.assert_array_equal(invalid, lexicon.char_ids("t?e", MAX_CHARS))


def test_a_lexicon_is_built_from_tokens_and_words(tmp_path):
    tokens = ["b", "ab\U0001f600", "a\udcff", "한\ufeff", "<bos>"]
    words = ["abcdefgh", "abcdefgi", "한", "<pad>", "c\udcff"]

    lexicon = Lexicon.build(tokens, words, max_chars=8)

    lexicon.save(tmp_path)
    assert Lexicon.load(tmp_path).get_config() == lexicon.get_config()
    specials = ("<oov>", "<bos>", "<eos>", "<pad>")
    assert lexicon.words == (*specials, "abcdef", "한")
    characters = sorted(set("<bos>abcdefghi한\U0001f600\ufeff<pad>"))
    assert lexicon.entries == (*specials, "<bow>", "<eow>", *characters)
    without_words = Lexicon.build(tokens, None, max_chars=8)
    assert without_words.words is None
    assert without_words.get_config() != lexicon.get_config()


def test_an_id_without_a_character_is_the_ideographic_space(tmp_path):
    entries = ["a", "", *reference.CHARACTERS[-6:]]
    lines = [f"{entry}\t{number}" if entry else str(number) for number, entry in enumerate(entries)]
    (tmp_path / "char.dic").write_text("\n".join(lines))

    lexicon = Lexicon.load(tmp_path, has_words=False)

    assert lexicon.char_ids("\u3000", 4).numpy()[1] == 2


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("char.dic", "a\t0\nb\t2\n", r"char\.dic, line 2: the id 1 is required.*'2'"),
        ("char.dic", "a 0\n", r"char\.dic, line 1: the id 0 is required.*'a 0'"),
        ("char.dic", "a\t0\na\t1\n", r"char\.dic: the entry 'a' is listed twice"),
        ("char.dic", "a\t0\n", r"char\.dic: the entry <oov> is missing"),
        ("word.dic", "a\t0\n", r"word\.dic: the entry <oov> is missing"),
    ],
)
def test_the_error_names_an_invalid_file(lexicon, tmp_path, name, content, message):
    lexicon.save(tmp_path)
    (tmp_path / name).write_text(content)

    with pytest.raises(ValueError, match=message):
        Lexicon.load(tmp_path)


def test_a_character_of_two_code_points_is_refused():
    with pytest.raises(ValueError, match=r"the entry 'ab' is not one character"):
        Lexicon(["ab", *reference.CHARACTERS])
