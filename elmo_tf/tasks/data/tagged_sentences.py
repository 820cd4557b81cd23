"""Files of CoNLL columns ─► sentences with a tag for each token."""

import os
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from absl import logging

from elmo_tf.config_checks import check_choice, check_int
from elmo_tf.tasks.data.tag_schemes import SCHEMES, TagError, converted
from elmo_tf.text.columns import TOKEN_COLUMNS, Row, column, column_sentences, last_column
from elmo_tf.text.data_warnings import is_utf_8
from elmo_tf.text.sentence_files import format_of

TAGGED_FORMATS = ("conll", "conllu")
# UPOS, counted from 1.
_UNIVERSAL_TAG_COLUMN = 4
# UPOS, HEAD and DEPREL: Universal Dependencies allow no `_` there, which elsewhere may be a value.
_NEVER_UNSPECIFIED = (4, 7, 8)


class TaggedSentence(NamedTuple):
    """The tokens of a sentence, at least one, and as many tags."""

    tokens: list[str]
    tags: list[str]


def read_tagged(
    path: str | os.PathLike,
    format: str | None = None,
    token_column: int | None = None,
    tag_column: int | None = None,
    scheme: str | None = None,
    known: Collection[str] | None = None,
) -> list[TaggedSentence]:
    """Reads the sentences of a file with their tags.

    Invalid UTF-8 is kept, byte for byte, and a warning counts the sentences that have it.

    Args:
        path: CoNLL columns, a token a line, with an empty line between sentences. `.gz` is
            unpacked.
        format: "conll", or "conllu" by the rules of Universal Dependencies (no comments, no `3-4`,
            no `5.1`); None for "conllu" if the file's name says so, and "conll" otherwise.
        token_column: int >= 1. Column of the tokens; None for 1, or 2 of "conllu".
        tag_column: int >= 1. Column of the tags; None for the last, or 4 of "conllu", the universal
            part of speech (5 is the language's own).
        scheme: of tags that mark spans, see `tag_schemes.spans_of`; they are then read as "BIO",
            whatever it is. None leaves tags as they are.
        known: tags allowed in the file, after that; None allows all.

    Returns:
        At least one sentence.

    Raises:
        ValueError: see `read_lines`; an unknown format; a line without one of the columns, or
            with nothing in it; lines of which none is the last column of all, as of plain text; a
            tag that its scheme does not allow there, or that is not known; a file without a
            sentence.
        OSError: the file cannot be read.
    """
    format = format or ("conllu" if format_of(path) == "conllu" else "conll")
    check_choice(format, "format", TAGGED_FORMATS)
    for name, number in (("token_column", token_column), ("tag_column", tag_column)):
        if number is not None:
            check_int(number, name, least=1)
    token_column = token_column or TOKEN_COLUMNS[format]
    if tag_column is None and format == "conllu":
        tag_column = _UNIVERSAL_TAG_COLUMN
    sentences: list[TaggedSentence] = []
    num_invalid, first = 0, None
    for rows in column_sentences(path, format):
        first = first or rows[0]
        number = tag_column or max(last_column(path, rows, first), token_column + 1)
        tags = column(path, rows, number, "tag")
        if format == "conllu" and number in _NEVER_UNSPECIFIED:
            _refuse_unspecified(path, rows, tags, number)
        if scheme is not None:
            tags = _as_bio(path, rows, tags, scheme)
        _refuse_tags(path, rows, tags, known)
        tokens = column(path, rows, token_column, "token")
        # There are few tags, and many tokens with each.
        sentences.append(TaggedSentence(tokens, [sys.intern(tag) for tag in tags]))
        num_invalid += not all(map(is_utf_8, tokens))
    if not sentences:
        raise ValueError(f"{os.fspath(path)}: there is no sentence in it.")
    if num_invalid:
        logging.warning(
            "%s: %s of %s sentences have invalid UTF-8 (read byte for byte; another encoding?).",
            *(os.fspath(path), f"{num_invalid:,}", f"{len(sentences):,}"),
        )
    return sentences


def read_tagged_files(
    paths: Iterable[str | os.PathLike],
    format: str | None = None,
    token_column: int | None = None,
    tag_column: int | None = None,
    scheme: str | None = None,
    known: Collection[str] | None = None,
) -> list[TaggedSentence]:
    """The sentences of several files, one after the other; see `read_tagged`."""
    return [
        sentence
        for path in paths
        for sentence in read_tagged(path, format, token_column, tag_column, scheme, known)
    ]


def _as_bio(
    path: str | os.PathLike, rows: Sequence[Row], tags: Sequence[str], scheme: str
) -> list[str]:
    try:
        return converted(tags, scheme, "BIO")
    except TagError as error:
        others = [other for other in SCHEMES if other != scheme]
        raise ValueError(
            f"{os.fspath(path)}, line {rows[error.position].line}: {error} The file's scheme is "
            f"taken for {scheme}; others are {' and '.join(others)} (scheme, --scheme). IOB1 reads "
            "broken BIO, too."
        ) from None


def _refuse_tags(
    path: str | os.PathLike, rows: Sequence[Row], tags: Sequence[str], known: Collection[str] | None
) -> None:
    for row, tag in zip(rows, tags, strict=True):
        if not is_utf_8(tag):
            raise ValueError(
                f"{os.fspath(path)}, line {row.line}: the tag is no valid UTF-8: {tag!r}."
            )
        if known is not None and tag not in known:
            raise ValueError(
                f"{os.fspath(path)}, line {row.line}: the tag {tag!r} is none of those that are "
                f"known: {', '.join(known)}."
            )


def _refuse_unspecified(
    path: str | os.PathLike, rows: Sequence[Row], tags: Sequence[str], number: int
) -> None:
    for row, tag in zip(rows, tags, strict=True):
        if tag == "_":
            raise ValueError(
                f"{os.fspath(path)}, line {row.line}: column {number} is left open (_), so the "
                f"token {row.fields[1]!r} has no tag. Name another column (tag_column, "
                "--tag-column)."
            )
