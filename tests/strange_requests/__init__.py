"""Requests that no client of good sense sends, and what a server may say to each."""

import dataclasses
import functools
from collections.abc import Callable, Iterator
from random import Random
from typing import Any


@dataclasses.dataclass(frozen=True)
class Kind:
    """Requests that are strange in one way.

    Attributes:
        name: of the way.
        make: from a random generator and the size of what is large: a request as it is sent.
        statuses: what a server may say.
        method: of gRPC.
        is_large: whether requests are of about that size.
    """

    name: str
    make: Callable[[Random, int], bytes]
    statuses: frozenset
    method: str | None
    is_large: bool


class Kinds(list[Kind]):
    """Kinds, made of functions that `add` decorates.

    Args:
        encode: turns what such a function gives into bytes, unless it is bytes.
    """

    def __init__(self, encode: Callable[[Any], bytes]):
        super().__init__()
        self._encode = encode

    def add(self, *statuses: Any, method: str | None = None, is_large: bool = False) -> Callable:
        def register(function):
            @functools.wraps(function)
            def make(rng, size):
                request = function(rng, size)
                return request if isinstance(request, bytes) else self._encode(request)

            kind = Kind(function.__name__, make, frozenset(statuses), method, is_large)
            self.append(kind)
            return function

        return register


def mixed(kinds: list[Kind], num_requests: int, num_large: int, rng: Random) -> Iterator[Kind]:
    """Half of them in any order, then the other half. Each half has all kinds.

    Args:
        num_requests: of all kinds together.
        num_large: of each large kind, an even number.
    """
    large = [kind for kind in kinds if kind.is_large]
    small = [kind for kind in kinds if not kind.is_large]
    for _ in range(2):
        chosen = small + large * (num_large // 2)
        chosen += rng.choices(small, k=num_requests // 2 - len(chosen))
        rng.shuffle(chosen)
        yield from chosen


def mutated(content: bytes, rng: Random) -> bytes:
    """With some bits flipped, and sometimes a piece cut out, doubled or put elsewhere."""
    changed = bytearray(content)
    for _ in range(rng.randrange(1, 6)):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    start, end = sorted(rng.choices(range(len(changed)), k=2))
    piece = changed[start:end]
    match rng.randrange(6):
        case 0:
            del changed[start:end]
        case 1:
            changed[start:start] = piece
        case 2:
            del changed[start:end]
            at = rng.randrange(len(changed))
            changed[at:at] = piece
    return bytes(changed)
