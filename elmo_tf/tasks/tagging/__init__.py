"""Tags of tokens: CoNLL columns ─► sentences with a tag per token ─► scores and output."""

import os
import sys
from collections.abc import Collection, Sequence
from typing import ClassVar, NamedTuple

from elmo_tf.tasks.reading import labeled_lines, naming_row, not_empty
from elmo_tf.tasks.scores import span_scores, tag_scores
from elmo_tf.tasks.tag_schemes import TokenError, converted, scheme_tags, span_types
from elmo_tf.tasks.tagging.model import CRFTagger
from elmo_tf.tasks.task import Task
from elmo_tf.text.reading import format_of
from elmo_tf.text.sentence_files import (
    TOKEN_COLUMNS,
    Row,
    column,
    column_sentences,
    line_error,
)

_UPOS_COLUMN = 4  # from 1


class TaggedSentence(NamedTuple):
    """The tokens of a sentence (at least one) and their tags."""

    tokens: list[str]
    tags: list[str]


class Tagging(Task):
    """One tag per token."""

    models: ClassVar = {"crf": CRFTagger}

    def _read(self, path, config, known):
        return read_tagged(path, config.format, config.token_column, config.tag_column, known=known)

    def labels(self, examples):
        return sorted({tag for example in examples for tag in example.tags})

    def scores(self, gold, predicted):
        return tag_scores(gold, predicted)

    def lines(self, examples, predicted):
        for example, tags in zip(examples, predicted, strict=True):
            pairs = zip(example.tokens, tags, strict=True)
            yield from (f"{token}\t{tag}" for token, tag in pairs)
            yield ""

    def model_arguments(self, config):
        arguments = super().model_arguments(config)
        if config.units is not None:
            arguments["units"] = (config.units, max(config.units // 2, 1))
        return arguments


_SCHEME = "BIOUL"  # of the model: it also marks the ends of spans


class NamedEntities(Tagging):
    """Spans of tokens, each with a type.

    The tags of files are converted to BIOUL when they are read. The model predicts them in the
    scheme of the files; for IOB1 in BIO, which is valid IOB1.
    """

    metric = "f1"

    def _read(self, path, config, known):
        return read_tagged(
            *(path, config.format, config.token_column, config.tag_column, config.scheme),
            known=known and scheme_tags(span_types(known), config.scheme),
            target_scheme=_SCHEME,
        )

    def labels(self, examples):
        return scheme_tags(span_types(super().labels(examples)), _SCHEME)

    def scores(self, gold, predicted):
        return span_scores(gold, predicted)

    def model_arguments(self, config):
        schemes = {"scheme": _SCHEME, "output_scheme": config.scheme}
        return {**super().model_arguments(config), **schemes}


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

    Invalid UTF-8 is kept byte for byte; a warning counts the lines that have it.

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
        target_scheme: tags of a scheme are converted to this scheme. Defaults to "BIO".

    Returns:
        At least one sentence.

    Raises:
        ValueError: the format is unknown, or the file is wrong. The message names the line.
        OSError: the file cannot be read.
    """
    format = format or ("conllu" if format_of(path) == "conllu" else "conll")
    if format not in TOKEN_COLUMNS:
        raise ValueError(f"`format` must be {' or '.join(TOKEN_COLUMNS)}. Received: {format!r}")
    token_column = token_column or TOKEN_COLUMNS[format]
    if tag_column is None and format == "conllu":
        tag_column = _UPOS_COLUMN
    sentences: list[TaggedSentence] = []
    first = None
    for rows in column_sentences(path, format, labeled_lines):
        first = first or rows[0]
        of_tags = tag_column or max(_last_column(path, rows, first), token_column + 1)
        tags = column(path, rows, of_tags, "tag")
        with naming_row(path, rows):
            if known is not None:
                for position, tag in enumerate(tags):
                    if tag not in known:
                        message = f"unknown tag {tag!r}. Known tags: {', '.join(known)}."
                        raise TokenError(position, message)
            if scheme is not None:
                tags = converted(tags, scheme, target_scheme)
        tokens = column(path, rows, token_column, "token")
        # Few distinct tags are repeated often: interning saves memory.
        sentences.append(TaggedSentence(tokens, [sys.intern(tag) for tag in tags]))
    return not_empty(path, sentences, "sentences")


def _last_column(path: str | os.PathLike, rows: Sequence[Row], first: Row) -> int:
    """The number of the last column; `ValueError` if it differs from that of the `first` row."""
    width = len(first.fields)
    for row in rows:
        if len(row.fields) != width:
            message = f"{len(row.fields)} columns, but line {first.line} has {width}, so the last"
            shown = " ".join(row.fields)
            remedy = "Specify --tag-column (tag_column), unless the file is plain text."
            raise line_error(path, row.line, f"{message} differs: {shown!r:.80}. {remedy}")
    return width
