"""Warnings of sentences whose vectors are probably not those that the user wants."""

import itertools
import re
import unicodedata
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import TypeVar

from elmo_tf.logs import warn_once
from elmo_tf.text.reading import decode
from elmo_tf.text.sentence_files import TokenLimit

_MOST_SENTENCES = 1000
_SHARE = 0.2
# A letter, then punctuation that tokenizers separate: at the end of a token; a full stop only at
# the end of the sentence, because others end abbreviations; that of Chinese and Japanese anywhere.
_ATTACHED = re.compile(
    r"(?:^|(?<=\s))(\S*[^\W\d_])"
    r"([,;:!?،؛؟।]['\"”’)\]]*(?!\S)"
    r"|(?<=[^\W\d_]{2})\.['\"”’)\]]*$|[。！？，；：、])"
)
# A letter of the script of a language, whose tokenizer the warning names.
_SCRIPTS = {"ko-morph": "[가-힣]", "ja": "[ぁ-ヿ]", "zh": "[一-鿿]", "th": "[ก-๛]"}
_T = TypeVar("_T")


def _language(word: str) -> str:
    return next((code for code, letter in _SCRIPTS.items() if re.search(letter, word)), "en")


def _text_of(sentence: str | bytes | Sequence[str | bytes]) -> str:
    is_string = isinstance(sentence, str | bytes)
    return decode(sentence) if is_string else " ".join(map(decode, sentence))


def warn_of_raw_text(
    sentences: Iterable[_T], text_of: Callable[[_T], str] = _text_of
) -> Iterator[_T]:
    """Yields sentences unchanged, and warns if they look like raw text.

    The warning appears once per process, after the last or 1,000th sentence, if more than a fifth
    of them have punctuation attached to a word.

    Args:
        sentences: strings or lists of tokens, or anything else for another `text_of`.
        text_of: returns the tokens of a sentence, separated by spaces.
    """
    sentences = iter(sentences)
    num_sentences = num_raw = 0
    example = None
    try:
        for sentence in sentences:
            num_sentences += 1
            match = _ATTACHED.search(text_of(sentence).rstrip())
            num_raw += match is not None
            example = example or match
            yield sentence
            if num_sentences == _MOST_SENTENCES:
                break
    finally:
        if num_raw > _SHARE * num_sentences:
            word, mark = example.groups()
            warn_once(
                "raw text",
                "%d of %d sentences look like raw text: %r is read as one word, not as %r and %r. "
                'Separate punctuation by spaces: Embedder(…, tokenizer="%s"), elmo-tf embed '
                "--tokenize %s, or elmo-tf tokenize --language %s.",
                *(num_raw, num_sentences, example.group(), word, mark, *[_language(word)] * 3),
            )
    yield from sentences


def warn_of_tokens(
    tokens: Sequence[str],
    limit: TokenLimit | None,
    vocabulary: Container[str] | None,
    characters: Container[str],
) -> None:
    """Warns of tokens whose vectors may be those of other tokens, or poor.

    A warning appears once per process and kind.

    Args:
        tokens: distinct tokens.
        limit: the length to which the model truncates tokens.
        vocabulary: the words that a model of tokens knows.
        characters: those of the training text, as far as they are known; without one, the script
            of the tokens is not checked.
    """
    kinds: dict[str, list[str]] = {}
    if limit is not None:
        kind = f"longer than {limit}, of which only the first {limit} are read"
        kinds[kind] = list(filter(limit.is_exceeded, tokens))
    elif vocabulary is not None:
        kind = "not in the vocabulary of the model, and read as <UNK>"
        kinds[kind] = [text for text in tokens if text not in vocabulary]
    kind = (
        "not in Unicode's normal form NFC, in which most text is, so that their characters have "
        "other vectors (remedy: unicodedata.normalize)"
    )
    kinds[kind] = [text for text in tokens if not unicodedata.is_normalized("NFC", text)]
    for kind, unusual in kinds.items():
        if unusual:
            warn_once(
                kind,
                "%d of the first %d distinct tokens are %s, such as %.80r. Further ones are not "
                "reported.",
                *(len(unusual), len(tokens), kind, unusual[0]),
            )
    letters = list(filter(str.isalpha, itertools.chain(*tokens))) if characters else []
    unknown = [letter for letter in letters if letter not in characters]
    if len(unknown) > _SHARE * len(letters):
        warn_once(
            "script",
            "%.0f %% of the letters of the first %d distinct tokens do not occur in the vocabulary "
            "of the model, such as %r: their vectors carry little information. Is it a model of "
            "another language?",
            *(100 * len(unknown) / len(letters), len(tokens), unknown[0]),
        )
