"""tags of spans ─► spans, and back; which tags may follow which."""

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from elmo_tf.config_checks import check_choice

OUTSIDE = "O"
SCHEMES = ("BIO", "IOB1", "BIOUL")
_LETTERS = {"BIO": "BI", "IOB1": "BI", "BIOUL": "BIUL"}
# What stands before the first tag and behind the last.
_EDGE = (OUTSIDE, "")


class Span(NamedTuple):
    """Tokens from `first` to before `end`, of a type such as `PER`."""

    label: str
    first: int
    end: int


class TagConstraints(NamedTuple):
    """Which tags may come first, after each other, and last.

    first: bool (tag,).
    between: bool (tag, tag). A tag (column) behind another (row).
    last: bool (tag,).
    """

    first: Sequence[bool]
    between: Sequence[Sequence[bool]]
    last: Sequence[bool]

    def check(self, num_tags: int) -> None:
        """Refuses constraints for another number of tags.

        Raises:
            ValueError: they are.
        """
        sizes = {len(self.first), len(self.between), len(self.last), *map(len, self.between)}
        if sizes != {num_tags}:
            raise ValueError(
                f"`constraints` must be for {num_tags} tags. Received: constraints for "
                f"{', '.join(map(str, sorted(sizes)))}."
            )


class TagError(ValueError):
    """A tag that its scheme does not allow where it stands; `position` is its place."""

    def __init__(self, position: int, message: str):
        super().__init__(message)
        self.position = position


def spans_of(tags: Sequence[str], scheme: str) -> list[Span]:
    """Finds the spans that tags mark.

    Args:
        tags: `O`, or a letter, `-` and a type, such as `B-PER`.
        scheme: "BIO": `B` begins a span, `I` goes on. "IOB1": `I` begins one too where none of its
            type goes on, as in older files, and as scorers read broken BIO. "BIOUL": `L` ends a
            span, `U` is one by itself.

    Raises:
        TagError: a tag is none of the scheme, or none that may stand there.
        ValueError: an unknown scheme.
    """
    check_choice(scheme, "scheme", SCHEMES)
    parts = [_parts(tag, scheme, position) for position, tag in enumerate(tags)]
    for position, (before, after) in enumerate(itertools.pairwise([_EDGE, *parts, _EDGE])):
        if not _may_follow(before, after, scheme):
            raise _misplaced(tags, position)
    spans: list[Span] = []
    for position, (letter, label) in enumerate(parts):
        continues = letter in ("I", "L") and position > 0 and parts[position - 1][1] == label
        if continues:
            spans[-1] = spans[-1]._replace(end=position + 1)
        elif letter != OUTSIDE:
            spans.append(Span(label, position, position + 1))
    return spans


def tags_of(spans: Iterable[Span], num_tokens: int, scheme: str) -> list[str]:
    """The tags of a sentence with spans that do not overlap; see `spans_of`."""
    check_choice(scheme, "scheme", SCHEMES)
    tags = [OUTSIDE] * num_tokens
    for label, first, end in spans:
        last = end - 1
        for position in range(first, end):
            letter = "I"
            if position == first:
                letter = "B"
            if scheme == "BIOUL" and position == last:
                letter = "U" if position == first else "L"
            tags[position] = f"{letter}-{label}"
    if scheme == "IOB1":
        return _without_needless_beginnings(tags)
    return tags


def converted(tags: Sequence[str], source: str, target: str) -> list[str]:
    """The same spans in another scheme. Raises as `spans_of`."""
    return tags_of(spans_of(tags, source), len(tags), target)


def constraints_of(tags: Sequence[str], scheme: str) -> TagConstraints:
    """What a scheme allows.

    Args:
        tags: all that there are, in their order.
        scheme: see `spans_of`.

    Raises:
        TagError: a tag is none of the scheme.
        ValueError: an unknown scheme.
    """
    check_choice(scheme, "scheme", SCHEMES)
    parts = [_parts(tag, scheme, position) for position, tag in enumerate(tags)]
    return TagConstraints(
        [_may_follow(_EDGE, one, scheme) for one in parts],
        [[_may_follow(before, one, scheme) for one in parts] for before in parts],
        [_may_follow(one, _EDGE, scheme) for one in parts],
    )


def scheme_tags(labels: Iterable[str], scheme: str) -> list[str]:
    """All tags of types of spans: `O`, then those of each type."""
    return [OUTSIDE, *(f"{letter}-{label}" for label in labels for letter in _LETTERS[scheme])]


def _may_follow(before: tuple[str, str], after: tuple[str, str], scheme: str) -> bool:
    """Whether a tag may stand behind another."""
    if scheme == "IOB1":
        return True
    continues = after[0] in ("I", "L")
    is_open = before[0] in ("B", "I")
    if scheme == "BIO":
        return not continues or (is_open and before[1] == after[1])
    return continues == is_open and (not continues or before[1] == after[1])


def _misplaced(tags: Sequence[str], position: int) -> TagError:
    if position == len(tags):
        return TagError(position - 1, f"{tags[-1]} may not come last.")
    where = f"follow {tags[position - 1]}" if position else "come first"
    return TagError(position, f"{tags[position]} may not {where}.")


def _parts(tag: str, scheme: str, position: int) -> tuple[str, str]:
    """A tag's letter and type; those of `O` are `O` and nothing."""
    if tag == OUTSIDE:
        return OUTSIDE, ""
    letter, dash, label = tag.partition("-")
    letters = _LETTERS[scheme]
    if len(letter) != 1 or letter not in letters or not dash or not label:
        raise TagError(
            position,
            f"{tag!r} is no tag of {scheme}: O, or one of {', '.join(letters)} with a dash and a "
            "type, such as B-PER.",
        )
    return letter, label


def _without_needless_beginnings(tags: Sequence[str]) -> list[str]:
    """BIO as IOB1: `B` only where a span of the same type ends just before."""
    return [
        f"I-{tag[2:]}" if tag.startswith("B-") and last[2:] != tag[2:] else tag
        for last, tag in itertools.pairwise([OUTSIDE, *tags])
    ]
