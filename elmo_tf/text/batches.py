"""Sentences of like length together, and few shapes: TensorFlow keeps memory for each seen."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

_Token = TypeVar("_Token", str, bytes)

# Rows of a batch up to which their number is a power of two; beyond, a multiple of this.
_ROWS = 8
# The LSTMs leave padding out, so that it costs nothing but memory.
_POSITIONS_PER_TOKEN = 4


def length_batches(
    lengths: Sequence[int], batch_tokens: int, positions_per_token: int = 1
) -> Iterator[list[int]]:
    """Puts sentences of like length together, as many as fit.

    Args:
        lengths: of the sentences.
        batch_tokens: int >= 1. Tokens of a batch. A longer sentence is a batch of its own.
        positions_per_token: int >= 1. For each of those tokens, places that a batch may have with
            the padding of both axes. 1 is for work that padding costs as much as tokens do.

    Yields:
        Places in `lengths`, the longest of a batch last.
    """
    batch: list[int] = []
    tokens = 0
    for place in sorted(range(len(lengths)), key=lambda place: lengths[place]):
        length = lengths[place]
        positions = rounded_rows(len(batch) + 1) * rounded_length(length)
        is_full = tokens + length > batch_tokens or positions > positions_per_token * batch_tokens
        if batch and is_full:
            yield batch
            batch, tokens = [], 0
        batch.append(place)
        tokens += length
    if batch:
        yield batch


def sentence_batches(lengths: Iterable[int], batch_tokens: int) -> Iterator[list[int]]:
    """The same for a biLM, which reads two boundaries more, and leaves padding out.

    Args:
        lengths: of the sentences, without their boundaries.
        batch_tokens: int >= 1. Tokens of a batch, with the boundaries.
    """
    lengths = [length + 2 for length in lengths]
    yield from length_batches(lengths, batch_tokens, _POSITIONS_PER_TOKEN)


def read_ahead(sentences: Iterator[Sequence[_Token]], num_tokens: int) -> list[Sequence[_Token]]:
    """The next sentences, up to the one with which they have that many tokens.

    Args:
        sentences: each its tokens.
        num_tokens: int >= 1. A boundary counts with each sentence.
    """
    group, read = [], 0
    for tokens in sentences:
        group.append(tokens)
        read += len(tokens) + 1
        if read >= num_tokens:
            break
    return group


def rounded_length(length: int) -> int:
    """The next of few lengths: multiples of 4, then of an eighth to a quarter of the length."""
    step = max(4, 2 ** (max(length, 1).bit_length() - 3))
    return max(step, -(-length // step) * step)


def rounded_rows(count: int) -> int:
    """The next of few numbers of rows."""
    return -(-count // _ROWS) * _ROWS if count > _ROWS else 2 ** (count - 1).bit_length()
