"""Raw texts ─► their tokens with character offsets and vectors."""

import collections
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

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


class TokenizedTexts:
    """The sentences of texts, as lists of tokens, and the way back from their vectors.

    Args:
        texts: strings, or lists of tokens, which are taken as they are.
        tokenizer: splits a string.
    """

    def __init__(self, texts: Iterable[Any], tokenizer: Tokenizer):
        self._texts = texts
        self._tokenizer = tokenizer
        # Texts whose sentences were read but whose vectors are not there yet.
        self._pending: collections.deque[Sequence[Sequence[Token]]] = collections.deque()

    def __iter__(self) -> Iterator[list[str]]:
        for text in self._texts:
            # A text without tokens is one sentence without tokens.
            sentences = self._split(text) or [[]]
            self._pending.append(sentences)
            for sentence in sentences:
                yield [token.text for token in sentence]

    def with_vectors(self, arrays: Iterator[np.ndarray]) -> Iterator[EmbeddedText]:
        """Yields the texts, given the vectors of all sentences in order."""
        for first in arrays:
            sentences = self._pending.popleft()
            parts = [first, *itertools.islice(arrays, len(sentences) - 1)]
            tokens = list(itertools.chain.from_iterable(sentences))
            places = [(token.start, token.end) for token in tokens]
            yield EmbeddedText(
                [token.text for token in tokens],
                np.array(places, np.int64).reshape(-1, 2),
                np.concatenate(parts, axis=-2) if len(parts) > 1 else first,
            )

    def _split(self, text: Any) -> Sequence[Sequence[Token]]:
        if isinstance(text, bytes):
            text = text.decode("utf-8", "surrogateescape")
        if isinstance(text, str):
            return tokenized(text, self._tokenizer)
        # Offsets are those of the tokens joined by spaces.
        starts = itertools.accumulate((len(token) + 1 for token in text), initial=0)
        return [
            [Token(token, at, at + len(token)) for token, at in zip(text, starts, strict=False)]
        ]
