"""Raw text ─► sentences of tokens with character offsets."""

import bisect
import itertools
import os
import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from absl import logging

from elmo_tf.lazy import require_extra
from elmo_tf.logs import warn_once


class Token(NamedTuple):
    """A token and its place in the text: `text[start:end]`, in characters (code points).

    A tokenizer that normalizes returns that part of the text in its normal form.
    """

    text: str
    start: int
    end: int


# Returns the sentences of a text.
Tokenizer = Callable[[str], Sequence[Sequence[Token]]]
# The start and end of each token of a sentence. They may overlap.
_Spans = Iterable[tuple[int, int]]
# Returns the sentences of a text without invalid characters.
_Cut = Callable[[str], Iterable[_Spans]]


class LanguageTokenizer:
    """The tokenizer and sentence splitter of a language; no model is downloaded.

    The tokens hold all characters of the text but whitespace, in Unicode's normal form NFC. They do
    not overlap, but in a text that is not in NFC, tokens within a letter and its marks have the
    place of the whole. Such a text is reported once.

    Args:
        language: one of `LANGUAGES`, or a code that spaCy knows, such as "en" or "de".

    Raises:
        ValueError: there is no tokenizer for the language.
        ImportError: a package is not installed.
    """

    def __init__(self, language: str):
        self.language = language
        self._cut = LANGUAGES[language]() if language in LANGUAGES else _spacy(language)

    def __call__(self, text: str) -> list[list[Token]]:
        if not unicodedata.is_normalized("NFC", text):
            warn_once("NFC", "Text is normalized to NFC for the tokenizer, such as %.80r.", text)
            return self._of_normal_form(text)
        # Surrogates (invalid UTF-8) and NUL are refused by some tokenizers.
        valid = re.sub("[\0\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", text)
        sentences, end = [], 0
        for spans in itertools.chain(self._cut(valid), [[(len(text), len(text))]]):
            tokens, end = _tokens(text, end, spans)
            if tokens:
                sentences.append(tokens)
        return sentences

    def _of_normal_form(self, text: str) -> list[list[Token]]:
        """The tokens of the text's normal form, with their places in the text."""
        normal, places = [], []  # parts, and the place of each character of their normal forms
        for part in _PART.finditer(text):
            normal.append(unicodedata.normalize("NFC", part.group()))
            places += [part.span()] * len(normal[-1])
        return [
            [Token(word, places[start][0], places[end - 1][1]) for word, start, end in sentence]
            for sentence in self("".join(normal))
        ]

    def __reduce__(self) -> tuple:
        return LanguageTokenizer, (self.language,)

    def __repr__(self) -> str:
        return f"LanguageTokenizer({self.language!r})"


def _tokens(text: str, start: int, spans: _Spans) -> tuple[list[Token], int]:
    """The tokens of a sentence that begins at `start`, and its end.

    Overlapping spans are one token. Spans are split at whitespace; what is between them is a token
    too, unless it is whitespace.
    """
    bounds = [start, start]
    for first, last in spans:
        if first < bounds[-1]:
            bounds[-1] = max(bounds[-1], last)
        else:
            bounds += first, last
    tokens = [
        Token(part.group(), left + part.start(), left + part.end())
        for left, right in itertools.pairwise(bounds)
        for part in re.finditer(r"\S+", text[left:right])
    ]
    return tokens, bounds[-1]


# Vowel signs, diacritics, variants and joiners, which belong to the character before them.
MARKS = "\u200c\u200d" + "".join(
    char for char in map(chr, range(0x300, 0x1F000)) if unicodedata.category(char)[0] == "M"
)
# A part of a text that is normalized on its own: Hangul vowels and finals are composed like marks.
_PART = re.compile(rf"\s|\S(?:(?![\u200c\u200d\ufe00-\ufe0f])[{MARKS}\u1161-\u1175\u11a8-\u11c2])*")
# A number, address or Latin word, with the letters after it; a word; or equal punctuation marks.
_LATIN = "0-9A-Za-zÀ-ÖØ-öø-ɏ"
_WORD = re.compile(
    rf"[{_LATIN}]+(?:(?:[-.:~/@&'’]|(?<=\d),(?=\d))[{_LATIN}]+)*[\w{MARKS}]*"
    rf"|\w[\w{MARKS}]*|(\S)\1*[{MARKS}]*"
)
# The end of a sentence: marks of Chinese and Japanese anywhere, others before whitespace.
_STOPS = ".!?…؟۔।॥።፧։།။។"
_END = re.compile(
    rf"[。｡！？]+[」』”’）】》)\]\"']*|(?<![{_STOPS}])[{_STOPS}]+[”’)\]\"']*(?=\s|$)|\n"
)
# Longer sentences are cut, after a space if they have one. Sudachi's limit is 49,149 bytes.
_MAX_CHARACTERS = 10_000


def _words(text: str, *bounds: int) -> _Spans:
    return (word.span() for word in _WORD.finditer(text, *bounds))


def _sentences(text: str) -> Iterator[tuple[int, int]]:
    """The sentences of a text by punctuation."""
    start = 0
    for end in (*(match.end() for match in _END.finditer(text)), len(text)):
        while start < end:
            limit = start + _MAX_CHARACTERS
            stop = end if limit >= end else text.rfind(" ", start, limit) + 1 or limit
            yield start, stop
            start = stop


def _by_punctuation(spans_of: Callable[[str], _Spans]) -> _Cut:
    """Sentences by punctuation, whose tokens a function returns."""
    return lambda text: (
        [(start + first, start + last) for first, last in spans_of(text[start:end])]
        for start, end in _sentences(text)
    )


def _korean(is_split: bool) -> _Cut:
    """Sentences by Kiwi; words, or the morphemes of Kiwi.

    Morphemes that share a syllable, such as 갔 (가 + 었), are one token.
    """
    # Without names that contain spaces and without a model of typing errors: faster to load.
    kiwi = require_extra("kiwipiepy", "korean", "The Korean tokenizer").Kiwi(
        num_workers=1, load_multi_dict=False, load_typo_dict=False
    )

    def cut(text: str) -> Iterator[_Spans]:
        for sentence in kiwi.split_into_sents(text, return_tokens=is_split):
            if is_split:
                yield ((token.start, token.end) for token in sentence.tokens)
            else:
                yield _words(text, sentence.start, sentence.end)

    return cut


def _japanese() -> _Cut:
    """Short units of Sudachi, as in the Universal Dependencies."""
    sudachi = require_extra("sudachipy", "japanese", "The Japanese tokenizer")
    require_extra("sudachidict_core", "japanese", "The Japanese tokenizer")
    dictionary = sudachi.Dictionary(dict="core")

    def spans_of(sentence: str) -> _Spans:
        # A new one (0.1 µs), because a tokenizer refuses calls of two threads at once.
        words = dictionary.tokenizer(sudachi.SplitMode.A).tokenize(sentence)
        return ((word.begin(), word.end()) for word in words)

    return _by_punctuation(spans_of)


def _chinese() -> _Cut:
    jieba = require_extra("rjieba", "chinese", "The Chinese tokenizer").Jieba()
    return _by_punctuation(
        lambda sentence: ((start, end) for _, start, end in jieba.tokenize(sentence))
    )


def _thai() -> _Cut:
    thai = require_extra("pythainlp.tokenize", "thai", "The Thai tokenizer")
    require_extra("pycrfsuite", "thai", "The Thai tokenizer")

    def cut(text: str) -> Iterator[_Spans]:
        for start, end in _sentences(text):
            for sentence in thai.sent_tokenize(text[start:end]):
                lengths = map(len, thai.word_tokenize(sentence))
                yield itertools.pairwise(itertools.accumulate(lengths, initial=start))
                start += len(sentence)

    return cut


def _spacy(language: str) -> _Cut:
    spacy = require_extra("spacy", "spacy", "A tokenizer")
    try:
        nlp = spacy.blank(language)
    except ImportError as error:
        if "E048" not in str(error):  # such as pymorphy3 for Russian
            raise
        raise ValueError(
            f"There is no tokenizer for the language {language!r}. Codes: {', '.join(LANGUAGES)}, "
            "and those of spaCy, such as en. For any other language: xx."
        ) from None
    nlp.add_pipe("sentencizer")
    nlp.max_length = sys.maxsize  # the usual limit is for components that need memory

    def cut(text: str) -> Iterator[_Spans]:
        # Long runs of punctuation would take quadratic time.
        ends = [match.end() for match in re.finditer(r"\S{1000}", text)]
        gaps = [end + index for index, end in enumerate(ends)]
        parts = (text[start:end] for start, end in itertools.pairwise([0, *ends, len(text)]))
        for sentence in nlp(" ".join(parts)).sents:
            starts = [token.idx - bisect.bisect(gaps, token.idx) for token in sentence]
            yield [(start, start + len(one)) for start, one in zip(starts, sentence, strict=True)]

    return cut


# Tokenizers other than spaCy's, by language code.
LANGUAGES: dict[str, Callable[[], _Cut]] = {
    "ja": _japanese,
    "ko": lambda: _korean(is_split=False),
    "ko-morph": lambda: _korean(is_split=True),
    "th": _thai,
    "xx": lambda: _by_punctuation(_words),
    "zh": _chinese,
}


def tokenized(text: str, tokenizer: Tokenizer) -> Sequence[Sequence[Token]]:
    """Returns the sentences of a text, without those that have no tokens.

    Raises:
        TypeError: the tokenizer returns something else.
    """
    sentences = [list(sentence) for sentence in tokenizer(text)]
    if not all(isinstance(token, Token) and token.text for token in itertools.chain(*sentences)):
        raise TypeError(
            "`tokenizer` must return a list of sentences, each a list of `Token(text, start, end)`,"
            f" none of them empty. Received: {sentences!r:.80}"
        )
    return list(filter(None, sentences))


def record_tokenizer(file: str | os.PathLike, tokenizer: str | None) -> None:
    """Records the name of the tokenizer of a text or vocabulary, in a hidden file beside it."""
    if tokenizer is None:
        _record_of(file).unlink(missing_ok=True)  # of a file that was replaced
    else:
        _record_of(file).write_text(f"{tokenizer}\n", encoding="utf-8")


def recorded_tokenizer(files: Iterable[str | os.PathLike]) -> str | None:
    """The name that was recorded beside some of the files; None without one, or with several."""
    records = filter(Path.is_file, map(_record_of, files))
    names = sorted({record.read_text("utf-8").strip() for record in records})
    if len(names) > 1:
        logging.warning("The tokenizers of the texts differ: %s. None is recorded.", names)
    return names[0] if len(names) == 1 else None


def _record_of(file: str | os.PathLike) -> Path:
    return Path(file).with_name(f".{Path(file).name}.tokenizer")


def tokenizer_of(tokenizer: str | Tokenizer | None, of_model: str | None) -> Tokenizer | None:
    """The tokenizer that an argument names; None for one that splits at whitespace.

    Args:
        tokenizer: None or "whitespace"; the code of a language, see `LanguageTokenizer`; "model",
            the tokenizer of the model's training text; or a function, which is returned.
        of_model: the name of that tokenizer, `BiLMConfig.tokenizer`.

    Raises:
        ValueError: the model does not name one, or there is no tokenizer for the language.
        ImportError: a package is not installed.
    """
    tokenizer = tokenizer_code(tokenizer, of_model)
    return LanguageTokenizer(tokenizer) if isinstance(tokenizer, str) else tokenizer


def tokenizer_code(
    tokenizer: str | Tokenizer | None, of_model: str | None
) -> str | Tokenizer | None:
    """The code or function of `tokenizer_of`, which is not loaded."""
    if tokenizer == "model":
        if of_model is None:
            raise ValueError(
                "The model does not name the tokenizer of its training text (`tokenizer` in "
                "options.json). Pass the code of its language, such as en."
            )
        tokenizer = of_model
    return None if tokenizer == "whitespace" else tokenizer


def token_sentences(texts: Iterable[str], tokenizer: Tokenizer | None) -> Iterator[list[str]]:
    """Yields the tokens of each sentence of texts; without a tokenizer, a text is a sentence."""
    for text in texts:
        if tokenizer is None:
            yield text.split()
        else:
            yield from ([token.text for token in each] for each in tokenized(text, tokenizer))


def align(words: Sequence[str], tokenizer: Tokenizer) -> tuple[list[str], list[int]]:
    """Tokenizes a sentence whose words are given, such as the labeled words of a treebank.

    The text is the words with a space between them; whitespace within a word is removed.

    Args:
        words: the words of a sentence.
        tokenizer: splits the text, in one or several sentences.

    Returns:
        The tokens of all sentences, and for each token the index of the word in which it begins. A
        word in which none begins, such as an empty one, has no token.

    Example:
        >>> from elmo_tf.text.tokenizers import LanguageTokenizer, align
        >>> align(["don't", "go"], LanguageTokenizer("en"))
        (['do', "n't", 'go'], [0, 0, 1])
    """
    words = ["".join(word.split()) for word in words]
    starts = list(itertools.accumulate((len(word) + 1 for word in words), initial=0))
    tokens = list(itertools.chain.from_iterable(tokenized(" ".join(words), tokenizer)))
    owners = [bisect.bisect_right(starts, token.start) - 1 for token in tokens]
    return [token.text for token in tokens], owners
