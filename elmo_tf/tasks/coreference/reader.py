"""Documents with their entities (CoNLL-2012, LitBank): columns ─► documents, and back."""

import itertools
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from elmo_tf.tasks.reading import naming_line, naming_row
from elmo_tf.tasks.tag_schemes import TokenError
from elmo_tf.text.reading import read_lines
from elmo_tf.text.sentence_files import Row, fields_of, line_error, warn_of_invalid_utf_8

Mention = tuple[int, int]

_NO_BRACKET = "-"
_NO_VALUES = ("", "-", "_")
# Columns from 1; the coreference is in the last.
_TOKEN_COLUMN, _SPEAKER_COLUMN = 4, 10
_MIN_COLUMNS, _MIN_COLUMNS_WITH_SPEAKER = 5, 12
_MAX_SHOWN = 5  # brackets in an error message
_BEGIN, _END = "#begin document", "#end document"
_BEGIN_MARK = re.compile(rf"{_BEGIN}\s+\((.*)\)\s*;?(?:\s*part\s+(\S+))?\s*")
_BRACKET = re.compile(r"(\(?)([^()|\s]+)(\)?)")


class Document(NamedTuple):
    """A document, or a part of one.

    name, part: as in the file, such as `bc/cctv/00/cctv_0000` and `000`; the part may be empty.
    sentences: the tokens of each sentence; at least one sentence, each with at least one token.
    speakers: the speaker of each token, in lists like those of `sentences`; "" for none. None if
        the file names no speaker of the document.
    entities: the mentions of each entity, at least one. A mention is (first, last), indices of
        tokens in the document from 0, both inclusive. Mentions are sorted and distinct; entities
        are sorted by their first mention.
    """

    name: str
    part: str
    sentences: list[list[str]]
    speakers: list[list[str]] | None
    entities: list[list[Mention]]


def read_documents(path: str | os.PathLike) -> list[Document]:
    """Reads the documents of a file.

    Invalid UTF-8 is kept byte for byte; a warning counts the documents that have it.

    Args:
        path: columns between the lines `#begin document (NAME); part 000` and `#end document`, one
            token per line, and an empty line between sentences. Column 4 has the tokens, column 10
            of at least 12 the speakers, and the last one the brackets of entities: `(12`, `12)`,
            `(12)`, several joined by `|`, and `-`, `_` or nothing for none. `.gz` is decompressed.

    Returns:
        At least one document, in the order of the file.

    Raises:
        ValueError: a document does not begin or end with its mark, or has no token; a line has too
            few columns, or no token; a bracket has another form, closes an entity that is not
            open, or is not closed; there is no document; or see `read_lines`. The message names
            the line.
        OSError: the file cannot be read.
    """
    documents = [_document(path, rows) for rows in _marked_documents(path)]
    if not documents:
        raise ValueError(f"{os.fspath(path)} has no documents: no line begins with `{_BEGIN}`.")
    texts = (itertools.chain.from_iterable(document.sentences) for document in documents)
    warn_of_invalid_utf_8(path, texts, "documents")
    return documents


def coreference_column(
    entities: Iterable[Iterable[Mention]], sentences: Sequence[Sequence[str]]
) -> list[list[str]]:
    """Writes entities as brackets; `read_documents` reads the same entities.

    Args:
        entities: the mentions of each entity, see `Document`. The number of an entity is its
            position.
        sentences: the tokens of each sentence of the document.

    Returns:
        For each sentence, the brackets of each token; `-` for none.

    Raises:
        ValueError: a mention is not in the document, or two mentions of an entity cross, such as
            (0, 2) and (1, 3), which brackets cannot express.
    """
    num_tokens = sum(map(len, sentences))
    closing: list[list[tuple[int, str]]] = [[] for _ in range(num_tokens)]
    opening: list[list[tuple[int, str]]] = [[] for _ in range(num_tokens)]
    for index, entity in enumerate(entities):
        mentions = sorted(set(map(tuple, entity)), key=lambda mention: (mention[0], -mention[1]))
        _check_mentions(mentions, num_tokens)
        for first, last in mentions:
            if first == last:
                opening[first].append((-last, f"({index})"))
            else:
                opening[first].append((-last, f"({index}"))
                closing[last].append((-first, f"{index})"))
    # An entity may end where its next mention begins, so brackets close before others open.
    cells = iter(
        "|".join(text for brackets in (closed, opened) for _, text in sorted(brackets))
        or _NO_BRACKET
        for closed, opened in zip(closing, opening, strict=True)
    )
    return [[next(cells) for _ in sentence] for sentence in sentences]


def part_of_document(document: Document, start: int, end: int) -> Document:
    """The sentences from `start` up to, excluding, `end`, and the mentions in them."""
    ends = list(itertools.accumulate(map(len, document.sentences)))
    first = ends[start - 1] if start else 0
    stop = ends[min(end, len(ends)) - 1]
    entities = [
        [(begin - first, last - first) for begin, last in entity if first <= begin and last < stop]
        for entity in document.entities
    ]
    return document._replace(
        sentences=document.sentences[start:end],
        speakers=document.speakers and document.speakers[start:end],
        entities=[entity for entity in entities if entity],
    )


class _Rows(NamedTuple):
    """The rows of a document's sentences. `line` is the number of its first mark."""

    line: int
    name: str
    part: str
    sentences: list[list[Row]]


def _marked_documents(path: str | os.PathLike) -> Iterator[_Rows]:
    """The rows between the marks of each document."""
    document, number, is_new_sentence = None, 0, True
    for number, line in enumerate(read_lines(path), start=1):
        if line.startswith(_BEGIN):
            with naming_line(path, number):
                _check_ended(document)
                mark = _BEGIN_MARK.fullmatch(line)
                if not mark:
                    form = f"`{_BEGIN} (NAME); part 000`"
                    raise ValueError(f"not of the form {form}: {line.strip()[:80]!r}.")
                document = _Rows(number, mark[1], mark[2] or "", [])
            is_new_sentence = True
        elif line.startswith(_END):
            if not document:
                raise line_error(path, number, f"`{_END}` without `{_BEGIN}` before it.")
            yield document
            document = None
        elif not line.strip():
            is_new_sentence = True
        else:
            if not document:
                raise line_error(path, number, f"no line `{_BEGIN} (NAME); part 000` before it.")
            if is_new_sentence:
                document.sentences.append([])
            document.sentences[-1].append(Row(number, fields_of(line)))
            is_new_sentence = False
    with naming_line(path, number):
        _check_ended(document)


def _check_ended(document: _Rows | None) -> None:
    if document:
        raise ValueError(
            f"no `{_END}` for the document {document.name!r}, which begins in line {document.line}."
        )


def _document(path: str | os.PathLike, document: _Rows) -> Document:
    if not document.sentences:
        raise line_error(path, document.line, f"the document {document.name!r} has no token.")
    rows = list(itertools.chain.from_iterable(document.sentences))
    with naming_row(path, rows):
        for position, row in enumerate(rows):
            if len(row.fields) < _MIN_COLUMNS or not row.fields[_TOKEN_COLUMN - 1]:
                raise TokenError(
                    position,
                    f"at least {_MIN_COLUMNS} columns are required, with the token in column "
                    f"{_TOKEN_COLUMN}: {' '.join(row.fields)[:80]!r}.",
                )
        entities = _entities(rows)
    tokens = [[row.fields[_TOKEN_COLUMN - 1] for row in each] for each in document.sentences]
    speakers = [[_speaker(row) for row in each] for each in document.sentences]
    has_speakers = any(name for names in speakers for name in names)
    return Document(
        document.name, document.part, tokens, speakers if has_speakers else None, entities
    )


def _speaker(row: Row) -> str:
    """The speaker of a token, or "" if there is none."""
    if len(row.fields) < _MIN_COLUMNS_WITH_SPEAKER:
        return ""
    name = row.fields[_SPEAKER_COLUMN - 1]
    return "" if name in _NO_VALUES else sys.intern(name)


def _entities(rows: Sequence[Row]) -> list[list[Mention]]:
    open_brackets: dict[str, list[int]] = {}
    mentions: dict[str, set[Mention]] = {}
    for position, row in enumerate(rows):
        cell = row.fields[-1]
        for bracket in cell.split("|") if cell not in _NO_VALUES else ():
            match = _BRACKET.fullmatch(bracket)
            if not match or not (match[1] or match[3]):
                raise TokenError(
                    position,
                    f"{bracket[:40]!r} is not a bracket of an entity, such as `(12`, `12)` or "
                    "`(12)`.",
                )
            opens, entity, closes = match.groups()
            if opens:
                open_brackets.setdefault(entity, []).append(position)
            if closes:
                if not open_brackets.get(entity):
                    shown = _shown(rows, open_brackets)
                    raise TokenError(
                        position, f"`{bracket}` closes what is not open. Open: {shown}."
                    )
                mentions.setdefault(entity, set()).add((open_brackets[entity].pop(), position))
    left = sorted(itertools.chain.from_iterable(open_brackets.values()))
    if left:
        shown = _shown(rows, open_brackets)
        raise TokenError(left[0], f"a bracket is not closed in its document. Open: {shown}.")
    return sorted(map(sorted, mentions.values()))


def _shown(rows: Sequence[Row], open_brackets: Mapping[str, Sequence[int]]) -> str:
    brackets = sorted(
        (position, entity) for entity in open_brackets for position in open_brackets[entity]
    )
    shown = [f"`({entity}` (line {rows[position].line})" for position, entity in brackets]
    return ", ".join(shown[:_MAX_SHOWN]) or "none"


def _check_mentions(mentions: Sequence[Mention], num_tokens: int) -> None:
    """Checks the mentions of an entity, which are sorted by first token, longer ones first."""
    around: list[Mention] = []
    for first, last in mentions:
        if not 0 <= first <= last < num_tokens:
            raise ValueError(
                f"The mention ({first}, {last}) is not in the document of {num_tokens} tokens. It "
                "must be (first, last) token, both inclusive."
            )
        while around and around[-1][1] <= first:
            around.pop()
        if around and around[-1][1] < last:
            raise ValueError(
                f"The mentions {around[-1]} and {(first, last)} of an entity cross, which brackets "
                "cannot express."
            )
        around.append((first, last))
