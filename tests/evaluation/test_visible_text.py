import pytest

from elmo_tf.evaluation.visible_text import shortened, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain Äpfel 은행 😀 नि\u200dशा", "plain Äpfel 은행 😀 नि\u200dशा"),
        ("a\tb\r\nc\x00\x85\u2028\u2029\udcff", r"a\tb\r\nc\x00\x85\u2028\u2029\udcff"),
    ],
)
def test_invisible_characters_are_escaped(text, shown):
    assert visible(text) == shown


def test_long_texts_end_in_an_ellipsis():
    assert shortened("abcd", 4) == "abcd"
    assert shortened("abcde", 4) == "abc…"
