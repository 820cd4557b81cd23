"""CoNLL columns ─► sentences with one tag per token."""

import os
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from elmo_tf.tasks.reading import naming_row, not_empty
from elmo_tf.tasks.tag_schemes import (
    SCHEMES,
    TokenError,
    check_known_tags,
    converted,
)
from elmo_tf.text.sentence_files import (
    TOKEN_COLUMNS,
    Row,
    column,
    column_sentences,
    format_of,
    last_column,
    warn_of_invalid_utf_8,
)

_UPOS_COLUMN = 4  # from 1
# UPOS, HEAD and DEPREL. In other columns of Universal Dependencies `_` may be a value.
_NEVER_UNSPECIFIED = (4, 7, 8)


class TaggedSentence(NamedTuple):
    """The tokens of a sentence (at least one) and their tags."""

    tokens: list[str]
    tags: list[str]


def read_tagged(
    path: str | os.PathLike,
    format: str | None = None,
    token_column: int | None = None,
    tag_column: int | None = None,
    scheme: str | None = None,
    known: Collection[str] | None = None,
    target_scheme: str = "BIO",
) -> list[TaggedSentence]:
    """Reads tagged sentences.

    Invalid UTF-8 is kept byte for byte; a warning counts the sentences that have it.

    Args:
        path: CoNLL columns: one token per line, and an empty line between sentences. `.gz` is
            decompressed.
        format: "conll" or "conllu" (Universal Dependencies: comments, `3-4` and `5.1` are
            skipped). None chooses the format by the file name.
        token_column: int >= 1. Column of the tokens. Defaults to 1, or 2 for "conllu".
        tag_column: int >= 1. Column of the tags. Defaults to the last, or 4 for "conllu": the
            universal part of speech (5 is that of the language).
        scheme: the scheme of tags that mark spans, see `tag_schemes.spans_of`. None keeps the tags.
        known: allowed tags of the file; None allows all.
        target_scheme: "BIO" or "BIOUL". Tags of a scheme are converted to it. Defaults to "BIO".

    Returns:
        At least one sentence.

    Raises:
        ValueError: the format is unknown; a column is missing or empty; `tag_column` is None and
            lines differ in their number of columns; a tag is unknown, or not allowed by its scheme;
            the file has no sentence; or see `read_lines`.
        OSError: the file cannot be read.
    """
    format = format or ("conllu" if format_of(path) == "conllu" else "conll")
    if format not in TOKEN_COLUMNS:
        raise ValueError(f"`format` must be {' or '.join(TOKEN_COLUMNS)}. Received: {format!r}")
    for name, index in (("token_column", token_column), ("tag_column", tag_column)):
        if index is not None and index < 1:
            raise ValueError(f"`{name}` counts from 1. Received: {index!r}")
    token_column = token_column or TOKEN_COLUMNS[format]
    if tag_column is None and format == "conllu":
        tag_column = _UPOS_COLUMN
    sentences: list[TaggedSentence] = []
    first = None
    for rows in column_sentences(path, format):
        first = first or rows[0]
        of_tags = tag_column or max(last_column(path, rows, first), token_column + 1)
        tags = column(path, rows, of_tags, "tag")
        with naming_row(path, rows):
            if format == "conllu":
                _check_specified(rows, tags, of_tags)
            check_known_tags(tags, known)
            if scheme is not None:
                tags = _converted(tags, scheme, target_scheme)
        tokens = column(path, rows, token_column, "token")
        # Few distinct tags are repeated often: interning saves memory.
        sentences.append(TaggedSentence(tokens, [sys.intern(tag) for tag in tags]))
    warn_of_invalid_utf_8(path, (sentence.tokens for sentence in sentences), "sentences")
    return not_empty(path, sentences, "sentences")


def read_tagged_files(
    paths: Iterable[str | os.PathLike], *arguments: Any, **options: Any
) -> list[TaggedSentence]:
    """Reads the sentences of several files; see `read_tagged` for the other arguments."""
    return [sentence for path in paths for sentence in read_tagged(path, *arguments, **options)]


def _converted(tags: Sequence[str], scheme: str, target_scheme: str) -> list[str]:
    try:
        return converted(tags, scheme, target_scheme)
    except TokenError as error:
        others = " and ".join(other for other in SCHEMES if other != scheme)
        raise TokenError(
            error.position,
            f"{error} The file was read as {scheme}; other schemes are {others} (scheme, "
            "--scheme). IOB1 also accepts broken BIO.",
        ) from None


def _check_specified(rows: Sequence[Row], tags: Sequence[str], tag_column: int) -> None:
    if tag_column in _NEVER_UNSPECIFIED and "_" in tags:
        position = tags.index("_")
        raise TokenError(
            position,
            f"column {tag_column} is unspecified (_), so the token {rows[position].fields[1]!r} "
            "has no tag. Name another column (tag_column, --tag-column).",
        )
