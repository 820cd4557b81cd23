"""Raw texts ─► their tokens with character offsets and vectors."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from elmo_tf.text.tokenizers import Token, Tokenizer, tokenized


class EmbeddedText(NamedTuple):
    """The tokens of a text, all sentences in a row.

    Attributes:
        tokens: strings.
        offsets: int (token, 2). The start and end of each token in the text, in characters.
        vectors: float32 (…, token, feature), see `Embedder`.
    """

    tokens: list[str]
    offsets: np.ndarray
    vectors: np.ndarray


def embedded_texts(
    texts: Iterable[str | list[str]],
    tokenizer: Tokenizer,
    embed: Callable[[Iterator[list[str]]], Iterator[np.ndarray]],
) -> Iterator[EmbeddedText]:
    """See `Embedder.embed_texts`; `embed` yields the vectors of sentences (lists of tokens)."""
    # A text without tokens is one sentence without tokens.
    split, embedded = itertools.tee(_sentences(text, tokenizer) or [[]] for text in texts)
    arrays = embed([token.text for token in sentence] for text in embedded for sentence in text)
    for text in split:
        tokens = list(itertools.chain.from_iterable(text))
        places = [(token.start, token.end) for token in tokens]
        yield EmbeddedText(
            [token.text for token in tokens],
            np.array(places, np.int64).reshape(-1, 2),
            np.concatenate(list(itertools.islice(arrays, len(text))), axis=-2),
        )


def _sentences(text: str | list[str], tokenizer: Tokenizer) -> Sequence[Sequence[Token]]:
    """The sentences of a text. A list of tokens is one, with offsets as if joined by spaces."""
    if isinstance(text, str):
        return tokenized(text, tokenizer)
    starts = itertools.accumulate((len(token) + 1 for token in text), initial=0)
    return [[Token(token, at, at + len(token)) for token, at in zip(text, starts, strict=False)]]
