"""Semantic role labeling: columns of roles (PropBank) ─► one example per predicate."""

import itertools
import os
import re
import sys
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from absl import logging

from elmo_tf.config_checks import check_choice
from elmo_tf.tasks.reading import naming_line, naming_row
from elmo_tf.tasks.scores import role_scores
from elmo_tf.tasks.specification import TaskSpecification, first_line
from elmo_tf.tasks.tag_schemes import (
    Span,
    TokenError,
    check_tags,
    scheme_tags,
    span_types,
    spans_of,
    tags_of,
)
from elmo_tf.text.reading import read_lines
from elmo_tf.text.sentence_files import Row, column_sentences, line_error, warn_of_invalid_utf_8

NO_PREDICATE = "-"
_MAX_TOKENS = 100  # He et al. 2017
_LABELS_FOLLOW = "|||"
# Replaces every word in files without the text of the treebank.
_NO_WORD = "[WORD]"
# Brackets that open, with their roles; `*` for the token; brackets that close.
_BRACKETS = re.compile(r"((?:\([^()*\s]+)*)\*(\)*)")


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
# The props files of CoNLL-2005: verbs and roles. The words are in other files.
_PROPS = Layout(token=1, roleset=1, roles=2)


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
        check_choice(layout, "layout", LAYOUTS)
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


def bio_of_brackets(brackets: Sequence[str]) -> list[str]:
    """Converts a column of brackets to BIO tags: `(A1*`, `*)`, `*` to `B-A1`, `I-A1`, `O`.

    Raises:
        TokenError: a field is no bracket of this form, or brackets are nested or not balanced.
    """
    spans: list[Span] = []
    role, first = None, 0
    for position, field in enumerate(brackets):
        match = _BRACKETS.fullmatch(field)
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


def _guessed_layout(path: str | os.PathLike, rows: Sequence[Row]) -> Layout:
    if layout := next((layout for layout in LAYOUTS.values() if _fits(rows, layout)), None):
        return layout
    raise line_error(
        path,
        rows[0].line,
        f"the {len(rows[0].fields)} columns of the first sentence fit none of the layouts "
        f"{', '.join(LAYOUTS)}: {_shown(rows[0])}. Each predicate needs a column of roles in "
        "brackets. Without roles, write a line per predicate: its index, from 0, and the tokens.",
    )


def _fits(rows: Sequence[Row], layout: Layout) -> bool:
    """Whether all rows have the columns that a layout has for the sentence's predicates."""
    if min(len(row.fields) for row in rows) < layout.roles - 1 + layout.num_after:
        return False
    width = layout.roles - 1 + len(_predicates(rows, layout)) + layout.num_after
    return all(
        len(row.fields) == width
        and all(map(_BRACKETS.fullmatch, row.fields[layout.roles - 1 : width - layout.num_after]))
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
            check_tags(tags)
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
    if _LABELS_FOLLOW in tokens:
        place = tokens.index(_LABELS_FOLLOW)
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
    check_tags(tags)
    return Proposition(tokens, int(index), [sys.intern(tag) for tag in tags], "")


def _not_empty(path: str | os.PathLike, propositions: list[Proposition]) -> list[Proposition]:
    if all(each.predicate is None for each in propositions):
        raise ValueError(f"{os.fspath(path)} has no predicates.")
    return propositions


def _shown(row: Row) -> str:
    return repr(" ".join(row.fields)[:80])


class SemanticRoles(TaskSpecification):
    """Predicates in their sentences, with one BIO tag per token.

    A sentence without a predicate is an example too, so that output files have all sentences. It is
    neither trained on nor scored.
    """

    metric = "f1"
    packages: ClassVar = ()
    input_options: ClassVar = ("format",)

    def _read(self, path, config, known):
        # Roles that the model does not know are allowed, and count as missed.
        propositions = self.read_inputs(path, config, known)
        for proposition in propositions:
            if proposition.predicate is not None and not proposition.tags:
                sentence = " ".join(proposition.tokens)[:80]
                raise ValueError(f"{path}: a proposition has no roles: {sentence!r}.")
        return propositions

    def read_inputs(self, path, config, known, format=None, token_column=None):
        """Reads columns, or lines that begin with the index of a predicate."""
        fields = first_line(path).split()
        is_line = bool(fields) and fields[0].isdecimal() and "*" not in fields[-1]
        # A number in a sentence without predicates is no index.
        is_line = is_line and fields[1:] != [NO_PREDICATE]
        if is_line if format is None else format == "text":
            return read_proposition_lines(path)
        return read_propositions(path, all_sentences=True)

    def for_training(self, examples, config):
        propositions = [example for example in examples if example.predicate is not None]
        return self._not_longer(propositions, config.max_tokens or _MAX_TOKENS)

    def features(self, example):
        return {"predicate": example.predicate or 0}

    def gold(self, example):
        return None if example.predicate is None else example.tags

    def labels(self, examples):
        tags = (tag for example in examples for tag in example.tags)
        return scheme_tags(span_types(tags), "BIO")

    def target(self, model, example):
        return model.label_ids(example.tags)

    def predict(self, model, inputs, examples):
        return model.tag(inputs)

    def scores(self, gold, predicted):
        pairs = [pair for pair in zip(gold, predicted, strict=True) if pair[0] is not None]
        return role_scores([tags for tags, _ in pairs], [tags for _, tags in pairs])

    def count(self, examples):
        return sum(example.predicate is not None for example in examples)

    def lines(self, examples, predicted):
        pairs = zip(examples, predicted, strict=True)
        # Propositions of a sentence share their list of tokens.
        for _, group in itertools.groupby(pairs, key=lambda pair: id(pair[0].tokens)):
            pairs_of_sentence = list(group)
            tokens = pairs_of_sentence[0][0].tokens
            propositions = [pair for pair in pairs_of_sentence if pair[0].predicate is not None]
            verbs = [NO_PREDICATE] * len(tokens)
            for proposition, _ in propositions:
                verbs[proposition.predicate] = _verb(proposition)
            columns = [brackets_of_bio(tags) for _, tags in propositions]
            yield from map("\t".join, zip(verbs, *columns, strict=True))
            yield ""

    def word_lines(self, examples):
        for _, group in itertools.groupby(examples, key=lambda example: id(example.tokens)):
            yield from next(group).tokens
            yield ""

    def read_predictions(self, path, examples):
        return [each.tags for each in read_propositions(path, _PROPS, all_sentences=True)]


def _verb(proposition: Proposition) -> str:
    """The lemma, or else the predicate's token; "[-]" for "-", which marks other tokens."""
    verb = proposition.lemma or proposition.tokens[proposition.predicate]
    return "[-]" if verb == NO_PREDICATE else verb
