"""Groups sentences: batches of similar length, or rows that are read in windows; in few shapes.

TensorFlow keeps memory for every shape that it has seen.
"""

import bisect
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

# Row counts are rounded up to a power of two, or above this to a multiple of it.
_ROWS = 8
# Maximum number of packed rows. More are not faster.
_MOST_ROWS = 80
# Tokens of a window: the least number with all rows, and the maximum.
_LEAST_WINDOW, _MOST_WINDOW = 32, 512
# Sentences as long as the longest one that are read together, so that there are enough rows.
_LONG_SENTENCES = 40
# Batches that are read ahead, so that sentences of similar length can share a batch.
BATCHES_AHEAD = 8


def in_batches(
    items: Iterable[_Item],
    batch_tokens: int,
    run: Callable[[list[_Item]], Iterable[_Result]],
    length: Callable[[_Item], int],
) -> Iterator[_Result]:
    """Yields the result of each item, in order, and reads a bounded number of items ahead.

    Args:
        items: sentences, whose number of tokens `length` returns. A boundary is added to each.
        batch_tokens: int >= 1. Maximum tokens per batch, with padding. A longer sentence is a
            separate batch.
        run: returns the results of a batch of items of similar length, the longest last.
    """
    items = iter(items)
    while group := read_ahead(items, BATCHES_AHEAD * batch_tokens, length):
        order = sorted(range(len(group)), key=lambda index: length(group[index]))
        results: dict[int, _Result] = {}
        while order:
            most = 1
            while most < len(order) and batch_tokens >= rounded_rows(most + 1) * rounded_length(
                length(group[order[most]]) + 1
            ):
                most += 1
            batch, order = order[:most], order[most:]
            results |= zip(batch, run([group[index] for index in batch]), strict=True)
        yield from (results[index] for index in range(len(group)))


def packed_rows(lengths: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """Packs sentences into rows, each of several sentences, which `windows` then reads.

    A row gets the longest sentence that is left, then the longest that still fits, and so on.

    Args:
        lengths: number of tokens of each sentence.
        batch_tokens: see `windows`.

    Returns the indices in `lengths` of the sentences of each row, the longest row first.
    """
    most_rows = min(max(batch_tokens // _LEAST_WINDOW, 1), _MOST_ROWS)
    width = max(-(-sum(lengths) // most_rows), *lengths, 1)
    left = sorted((length, -index) for index, length in enumerate(lengths))
    rows: list[tuple[int, list[int]]] = []
    while left:
        row, space = [], width
        while left and left[0][0] <= space:
            length, index = left.pop(bisect.bisect(left, (space, 0)) - 1)
            row.append(-index)
            space -= length
        rows.append((space, row))
    return [row for _, row in sorted(rows, key=operator.itemgetter(0))]


def windows(widths: Sequence[int], batch_tokens: int) -> Iterator[tuple[slice, int]]:
    """Divides rows into windows of about `batch_tokens` tokens.

    Yields the tokens of each window, and its number of rows, a multiple of 8 if it is larger.

    Args:
        widths: number of tokens of each row, the longest first.
        batch_tokens: int >= 1.
    """
    start, end = 0, max(widths[0], 1)
    while start < end:
        num_rows = max(sum(width > start for width in widths), 1)
        if num_rows > _ROWS:
            num_rows = rounded_rows(num_rows)
        most = min(max(batch_tokens // num_rows, 1), _MOST_WINDOW)
        num_windows = -(-(end - start) // most)
        size = -(-(end - start) // num_windows)
        yield slice(start, start + size), num_rows
        start += size


def read_ahead(
    sentences: Iterator[_Item],
    num_tokens: int,
    length: Callable[[_Item], int] = len,
    most_tokens: int = 0,
) -> list[_Item]:
    """Takes sentences until they have `num_tokens` tokens, counting a boundary per sentence.

    If there are long sentences, it takes more for `packed_rows`, up to `most_tokens`.
    """
    group, read = [], 0
    for sentence in sentences:
        group.append(sentence)
        size = length(sentence) + 1
        read += size
        num_tokens = max(num_tokens, min(_LONG_SENTENCES * size, most_tokens))
        if read >= num_tokens:
            break
    return group


def rounded_length(length: int) -> int:
    """Rounds a length up to a multiple of 4, or of a power of two near 1/8 to 1/4 of the length."""
    step = max(4, 2 ** (max(length, 1).bit_length() - 3))
    return max(step, -(-length // step) * step)


def rounded_rows(count: int) -> int:
    """Rounds a number of rows up to a power of two, or above 8 to a multiple of 8."""
    return -(-count // _ROWS) * _ROWS if count > _ROWS else 2 ** (count - 1).bit_length()
