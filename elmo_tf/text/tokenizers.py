"""Raw text ─► sentences of tokens with character offsets."""

import inspect
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from elmo_tf.extras import MissingExtraError, require_extra


class Token(NamedTuple):
    """A token and its place in the text: `text[start:end]`, in characters (code points)."""

    text: str
    start: int
    end: int


# Returns the sentences of a text.
Tokenizer = Callable[[str], Sequence[Sequence[Token]]]


class SpacyTokenizer:
    """The tokenizer and sentence splitter of spaCy for a language; no model is downloaded.

    Whitespace is not a token.

    Args:
        language: a code that spaCy knows, such as "en" or "de", or "xx" for any language.

    Raises:
        ValueError: spaCy does not know the language.
        MissingExtraError: spaCy, or a package that it needs for this language, is not installed.
    """

    def __init__(self, language: str):
        spacy = require_extra("spacy", "spacy", "A tokenizer")
        self.language = language
        try:
            self._nlp = spacy.blank(language)
        except ImportError as error:
            if "E048" not in str(error):  # such as sudachipy for Japanese
                raise MissingExtraError(str(error)) from None
            raise ValueError(f"spaCy has no tokenizer for the language {language!r}.") from None
        self._nlp.add_pipe("sentencizer")
        self._nlp.max_length = sys.maxsize  # the usual limit is for components that need memory

    def __call__(self, text: str) -> list[list[Token]]:
        # spaCy refuses invalid UTF-8.
        document = self._nlp(re.sub("[\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", text))
        sentences = (
            [part for token in sentence for part in _parts(text, token.idx, len(token))]
            for sentence in document.sents
        )
        return [tokens for tokens in sentences if tokens]

    def __reduce__(self) -> tuple:
        return SpacyTokenizer, (self.language,)

    def __repr__(self) -> str:
        return f"SpacyTokenizer({self.language!r})"


def _parts(text: str, start: int, length: int) -> list[Token]:
    """A token of spaCy, split at whitespace, which words of some languages contain."""
    matches = re.finditer(r"\S+", text[start : start + length])
    return [Token(part.group(), start + part.start(), start + part.end()) for part in matches]


def tokenized(text: str, tokenizer: Tokenizer) -> Sequence[Sequence[Token]]:
    """Returns the sentences of a text, without those that have no tokens.

    Raises:
        TypeError: the tokenizer returns something else.
    """
    sentences = tokenizer(text)
    if not _is_list(sentences) or not all(
        _is_list(sentence) and all(isinstance(token, Token) for token in sentence)
        for sentence in sentences
    ):
        raise TypeError(
            "`tokenizer` must return a list of sentences, each a list of `Token(text, start, end)`."
            f" Received: {repr(sentences)[:80]}"
        )
    return [sentence for sentence in sentences if sentence]


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple) and not isinstance(value, Token)


def name_of(tokenizer: Tokenizer) -> str:
    """A name that is the same in every process, unlike a `repr` with an address."""
    if inspect.isfunction(tokenizer) or inspect.ismethod(tokenizer):
        return f"{tokenizer.__module__}.{tokenizer.__qualname__}"
    return re.sub(r" at 0x[0-9a-f]+", "", repr(tokenizer))


def tokenizer_of(tokenizer: str | Tokenizer | None) -> Tokenizer | None:
    """Returns the tokenizer of a language; anything else unchanged. Errors: see `SpacyTokenizer`.

    Raises:
        TypeError: `tokenizer` is neither a language nor callable.
    """
    if isinstance(tokenizer, str):
        return SpacyTokenizer(tokenizer)
    if tokenizer is not None and not callable(tokenizer):
        raise TypeError(
            "`tokenizer` must be the code of a language, such as 'en', or a function from a text "
            f"to its sentences. Received: {tokenizer!r}"
        )
    return tokenizer
