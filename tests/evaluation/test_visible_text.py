import pytest

from elmo_tf.evaluation.neighbors import in_context, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain Äpfel 은행 😀 नि\u200dशा", "plain Äpfel 은행 😀 नि\u200dशा"),
        ("a\tb\r\nc\x00\x85\u2028\u2029\udcff", r"a\tb\r\nc\x00\x85\u2028\u2029\udcff"),
    ],
)
def test_invisible_characters_are_escaped(text, shown):
    assert visible(text) == shown


def test_a_token_is_marked_in_its_context():
    tokens = ["a", "|", "c\t", "d"]

    assert in_context(tokens, 1) == r"a **\|** c\t d"
    assert in_context(tokens, 3, width=1) == r"… c\t **d**"
