"""Converts between spans, tags and brackets, and defines which tags may follow a tag."""

import itertools
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

OUTSIDE = "O"
# Of the first and the inner tokens of a span, and of spans of one token and last tokens.
_LETTERS = {"BIO": "BI", "IOB1": "BI", "BIOUL": "BIUL", "BILUO": "BIUL", "BIOES": "BISE"}
SCHEMES = tuple(_LETTERS)
ANY_SCHEME = "any"  # reads valid tags of all schemes
_LETTERS[ANY_SCHEME] = "BIULSE"
_CONTINUING = ("I", "L", "E")
# The letter and type of the positions before the first tag and after the last.
_EDGE = (OUTSIDE, "")
# Brackets that open, with their roles; `*` for the token; brackets that close.
BRACKETS = re.compile(r"((?:\([^()*\s]+)*)\*(\)*)")


class Span(NamedTuple):
    """The tokens from `first` up to, excluding, `end`; `label` is a type such as `PER`."""

    label: str
    first: int
    end: int


class TagConstraints(NamedTuple):
    """The allowed first tags, transitions and last tags."""

    first: Sequence[bool]  # (tag,)
    between: Sequence[Sequence[bool]]  # (tag, tag): the tag of a column after that of a row
    last: Sequence[bool]  # (tag,)


class TokenError(ValueError):
    """An error at the token `position` of a sentence, such as a tag that may not be there."""

    def __init__(self, position: int, message: str):
        super().__init__(message)
        self.position = position


def spans_of(tags: Sequence[str], scheme: str) -> list[Span]:
    """The spans that tags mark.

    Args:
        tags: `O`, or a letter, `-` and a type, such as `B-PER`.
        scheme: "BIO": `B` begins a span, `I` continues it. "IOB1": `I` also begins a span if the
            token before has no tag of its type, as in older files and as scorers read broken BIO.
            "BIOUL" or "BILUO": `L` ends a span, `U` is a span of one token. "BIOES": the same with
            the letters `E` and `S`.

    Raises:
        TokenError: a tag does not belong to the scheme, or is not allowed at its position.
        ValueError: an unknown scheme.
    """
    parts = _parts_of(tags, scheme)
    for position, (before, after) in enumerate(itertools.pairwise([_EDGE, *parts, _EDGE])):
        if not _may_follow(before, after, scheme):
            if position == len(tags):
                raise TokenError(position - 1, f"{tags[-1]} may not come last in {scheme}.")
            where = f"follow {tags[position - 1]}" if position else "come first"
            message = f"{tags[position]} may not {where} in {scheme} (--scheme)."
            raise TokenError(position, message)
    spans: list[Span] = []
    for position, (letter, label) in enumerate(parts):
        if letter in _CONTINUING and position > 0 and parts[position - 1][1] == label:
            spans[-1] = spans[-1]._replace(end=position + 1)
        elif letter != OUTSIDE:
            spans.append(Span(label, position, position + 1))
    return spans


def tags_of(spans: Iterable[Span], num_tokens: int, scheme: str) -> list[str]:
    """The tags that mark spans, which must not overlap; those of "IOB1" are BIO."""
    letters = 2 * _LETTERS[scheme]
    tags = [OUTSIDE] * num_tokens
    for label, first, end in spans:
        for position in range(first, end):
            letter = letters[(position > first) + 2 * (position == end - 1)]
            tags[position] = f"{letter}-{label}"
    return tags


def converted(tags: Sequence[str], source: str, target: str) -> list[str]:
    """The tags of the same spans, see `tags_of`. Raises as `spans_of` does."""
    return tags_of(spans_of(tags, source), len(tags), target)


def renamed(tags: Iterable[str], source: str, target: str) -> list[str]:
    """Each tag in another scheme, see `tags_of`, that does not have more letters."""
    if not len(_LETTERS.get(source, "")) >= len(_LETTERS.get(target, SCHEMES)):
        raise ValueError(f"Tags of {source} cannot become those of {target!r} (`output_scheme`).")
    letters = dict(zip(_LETTERS[source], 2 * _LETTERS[target], strict=False))
    return [letters.get(tag[0], tag[0]) + tag[1:] for tag in tags]


def constraints_of(tags: Sequence[str], scheme: str) -> TagConstraints:
    """The sequences of `tags` of a model that a scheme allows. Raises as `spans_of` does."""
    parts = _parts_of(tags, scheme)
    return TagConstraints(
        [_may_follow(_EDGE, tag, scheme) for tag in parts],
        [[_may_follow(before, tag, scheme) for tag in parts] for before in parts],
        [_may_follow(tag, _EDGE, scheme) for tag in parts],
    )


def scheme_tags(labels: Iterable[str], scheme: str) -> list[str]:
    """All tags for span types: `O`, then the tags of each type."""
    return [OUTSIDE, *(f"{letter}-{label}" for label in labels for letter in _LETTERS[scheme])]


def span_types(tags: Iterable[str]) -> list[str]:
    """The types of spans that tags mark, sorted."""
    return sorted({tag[2:] for tag in tags if tag != OUTSIDE})


def bio_of_brackets(brackets: Sequence[str]) -> list[str]:
    """Converts a column of brackets to BIO tags: `(A1*`, `*)`, `*` to `B-A1`, `I-A1`, `O`.

    Raises:
        TokenError: a field is no bracket of this form, or brackets are nested or not balanced.
    """
    spans: list[Span] = []
    role, first = None, 0
    for position, field in enumerate(brackets):
        match = BRACKETS.fullmatch(field)
        if not match:
            raise TokenError(
                position, f"{field!r} is not a bracket such as `(A1*`, `*`, `*)` or `(A1*)`."
            )
        for opened in match[1].split("(")[1:]:
            if role is not None:
                raise TokenError(position, f"the bracket of {opened} is nested in that of {role}.")
            role, first = opened, position
        for _ in match[2]:
            if role is None:
                raise TokenError(position, f"{field!r} closes a bracket that is not open.")
            spans.append(Span(role, first, position + 1))
            role = None
    if role is not None:
        raise TokenError(first, f"the bracket of {role} is not closed.")
    return tags_of(spans, len(brackets), "BIO")


def brackets_of_bio(tags: Sequence[str]) -> list[str]:
    """Converts BIO tags to a column of brackets: `B-A1`, `I-A1`, `O` to `(A1*`, `*)`, `*`.

    As in the scorer of CoNLL-2005, an `I` without a tag of its role before it opens a bracket.

    Raises:
        TokenError: a tag is not one of BIO.
    """
    brackets = ["*"] * len(tags)
    for role, first, end in spans_of(tags, "IOB1"):
        brackets[first] = f"({role}{brackets[first]}"
        brackets[end - 1] += ")"
    return brackets


def _may_follow(before: tuple[str, str], after: tuple[str, str], scheme: str) -> bool:
    if scheme in ("IOB1", ANY_SCHEME):
        return True
    continues = after[0] in _CONTINUING
    is_open = before[0] in ("B", "I")
    if scheme == "BIO":
        return not continues or (is_open and before[1] == after[1])
    return continues == is_open and (not continues or before[1] == after[1])


def _parts_of(tags: Sequence[str], scheme: str) -> list[tuple[str, str]]:
    """The letter and the type of each tag; `O` has the letter `O` and no type."""
    if scheme not in _LETTERS:
        raise ValueError(f"`scheme` must be one of {', '.join(SCHEMES)}. Received: {scheme!r}")
    parts, letters = [], _LETTERS[scheme]
    for position, tag in enumerate(tags):
        letter, _, label = tag.partition("-")
        if tag != OUTSIDE and not (label and letter in [*letters]):
            raise TokenError(
                position,
                f"{tag!r} is not a tag of {scheme} (--scheme): O, or one of {', '.join(letters)} "
                "with a dash and a type, such as B-PER.",
            )
        parts.append((letter, label))
    return parts
