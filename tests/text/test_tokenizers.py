import concurrent.futures
import itertools
import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_tf.text.tokenizers import LANGUAGES, LanguageTokenizer, Token, align, tokenizer_of

# A text of each language, and its tokens, with sentences separated by |.
EXAMPLES = {
    "en": ("  Don't go, 서울 😀!  It is 5 p.m.", "Do n't go , 서울 😀 ! | It is 5 p.m."),
    "xx": (
        "1981년)이다. “Sí!” L'été 2.5-3.5%, x@y.org... 国家。 q\u0323\u0307 \u1e0d\u0304 Ångström!"
        " नमस्ते। မြန်မာ။ می\u200cخواهم۔ ሰላም። Բարեւ։ 𞤆𞤵𞥄𞤤",
        "1981년 ) 이다 . | “ Sí ! ” | L'été 2.5-3.5 % , x@y.org ... | 国家 。 | "
        "q\u0323\u0307 \u1e0d\u0304 Ångström ! | "
        "नमस्ते । | မြန်မာ ။ | می\u200cخواهم ۔ | ሰላም ። | Բարեւ ։ | 𞤆𞤵𞥄𞤤",
    ),
    "ko": (
        "제임스 얼 카터는 1981년)이다. 영화를 봤다ㅋㅋ 재밌어요 또 보고 싶다",
        "제임스 얼 카터는 1981년 ) 이다 . | 영화를 봤다ㅋㅋ | 재밌어요 | 또 보고 싶다",
    ),
    "ko-morph": ("학교에 갔다. 또 왔다!", "학교 에 갔 다 . | 또 왔 다 !"),
    "ja": (
        "国家公務員は、東京に行った。「はい！」",
        "国家 公務 員 は 、 東京 に 行っ た 。 | 「 はい ！ 」",
    ),
    "zh": ("我们于1949年成立，ABC。你好！", "我们 于 1949 年 成立 ， ABC 。 | 你好 ！"),
    "th": ("ฉันรักภาษาไทย 2.5", "ฉัน รัก ภาษาไทย | 2.5"),
}


@pytest.fixture(scope="module")
def tokenizers():
    return {language: LanguageTokenizer(language) for language in EXAMPLES}


@pytest.mark.parametrize("language", EXAMPLES)
def test_text_is_split_into_sentences_and_tokens(language, tokenizers):
    text, expected = EXAMPLES[language]
    # In NFD, with the marks of a letter in another order.
    decomposed = unicodedata.normalize("NFD", text).replace("\u0323\u0304", "\u0304\u0323")
    for same in (text, decomposed):
        sentences = tokenizers[language](same)
        found = [" ".join(token.text for token in sentence) for sentence in sentences]
        assert found == expected.split(" | ")
        check_offsets(tokenizers[language], same)


def test_many_marks_of_one_letter_are_one_token():
    text = "a" + "\u0316\u0301" * 1500 + " b"
    ((first, second),) = LanguageTokenizer("xx")(text)
    assert (first.start, first.end, second.start) == (0, 3001, 3002)
    check_offsets(LanguageTokenizer("en"), "(" * 2500 + " b")


def check_offsets(tokenizer, text):
    """Tokens are parts of the text in order, and only whitespace is between them."""
    end = 0
    for token in (token for sentence in tokenizer(text) for token in sentence):
        part = text[token.start : token.end]
        assert token.text == part or token.text in unicodedata.normalize("NFC", part)
        assert token.text.split() == [token.text]
        assert text[end : token.start].split() == []
        end = token.end
    assert text[end:].split() == []


# Parts of the examples, characters of their scripts, and any character, among them surrogates.
LINES = st.lists(
    st.one_of(
        st.sampled_from([word for text, _ in EXAMPLES.values() for word in text.split()]),
        st.text(
            st.one_of(
                st.sampled_from("가힣ᄒᆞᆫㅋあンー々国𠮷กำ็ａ１，。．！？「」👩🏽‍💻☀️é\u0301\0\ud800"),
                st.characters(),
            ),
            max_size=6,
        ),
    ),
    max_size=12,
)
SEPARATORS = st.sampled_from(["", " ", "  ", "\n", "\t", "\u3000", "\u00a0"])


@pytest.mark.parametrize("language", EXAMPLES)
@settings(max_examples=50)
@given(parts=LINES, separator=SEPARATORS)
def test_offsets_name_the_tokens_of_any_text(language, tokenizers, parts, separator):
    check_offsets(tokenizers[language], separator.join(parts))


@pytest.mark.parametrize("language", LANGUAGES)
def test_long_lines_are_accepted(language, tokenizers):
    check_offsets(tokenizers[language], "国家한국어ไทย " * 10_000)
    assert {t.text for t in itertools.chain(*tokenizers["xx"]("abcdef " * 5_000))} == {"abcdef"}


def test_words_are_aligned_with_their_tokens(tokenizers):
    tokens = ["학교", "에", "갔", "다", "."]
    assert align(["학교에", "", "갔 다", "."], tokenizers["ko-morph"]) == (tokens, [0, 0, 2, 2, 3])
    assert align(["e\u0301x", "\u0301y", "z"], tokenizers["xx"])[1] == [0, 1, 1, 2]
    across = lambda text: [[Token(text[:3], 0, 3)]]  # noqa: E731
    assert align(["a", "b", "c"], across) == (["a b"], [0])


def test_several_threads_use_a_tokenizer(tokenizers):
    texts = [text for text, _ in EXAMPLES.values()] * 20
    for language, tokenizer in tokenizers.items():
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            assert [*pool.map(tokenizer, texts)] == [*map(tokenizer, texts)], language


def test_the_tokenizer_of_a_model_is_resolved():
    assert tokenizer_of("model", "de").language == tokenizer_of("de", None).language == "de"
    assert {tokenizer_of(name, "whitespace") for name in (None, "whitespace", "model")} == {None}
    assert tokenizer_of(str.split, None) is str.split
    with pytest.raises(ValueError, match="does not name the tokenizer of its training text"):
        tokenizer_of("model", None)


def test_the_extra_of_a_language_is_named_if_it_is_missing(monkeypatch):
    extras = {"ko": "korean", "ja": "japanese", "zh": "chinese", "th": "thai"}
    for module in ("kiwipiepy", "sudachipy", "rjieba", "pythainlp.tokenize"):
        monkeypatch.setitem(sys.modules, module, None)
    for language, extra in extras.items():
        with pytest.raises(ImportError, match=rf"pip install '\.\[{extra}\]'"):
            LanguageTokenizer(language)
