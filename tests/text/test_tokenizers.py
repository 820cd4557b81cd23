import pickle
import sys

import pytest
import spacy

from elmo_tf.extras import MissingExtraError
from elmo_tf.text.tokenizers import SpacyTokenizer, Token, tokenized, tokenizer_of


@pytest.fixture(scope="module")
def tokenizer():
    return SpacyTokenizer("en")


def test_text_is_split_into_sentences_and_tokens_with_offsets(tokenizer):
    text = "  Don't go, 서울 😀!  It is 5 p.m. now."

    sentences = tokenizer(text)

    assert [[token.text for token in sentence] for sentence in sentences] == [
        ["Do", "n't", "go", ",", "서울", "😀", "!"],
        ["It", "is", "5", "p.m.", "now", "."],
    ]
    assert all(text[t.start : t.end] == t.text for sentence in sentences for t in sentence)


def test_invalid_utf_8_is_kept(tokenizer):
    assert tokenizer("a b \udcff c") == [
        [Token("a", 0, 1), Token("b", 2, 3), Token("\udcff", 4, 5), Token("c", 6, 7)]
    ]


def test_a_spacy_token_that_contains_a_space_is_split(tokenizer):
    copied = pickle.loads(pickle.dumps(tokenizer))
    assert copied("A b.") == tokenizer("A b.")
    tokenizer = copied
    tokenizer._nlp.tokenizer = lambda text: spacy.tokens.Doc(
        tokenizer._nlp.vocab, ["Hà Nội", "đẹp"], [True, False]
    )
    assert tokenizer("Hà Nội đẹp") == [[Token("Hà", 0, 2), Token("Nội", 3, 6), Token("đẹp", 7, 10)]]


def test_texts_of_a_million_characters_are_accepted(tokenizer):
    ((first, *_),) = tokenizer(" " * 1_000_000 + "The cat")

    assert first == Token("The", 1_000_000, 1_000_003)


def test_a_missing_language_package_raises_missing_extra_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "pythainlp", None)
    monkeypatch.setitem(sys.modules, "pythainlp.tokenize", None)

    with pytest.raises(MissingExtraError, match="PyThaiNLP"):
        SpacyTokenizer("th")


@pytest.mark.parametrize("found", [None, "a b", ["a", "b"], [["the", "cat"]], [Token("a", 0, 1)]])
def test_a_function_that_does_not_return_token_lists_is_refused(found):
    with pytest.raises(TypeError, match=r"each a list of `Token\(text, start, end\)`. Received: "):
        tokenized("a b", lambda text: found)


def test_unknown_languages_and_invalid_types_are_refused():
    with pytest.raises(ValueError, match="spaCy has no tokenizer for the language 'qq'"):
        tokenizer_of("qq")
    with pytest.raises(TypeError, match="code of a language"):
        tokenizer_of(3)
    assert tokenizer_of(None) is None
