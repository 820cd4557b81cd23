"""Semantic roles: columns of PropBank ─► one proposition per predicate ─► scores and output."""

import contextlib
import itertools
import os
import sys
from collections.abc import Iterable, Sequence
from typing import ClassVar, NamedTuple

from elmo_tf.tasks.reading import labeled_lines, naming_row
from elmo_tf.tasks.scores import role_scores
from elmo_tf.tasks.semantic_roles.model import SRLTagger
from elmo_tf.tasks.tag_schemes import (
    BRACKETS,
    TokenError,
    bio_of_brackets,
    brackets_of_bio,
    scheme_tags,
    span_types,
)
from elmo_tf.tasks.task import Task, first_line
from elmo_tf.text.reading import format_of
from elmo_tf.text.sentence_files import (
    Row,
    column_sentences,
    line_error,
    sentence_reader,
)

TO_FIND = -1  # the predicate of a plain sentence
NO_PREDICATE = "-"
_NO_WORD = "[WORD]"  # of PropBank's files, which lack the text of the treebank


class Proposition(NamedTuple):
    """A predicate in its sentence, and the roles of the tokens.

    tokens: tokens of the sentence, at least one. Propositions of a sentence share the list.
    predicate: index of the predicate's token, from 0. None in a sentence without a predicate, which
        has no tags.
    tags: one BIO tag per token. The predicate itself has the role `V`: in nearly all data the
        token at `predicate`, and further tokens of phrasal verbs.
    lemma: of the predicate, such as `kill`; empty if the file has none.
    """

    tokens: list[str]
    predicate: int | None
    tags: list[str]
    lemma: str = ""


def by_sentence(propositions: Iterable[Proposition]) -> list[list[Proposition]]:
    """Groups the propositions of each sentence: they share its list of tokens."""
    groups = itertools.groupby(propositions, key=lambda each: id(each.tokens))
    return [list(group) for _, group in groups]


class SemanticRoles(Task):
    """Predicates in their sentences, with one BIO tag per token.

    A sentence without a predicate is an example too, so that output files have all sentences. It is
    neither trained on nor scored.
    """

    models: ClassVar = {"srl": SRLTagger}
    metric = "f1"
    max_tokens = 100  # He et al. 2017

    def _read(self, path, config, known):
        # Roles that the model does not know are allowed, and count as missed.
        return read_propositions(path)

    def read_inputs(self, path, config, format=None, token_column=None):
        """Reads columns with roles, whose predicates are kept, or plain sentences."""
        name = format or format_of(path)
        if name == "conll" or (format is None and name == "text" and _is_row(first_line(path))):
            return read_propositions(path)
        sentences = sentence_reader(path, name, token_column)()
        return [Proposition(sentence.tokens, TO_FIND, []) for sentence in sentences]

    def for_training(self, examples, config):
        propositions = [example for example in examples if example.predicate is not None]
        return super().for_training(propositions, config)

    def features(self, example):
        return {"predicate": example.predicate or 0}

    def gold(self, example):
        return None if example.predicate is None else example.tags

    def labels(self, examples):
        tags = (tag for example in examples for tag in example.tags)
        return scheme_tags(span_types(tags), "BIO")

    def predict(self, model, inputs, examples):
        """The tags of each proposition; None for a sentence without a predicate."""
        pairs = zip(examples, model.predict_lists(inputs), strict=True)
        return [None if example.predicate is None else tags for example, tags in pairs]

    def scores(self, gold, predicted):
        pairs = [pair for pair in zip(gold, predicted, strict=True) if pair[0] is not None]
        return role_scores([tags for tags, _ in pairs], [tags for _, tags in pairs])

    def outputs(self, examples, predicted):
        # The file of roles lacks the tokens.
        sentences = (group[0].tokens for group in by_sentence(examples))
        words = (token for tokens in sentences for token in (*tokens, ""))
        return {"": self.lines(examples, predicted), ".words": words}

    def lines(self, examples, predicted):
        tags = iter(predicted)
        for group in by_sentence(examples):
            pairs = [(each, next(tags)) for each in group]
            pairs = [(each, of_one) for each, of_one in pairs if each.predicate is not None]
            verbs = [NO_PREDICATE] * len(group[0].tokens)
            for proposition, _ in pairs:
                verbs[proposition.predicate] = _verb(proposition)
            columns = [brackets_of_bio(of_one) for _, of_one in pairs]
            yield from map("\t".join, zip(verbs, *columns, strict=True))
            yield ""


def _is_row(line: str) -> bool:
    """Whether the first line of a file is one of columns; also "", which their reader refuses."""
    fields = line.split()
    has_brackets = any(map(BRACKETS.fullmatch, fields[1:])) or fields[1:] == [NO_PREDICATE]
    return not fields or "\t" in line or has_brackets or line.startswith("#begin document")


def _verb(proposition: Proposition) -> str:
    """The lemma, or else the predicate's token; "[-]" for "-", which marks other tokens."""
    verb = proposition.lemma or proposition.tokens[proposition.predicate]
    return "[-]" if verb == NO_PREDICATE else verb


class _Layout(NamedTuple):
    """The columns of a file, counted from 1."""

    token: int
    lemma: int
    roleset: int  # or lemma of a predicate; `-` for other tokens
    roles: int  # of the first predicate; those of the others follow, in order of their tokens
    num_after: int = 0  # further columns


_LAYOUTS = {
    "conll2005": _Layout(token=1, lemma=2, roleset=2, roles=3),
    # The last column has coreference.
    "conll2012": _Layout(token=4, lemma=7, roleset=8, roles=12, num_after=1),
    "propbank": _Layout(token=4, lemma=7, roleset=8, roles=9),
}


def read_propositions(path: str | os.PathLike) -> list[Proposition]:
    """Reads the propositions of columns with roles in brackets, such as `(ARG0*`, `*)`, `(V*)`.

    Invalid UTF-8 in tokens is kept byte for byte; a warning counts the lines that have it.

    Args:
        path: one token per line, and an empty line between sentences, in the columns of CoNLL-2005,
            CoNLL-2012 or the PropBank release, as the first sentence has them. `.gz` is
            decompressed.

    Returns:
        The propositions of each sentence, in order of their predicates; for a sentence without
        predicates, an example whose predicate is None.

    Raises:
        ValueError: the file is wrong, or has no predicate. The message names the line.
        OSError: the file cannot be read.
    """
    propositions: list[Proposition] = []
    layout = None
    for rows in column_sentences(path, "conll", labeled_lines):
        layout = layout or _guessed_layout(path, rows)
        with naming_row(path, rows):
            columns = enumerate(_predicates(rows, layout), start=layout.roles)
            tokens = [row.fields[layout.token - 1] for row in rows]
            if set(tokens) == {_NO_WORD}:
                raise TokenError(0, f"insert the words of the treebank in place of {_NO_WORD}.")
            found = [_proposition(rows, layout, tokens, *column) for column in columns]
        propositions += found or [Proposition(tokens, None, [])]
    if all(each.predicate is None for each in propositions):
        raise ValueError(f"{os.fspath(path)} has no predicates.")
    return propositions


def _guessed_layout(path: str | os.PathLike, rows: Sequence[Row]) -> _Layout:
    """The layout that has a column of brackets for each predicate."""
    for layout in _LAYOUTS.values():
        with contextlib.suppress(TokenError):
            columns = range(layout.roles - 1, layout.roles - 1 + len(_predicates(rows, layout)))
            cells = (row.fields[column] for row in rows for column in columns)
            if all(map(BRACKETS.fullmatch, cells)):
                return layout
    raise line_error(
        path,
        rows[0].line,
        f"the {len(rows[0].fields)} columns of the first sentence fit none of the layouts "
        f"{', '.join(_LAYOUTS)}: {_shown(rows[0])}. Each predicate needs a column of roles in "
        "brackets. Plain sentences are read by the format text (format, --input-format).",
    )


def _predicates(rows: Sequence[Row], layout: _Layout) -> list[int]:
    """The positions of the predicates. A row must have a token, and a column for each of them."""
    names = [row.fields[layout.roleset - 1 : layout.roleset] for row in rows]
    predicates = [position for position, name in enumerate(names) if name != [NO_PREDICATE]]
    width = layout.roles - 1 + len(predicates) + layout.num_after
    for position, row in enumerate(rows):
        if len(row.fields) != width or not row.fields[layout.token - 1]:
            raise TokenError(
                position,
                f"no token in column {layout.token}, or not the {width} columns of a sentence with "
                f"{len(predicates)} predicates (column {layout.roleset}): {_shown(row)}.",
            )
    return predicates


def _proposition(
    rows: Sequence[Row], layout: _Layout, tokens: list[str], column: int, predicate: int
) -> Proposition:
    """The proposition whose roles are in a column, counted from 1. Raises a `TokenError`."""
    try:
        tags = bio_of_brackets([row.fields[column - 1] for row in rows])
    except TokenError as error:
        raise TokenError(error.position, f"column {column}: {error}") from None
    lemma = rows[predicate].fields[layout.lemma - 1]
    # Few distinct strings are repeated often: interning saves memory.
    lemma = "" if lemma == NO_PREDICATE else sys.intern(lemma)
    return Proposition(tokens, predicate, [sys.intern(tag) for tag in tags], lemma)


def _shown(row: Row) -> str:
    return repr(" ".join(row.fields)[:80])
