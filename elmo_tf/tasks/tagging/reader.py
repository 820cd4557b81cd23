"""Parts of speech and named entities: CoNLL columns ─► sentences with one tag per token."""

import os
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

from elmo_tf.config_checks import check_choice, check_int
from elmo_tf.tasks.reading import naming_row, not_empty
from elmo_tf.tasks.scores import span_scores, tag_scores
from elmo_tf.tasks.specification import TaskSpecification, sentences_of
from elmo_tf.tasks.tag_schemes import (
    SCHEMES,
    TokenError,
    check_tags,
    converted,
    scheme_tags,
    span_types,
)
from elmo_tf.text.sentence_files import (
    TOKEN_COLUMNS,
    FileSentence,
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
        scheme: the scheme of tags that mark spans, see `tag_schemes.spans_of`; the tags are
            converted to "BIO". None keeps the tags.
        known: allowed tags, in BIO if there is a scheme; None allows all.

    Returns:
        At least one sentence.

    Raises:
        ValueError: the format is unknown; a column is missing or empty; `tag_column` is None and
            lines differ in their number of columns; a tag is unknown, or not allowed by its scheme;
            the file has no sentence; or see `read_lines`.
        OSError: the file cannot be read.
    """
    format = format or ("conllu" if format_of(path) == "conllu" else "conll")
    check_choice(format, "format", TOKEN_COLUMNS)
    for name, index in (("token_column", token_column), ("tag_column", tag_column)):
        if index is not None:
            check_int(index, name, ge=1)
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
            if scheme is not None:
                tags = _as_bio(tags, scheme)
            check_tags(tags, known)
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


def _as_bio(tags: Sequence[str], scheme: str) -> list[str]:
    try:
        return converted(tags, scheme, "BIO")
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


# Files of named entities are converted to BIO; models predict BIOUL, which also marks span ends.
_FILE_SCHEME, _MODEL_SCHEME = "BIO", "BIOUL"


class Tagging(TaskSpecification):
    """One tag per token."""

    packages: ClassVar = ()

    def _read(self, path, config, known):
        return read_tagged(path, config.format, config.token_column, config.tag_column, known=known)

    def read_inputs(self, path, config, known, format=None, token_column=None):
        sentences = sentences_of(path, format, token_column)
        is_text = format is None and format_of(path) == "text"
        if is_text and _look_like_columns(sentences, known):
            raise ValueError(
                f"{path} is read as text because of its name, but each line ends in a label of the "
                "model. If the file has columns, name its format (format, --input-format)."
            )
        return sentences

    def labels(self, examples):
        return sorted({tag for example in examples for tag in example.tags})

    def target(self, model, example):
        return model.label_ids(example.tags)

    def predict(self, model, inputs, examples):
        return model.tag(inputs)

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


def _look_like_columns(sentences: Sequence[FileSentence], known: Collection[str]) -> bool:
    """Whether all lines have the same number of parts and end in a tag other than punctuation."""
    rows = [sentence.tokens for sentence in sentences if sentence.tokens]
    last = {row[-1] for row in rows}
    has_columns = len({len(row) for row in rows}) == 1 and len(rows[0]) > 1
    return has_columns and last <= {*known} and any(map(str.isalnum, "".join(last)))


class NamedEntities(Tagging):
    """Spans of tokens, each with a type.

    Examples, predictions and outputs have BIO tags, whatever the scheme of the files: messages name
    the tags of the files. Only the tags of the model itself are BIOUL.
    """

    metric = "f1"
    packages: ClassVar = ("seqeval.metrics",)

    def _read(self, path, config, known):
        known = None if known is None else _file_tags(known)
        columns = config.format, config.token_column, config.tag_column
        return read_tagged(path, *columns, config.scheme, known)

    def read_inputs(self, path, config, known, format=None, token_column=None):
        return super().read_inputs(path, config, _file_tags(known), format, token_column)

    def labels(self, examples):
        return scheme_tags(span_types(super().labels(examples)), _MODEL_SCHEME)

    def target(self, model, example):
        return model.label_ids(converted(example.tags, _FILE_SCHEME, _MODEL_SCHEME))

    def predict(self, model, inputs, examples):
        return [converted(tags, _MODEL_SCHEME, _FILE_SCHEME) for tags in model.tag(inputs)]

    def scores(self, gold, predicted):
        return span_scores(gold, predicted)

    def model_arguments(self, config):
        return {**super().model_arguments(config), "scheme": _MODEL_SCHEME}


def _file_tags(labels: Collection[str]) -> list[str]:
    """The tags that files may have, for the labels of a model."""
    return scheme_tags(span_types(labels), _FILE_SCHEME)
