"""Warnings of sentences whose vectors are probably not those that the user wants."""

import re
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
    r"([,;:!?،؛؟।]['\"”’)\]]*(?!\S)"  # noqa: RUF001
    r"|(?<=[^\W\d_]{2})\.['\"”’)\]]*$|[。！？，；：、])"  # noqa: RUF001
)
_T = TypeVar("_T")


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
                'Separate punctuation by spaces: Embedder(…, tokenizer="en"), elmo-tf embed '
                "--tokenize en, or elmo-tf tokenize --language en.",
                *(num_raw, num_sentences, example.group(), word, mark),
            )
    yield from sentences


def warn_of_tokens(
    tokens: Sequence[bytes], limit: TokenLimit | None, vocabulary: Container[str] | None
) -> None:
    """Warns of truncated or unknown tokens, whose vectors may be those of other tokens.

    The warning appears once per process and kind. `limit` is the length to which the model
    truncates tokens, `vocabulary` that of a model of tokens.
    """
    if limit is not None:
        long = (decode(token) for token in tokens if len(token) > limit.length)
        unusual = list(filter(limit.is_exceeded, long))
        kind = f"longer than {limit}, of which only the first {limit} are read"
    elif vocabulary is not None:
        unusual = [token for token in map(decode, tokens) if token not in vocabulary]
        kind = "not in the vocabulary of the model, and read as <UNK>"
    else:
        return
    if unusual:
        warn_once(
            kind,
            "%d of the first %d distinct tokens are %s, such as %.80r. Further ones are not "
            "reported.",
            *(len(unusual), len(tokens), kind, unusual[0]),
        )
