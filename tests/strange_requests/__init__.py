"""Requests that no client of good sense sends, and what a server may say to each."""

import dataclasses
from collections.abc import Callable, Iterator
from random import Random


@dataclasses.dataclass(frozen=True)
class Kind:
    """Requests that are strange in one way.

    Attributes:
        name: of the way.
        make: from a random generator and the size of what is large: a request, as it is sent.
        statuses: what a server may say.
        method: of gRPC.
        is_large: whether requests are as large as `size`.
    """

    name: str
    make: Callable[[Random, int], bytes]
    statuses: frozenset
    method: str | None = None
    is_large: bool = False


def mix(kinds: list[Kind], num_requests: int, num_large: int, rng: Random) -> Iterator[Kind]:
    """Kinds in any order, each large one `num_large` times: all of them in each half."""
    large = [kind for kind in kinds if kind.is_large]
    small = [kind for kind in kinds if not kind.is_large]
    for half in range(2):
        chosen = large * (num_large // 2)
        chosen += small + rng.choices(small, k=num_requests // 2 - len(chosen) - len(small))
        rng.shuffle(chosen)
        yield from chosen


def mutated(content: bytes, rng: Random) -> bytes:
    """With some bits flipped, and sometimes a piece cut out, doubled or put elsewhere."""
    changed = bytearray(content)
    for _ in range(rng.randrange(1, 6)):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    start, end = sorted(rng.choices(range(len(changed)), k=2))
    match rng.randrange(6):
        case 0:
            del changed[start:end]
        case 1:
            changed[start:start] = changed[start:end]
        case 2:
            piece = changed[start:end]
            del changed[start:end]
            at = rng.randrange(len(changed))
            changed[at:at] = piece
    return bytes(changed)
