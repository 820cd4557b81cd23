"""Semantic role labeling: columns of roles (PropBank) or sentences ─► one example per predicate."""

import itertools
import os
import sys
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from absl import logging

from elmo_tf.config_checks import check_choice
from elmo_tf.tasks.reading import naming_line, naming_row
from elmo_tf.tasks.scores import found_role_scores, role_scores
from elmo_tf.tasks.semantic_roles.model import tagger_of
from elmo_tf.tasks.semantic_roles.predicates import (
    MAX_TOKENS,
    TO_FIND,
    Predicates,
    Proposition,
    by_sentence,
    plain_sentence,
    tags_by_predicate,
    with_predicates,
)
from elmo_tf.tasks.specification import TaskSpecification, first_line, sentences_of
from elmo_tf.tasks.tag_schemes import (
    BRACKETS,
    TokenError,
    bio_of_brackets,
    brackets_of_bio,
    check_tags,
    scheme_tags,
    span_types,
    spans_of,
)
from elmo_tf.text.reading import read_lines
from elmo_tf.text.sentence_files import (
    Row,
    column_sentences,
    format_of,
    line_error,
    warn_of_invalid_utf_8,
)

NO_PREDICATE = "-"
_LABELS_FOLLOW = "|||"
# Replaces every word in files without the text of the treebank.
_NO_WORD = "[WORD]"


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


def _are_propositions(path: str, line: str) -> bool:
    """Whether each line of a file, whose first line is `line`, has the index of a predicate."""
    fields = line.split()
    # A number in a sentence of columns is no index.
    if not fields or not fields[0].isdecimal() or "*" in fields[-1] or fields[1:] == [NO_PREDICATE]:
        return False
    lines = (other.split() for other in read_lines(path) if other.strip())
    if _LABELS_FOLLOW in fields or all(other[0].isdecimal() for other in lines):
        return True
    message = "%s: read as plain sentences, because not all lines begin with a number, an index."
    logging.warning(message, path)
    return False


def _is_row(line: str) -> bool:
    """Whether the first line of a file is one of columns; also "", which their reader refuses."""
    fields = line.split()
    has_brackets = any(map(BRACKETS.fullmatch, fields[1:])) or fields[1:] == [NO_PREDICATE]
    return not fields or "\t" in line or has_brackets or line.startswith("#begin document")


class SemanticRoles(TaskSpecification):
    """Predicates in their sentences, with one BIO tag per token.

    A sentence without a predicate is an example too, so that output files have all sentences. It is
    neither trained on nor scored.
    """

    metric = "f1"
    packages: ClassVar = ()
    input_options: ClassVar = ("format",)
    finder = Predicates

    def _read(self, path, config, known):
        # Roles that the model does not know are allowed, and count as missed.
        propositions = self.read_inputs(path, config, known)
        if propositions and propositions[0].predicate == TO_FIND:
            propositions = read_propositions(path, all_sentences=True)  # names the line
        for proposition in propositions:
            if proposition.predicate is not None and not proposition.tags:
                sentence = " ".join(proposition.tokens)[:80]
                raise ValueError(f"{path}: a proposition has no roles: {sentence!r}.")
        return propositions

    def read_inputs(self, path, config, known, format=None, token_column=None):
        """Reads columns, lines that begin with the index of a predicate, or plain sentences."""
        line = first_line(path)
        if format in (None, "text") and _are_propositions(path, line):
            return read_proposition_lines(path)
        name = format or format_of(path)
        if name == "conll" or (format is None and _is_row(line)):
            return read_propositions(path, all_sentences=True)
        sentences = sentences_of(path, name, token_column)
        return [plain_sentence(sentence.tokens) for sentence in sentences]

    def for_training(self, examples, config):
        propositions = [example for example in examples if example.predicate is not None]
        return self._not_longer(propositions, config.max_tokens or MAX_TOKENS)

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

    def with_found(self, model, examples, predict):
        plain = [example for example in examples if example.predicate == TO_FIND]
        if not plain:
            return examples
        return with_predicates(examples, predict(Predicates(), tagger_of(model), plain))

    def plain(self, examples):
        """The sentences of examples, without predicates and roles."""
        return [plain_sentence(group[0].tokens) for group in by_sentence(examples)]

    def found_scores(self, examples, found, predicted):
        """The scores of predictions for the propositions that are found in `plain(examples)`."""
        pairs = zip(found, predicted, strict=True)
        propositions = [proposition._replace(tags=tags) for proposition, tags in pairs]
        return found_role_scores(tags_by_predicate(examples), tags_by_predicate(propositions))

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


def _verb(proposition: Proposition) -> str:
    """The lemma, or else the predicate's token; "[-]" for "-", which marks other tokens."""
    verb = proposition.lemma or proposition.tokens[proposition.predicate]
    return "[-]" if verb == NO_PREDICATE else verb
