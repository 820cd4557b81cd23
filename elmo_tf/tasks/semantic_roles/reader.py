"""Columns of roles (PropBank), or lines with a predicate ─► one proposition per predicate."""

import os
import sys
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from absl import logging

from elmo_tf.tasks.reading import naming_line, naming_row
from elmo_tf.tasks.tag_schemes import (
    BRACKETS,
    TokenError,
    bio_of_brackets,
    check_known_tags,
    spans_of,
)
from elmo_tf.text.reading import read_lines
from elmo_tf.text.sentence_files import (
    Row,
    column_sentences,
    line_error,
    warn_of_invalid_utf_8,
)

NO_PREDICATE = "-"
LABELS_FOLLOW = "|||"
# Replaces every word in files without the text of the treebank.
_NO_WORD = "[WORD]"


class Proposition(NamedTuple):
    """A predicate in its sentence, and the roles of the tokens.

    tokens: tokens of the sentence, at least one. Propositions of a sentence share the list.
    predicate: index of the predicate's token, from 0. None in a sentence without a predicate, which
        has no tags.
    tags: one BIO tag per token. The predicate itself has the role `V`: in nearly all data the
        token at `predicate`, and further tokens of phrasal verbs. Empty if the file has none.
    roleset: such as `kill.01`; a lemma in CoNLL-2005; empty if the file has none.
    lemma: of the predicate, such as `kill`; empty if the file has none.
    """

    tokens: list[str]
    predicate: int | None
    tags: list[str]
    roleset: str
    lemma: str = ""


def by_sentence(propositions: Iterable[Proposition]) -> list[list[Proposition]]:
    """Groups the propositions of each sentence.

    Consecutive propositions belong to one sentence if they share its list of tokens, or if their
    tokens are equal and their predicates in order, as in a file with a proposition per line.
    """
    groups: list[list[Proposition]] = []
    for each in propositions:
        last = groups[-1][-1] if groups else None
        if last is not None and (each.tokens is last.tokens or _continues(last, each)):
            groups[-1].append(each)
        else:
            groups.append([each])
    return groups


def _continues(last: Proposition, each: Proposition) -> bool:
    has_both = last.predicate is not None and each.predicate is not None
    return has_both and last.predicate < each.predicate and last.tokens == each.tokens


class Layout(NamedTuple):
    """The columns of a file, counted from 1.

    token: column of the tokens.
    roleset: column of the roleset or lemma of a predicate; `-` for other tokens.
    roles: column of the first predicate's roles. The columns of the others follow, in order of
        their tokens.
    num_after: number of columns after those of the roles.
    lemma: column of the lemma of a predicate, or None.
    """

    token: int
    roleset: int
    roles: int
    num_after: int = 0
    lemma: int | None = None


LAYOUTS = {
    "conll2005": Layout(token=1, roleset=2, roles=3, lemma=2),
    # The last column has coreference.
    "conll2012": Layout(token=4, roleset=8, roles=12, num_after=1, lemma=7),
    "propbank": Layout(token=4, roleset=8, roles=9, lemma=7),
}


def read_propositions(
    path: str | os.PathLike, layout: str | Layout | None = None, all_sentences: bool = False
) -> list[Proposition]:
    """Reads the propositions of columns with roles in brackets, such as `(ARG0*`, `*)`, `(V*)`.

    The numbers of sentences and of those without a predicate are logged. Invalid UTF-8 in tokens is
    kept byte for byte; a warning counts the sentences that have it.

    Args:
        path: one token per line, and an empty line between sentences. `.gz` is decompressed.
        layout: "conll2005", "conll2012" or "propbank" (the PropBank release), or other columns.
            None chooses one of these by the columns of the first sentence.
        all_sentences: whether a sentence without a predicate gives an example too, whose predicate
            is None. Defaults to False.

    Returns:
        Examples, at least one of them with a predicate; those of a sentence in order of their
        predicates.

    Raises:
        ValueError: the layout is unknown; lines of a sentence differ in their number of columns; a
            token is missing; a sentence has not as many columns of roles as predicates; brackets
            are nested or not balanced; there is no proposition; or see `read_lines`. The message
            names the line.
        OSError: the file cannot be read.
    """
    if isinstance(layout, str):
        if layout not in LAYOUTS:
            raise ValueError(f"`layout` must be one of {', '.join(LAYOUTS)}. Received: {layout!r}")
        layout = LAYOUTS[layout]
    propositions: list[Proposition] = []
    sentences: list[list[str]] = []
    num_without = 0
    for rows in column_sentences(path, "conll"):
        layout = layout or _guessed_layout(path, rows)
        with naming_row(path, rows):
            of_sentence = _sentence_propositions(rows, layout)
        sentences.append([row.fields[layout.token - 1] for row in rows])
        num_without += not of_sentence
        if all_sentences and not of_sentence:
            of_sentence = [Proposition(sentences[-1], None, [], "")]
        propositions += of_sentence
    logging.info(
        "%s: %s sentences, %s of them without a predicate.",
        *(os.fspath(path), f"{len(sentences):,}", f"{num_without:,}"),
    )
    warn_of_invalid_utf_8(path, sentences, "sentences")
    return _not_empty(path, propositions)


def read_proposition_lines(path: str | os.PathLike) -> list[Proposition]:
    """Reads a proposition per line, such as `1 Cats sleep . ||| B-A0 B-V O`.

    Args:
        path: each line has the index of the predicate, from 0, and the tokens; then, optionally,
            `|||` and one BIO tag per token. Empty lines are skipped. `.gz` is decompressed.

    Returns:
        At least one proposition, without rolesets.

    Raises:
        ValueError: a line does not begin with the index of one of its tokens; it has not as many
            tags as tokens; a tag is not allowed; there is no proposition; or see `read_lines`. The
            message names the line.
        OSError: the file cannot be read.
    """
    propositions = []
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip():
            with naming_line(path, number):
                propositions.append(_proposition_of_line(line.split()))
    warn_of_invalid_utf_8(path, (each.tokens for each in propositions), "sentences")
    return _not_empty(path, propositions)


def _guessed_layout(path: str | os.PathLike, rows: Sequence[Row]) -> Layout:
    if layout := next((layout for layout in LAYOUTS.values() if _fits(rows, layout)), None):
        return layout
    raise line_error(
        path,
        rows[0].line,
        f"the {len(rows[0].fields)} columns of the first sentence fit none of the layouts "
        f"{', '.join(LAYOUTS)}: {_shown(rows[0])}. Each predicate needs a column of roles in "
        "brackets. Without roles, write a line per predicate: its index, from 0, and the tokens. "
        "Plain sentences are read by the format text (format, --input-format).",
    )


def _fits(rows: Sequence[Row], layout: Layout) -> bool:
    """Whether all rows have the columns that a layout has for the sentence's predicates."""
    if min(len(row.fields) for row in rows) < layout.roles - 1 + layout.num_after:
        return False
    width = layout.roles - 1 + len(_predicates(rows, layout)) + layout.num_after
    return all(
        len(row.fields) == width
        and all(map(BRACKETS.fullmatch, row.fields[layout.roles - 1 : width - layout.num_after]))
        for row in rows
    )


def _predicates(rows: Sequence[Row], layout: Layout) -> list[int]:
    """The positions of the predicates."""
    rolesets = [row.fields[layout.roleset - 1] for row in rows]
    return [position for position, name in enumerate(rolesets) if name != NO_PREDICATE]


def _sentence_propositions(rows: Sequence[Row], layout: Layout) -> list[Proposition]:
    """The propositions of a sentence. Raises a `TokenError`."""
    num_columns = _checked_width(rows, layout) - (layout.roles - 1) - layout.num_after
    tokens = _checked_tokens(rows, layout)
    predicates = _predicates(rows, layout)
    if num_columns != len(predicates):
        raise TokenError(
            predicates[num_columns] if num_columns < len(predicates) else 0,
            f"the sentence has {len(predicates)} predicates (column {layout.roleset}), but "
            f"{num_columns} columns of roles (from column {layout.roles}).",
        )
    propositions = []
    for column, predicate in enumerate(predicates, start=layout.roles):
        try:
            tags = bio_of_brackets([row.fields[column - 1] for row in rows])
            check_known_tags(tags)
        except TokenError as error:
            raise TokenError(error.position, f"column {column}: {error}") from None
        fields = rows[predicate].fields
        lemma = fields[layout.lemma - 1] if layout.lemma else NO_PREDICATE
        # Few distinct strings are repeated often: interning saves memory.
        names = [fields[layout.roleset - 1], "" if lemma == NO_PREDICATE else lemma]
        tags, names = ([sys.intern(text) for text in texts] for texts in (tags, names))
        propositions.append(Proposition(tokens, predicate, tags, *names))
    return propositions


def _checked_width(rows: Sequence[Row], layout: Layout) -> int:
    """The number of columns of a sentence."""
    first, minimum = rows[0], layout.roles - 1 + layout.num_after
    width = len(first.fields)
    for position, row in enumerate(rows):
        expected = f"line {first.line} has {width}"
        if width < minimum:
            expected = f"the layout has at least {minimum}"
        if width < minimum or len(row.fields) != width:
            message = f"{len(row.fields)} columns, but {expected}: {_shown(row)}."
            raise TokenError(position, message)
    return width


def _checked_tokens(rows: Sequence[Row], layout: Layout) -> list[str]:
    tokens = [row.fields[layout.token - 1] for row in rows]
    if "" in tokens:
        empty = tokens.index("")
        raise TokenError(empty, f"no token in column {layout.token}: {_shown(rows[empty])}.")
    if set(tokens) == {_NO_WORD}:
        raise TokenError(
            0,
            f"all tokens are {_NO_WORD}. Insert the words of the treebank first, with the scripts "
            "of the PropBank release.",
        )
    return tokens


def _proposition_of_line(fields: Sequence[str]) -> Proposition:
    index, *tokens = fields
    tags: list[str] = []
    if LABELS_FOLLOW in tokens:
        place = tokens.index(LABELS_FOLLOW)
        tokens, tags = tokens[:place], tokens[place + 1 :]
    if not tokens:
        raise ValueError("a line must begin with the index of the predicate, and have tokens.")
    if not index.isdecimal() or int(index) >= len(tokens):
        raise ValueError(
            f"a line must begin with the index of the predicate, from 0 to {len(tokens) - 1} for "
            f"{len(tokens)} tokens. It begins with {index[:40]!r}."
        )
    if tags and len(tags) != len(tokens):
        raise ValueError(f"{len(tags)} tags for {len(tokens)} tokens.")
    spans_of(tags, "BIO")  # checks them
    check_known_tags(tags)
    return Proposition(tokens, int(index), [sys.intern(tag) for tag in tags], "")


def _not_empty(path: str | os.PathLike, propositions: list[Proposition]) -> list[Proposition]:
    if all(each.predicate is None for each in propositions):
        raise ValueError(f"{os.fspath(path)} has no predicates.")
    return propositions


def _shown(row: Row) -> str:
    return repr(" ".join(row.fields)[:80])
