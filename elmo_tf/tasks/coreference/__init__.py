"""Entities of documents (CoNLL-2012, LitBank): columns ─► documents ─► scores, and columns."""

import itertools
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import tensorflow as tf

from elmo_tf.lazy import require_extra
from elmo_tf.tasks.batches import Batch, Batches, padded_strings
from elmo_tf.tasks.coreference.model import CoreferenceModel
from elmo_tf.tasks.reading import labeled_lines, naming_row, not_empty
from elmo_tf.tasks.scores import coreference_scores
from elmo_tf.tasks.tag_schemes import TokenError
from elmo_tf.tasks.task import Task, first_line
from elmo_tf.text.batches import rounded_length
from elmo_tf.text.reading import encode, format_of
from elmo_tf.text.sentence_files import Row, fields_of, line_error, sentence_reader

Mention = tuple[int, int]

_NO_VALUES = ("", "-", "_")
# Columns from 1; the coreference is in the last.
_TOKEN_COLUMN, _SPEAKER_COLUMN = 4, 10
_MIN_COLUMNS, _MIN_COLUMNS_WITH_SPEAKER = 5, 12
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


class Coreference(Task):
    """Documents with the mentions of their entities."""

    models: ClassVar = {"coref": CoreferenceModel}
    metric = "average"

    def _read(self, path, config, known):
        require_extra("scipy.optimize", "tasks", "The score of coreference")
        return read_documents(path)

    def read_inputs(self, path, config, format=None, token_column=None):
        format = format or format_of(path)
        if format != "text" or first_line(path).startswith(_BEGIN):
            return read_documents(path)
        # Documents without names: one sentence per line, an empty line between documents.
        lines = [sentence.tokens for sentence in sentence_reader(path, "text")()]
        blocks = [list(block) for has_tokens, block in itertools.groupby(lines, bool) if has_tokens]
        documents = [
            Document(f"document_{index}", "", block, None, []) for index, block in enumerate(blocks)
        ]
        return not_empty(path, documents, "documents")

    def texts(self, example):
        return tuple(example.sentences)

    def labels(self, examples):
        return []

    def training_batches(self, model, examples, config, layers):
        return DocumentBatches(model, examples, layers, config.window)

    def batches(self, model, examples, batch_size, layers=None):
        return DocumentBatches(model, examples, layers)

    def predict(self, model, inputs, examples):
        return [model.predict_lists(inputs)]

    def scores(self, gold, predicted):
        return coreference_scores(gold, predicted)

    def lines(self, examples, predicted):
        for document, entities in zip(examples, predicted, strict=True):
            yield f"#begin document ({document.name}); part {document.part or '000'}"
            columns = coreference_column(entities, document.sentences)
            for tokens, cells in zip(document.sentences, columns, strict=True):
                for index, (token, cell) in enumerate(zip(tokens, cells, strict=True)):
                    yield f"{document.name}\t{document.part or 0}\t{index}\t{token}\t{cell}"
                yield ""
            yield "#end document"


class DocumentBatches(Batches):
    """Batches of one document, whose rows are its sentences.

    Training reads `window` sentences of a document, from a random one on, with the mentions in
    them. If `window` is None, whole documents are read, without targets.
    """

    def __init__(self, model, documents, layers=None, window=None):
        super().__init__(model, [document.sentences for document in documents], None, 1, layers)
        self._documents = documents
        self._window = window

    def _batch(self, indices, rng=None):
        document = self._documents[indices[0]]
        if self._window is None:
            return Batch(self._inputs(document), None, indices)
        num_starts = max(len(document.sentences) - self._window, 0) + 1
        first = rng.integers(num_starts)
        part = part_of_document(document, first, first + self._window)
        mentions = [
            (*mention, index) for index, entity in enumerate(part.entities) for mention in entity
        ]
        return Batch(self._inputs(part), np.array(mentions, np.int32).reshape(-1, 3), indices)

    def _inputs(self, document: Document) -> dict[str, Any]:
        inputs: dict[str, Any] = {}
        self._add_text(inputs, self._model.texts[0], document.sentences)
        length = rounded_length(max(map(len, document.sentences)))
        speakers = document.speakers or [[]] * len(document.sentences)
        inputs["speakers"] = padded_strings(speakers, length)
        inputs["genre"] = tf.constant([encode(document.name.partition("/")[0])])
        return inputs


def read_documents(path: str | os.PathLike) -> list[Document]:
    """Reads the documents of a file.

    Invalid UTF-8 is kept byte for byte; a warning counts the lines that have it.

    Args:
        path: columns between the lines `#begin document (NAME); part 000` and `#end document`, one
            token per line, and an empty line between sentences. Column 4 has the tokens, column 10
            of at least 12 the speakers, and the last one the brackets of entities: `(12`, `12)`,
            `(12)`, several joined by `|`, and `-`, `_` or nothing for none. `.gz` is decompressed.

    Returns:
        At least one document, in the order of the file.

    Raises:
        ValueError: the file is wrong, or has no document. The message names the line.
        OSError: the file cannot be read.
    """
    documents = [_document(path, rows) for rows in _marked_documents(path)]
    return not_empty(path, documents, f"documents: no line begins with `{_BEGIN}`")


def coreference_column(
    entities: Iterable[Iterable[Mention]], sentences: Sequence[Sequence[str]]
) -> list[list[str]]:
    """Writes entities as brackets; `read_documents` reads the same entities.

    Args:
        entities: the mentions of each entity, see `Document`; those of one entity must not cross,
            which brackets cannot express. The number of an entity is its position.
        sentences: the tokens of each sentence of the document.

    Returns:
        For each sentence, the brackets of each token; `-` for none.
    """
    num_tokens = sum(map(len, sentences))
    closing: list[list[tuple[int, str]]] = [[] for _ in range(num_tokens)]
    opening: list[list[tuple[int, str]]] = [[] for _ in range(num_tokens)]
    for index, entity in enumerate(entities):
        mentions = sorted(set(map(tuple, entity)), key=lambda mention: (mention[0], -mention[1]))
        for first, last in mentions:
            if first == last:
                opening[first].append((-last, f"({index})"))
            else:
                opening[first].append((-last, f"({index}"))
                closing[last].append((-first, f"{index})"))
    # An entity may end where its next mention begins, so brackets close before others open.
    cells = iter(
        "|".join(text for brackets in (closed, opened) for _, text in sorted(brackets)) or "-"
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
    document = None
    for number, line in enumerate(labeled_lines(path), start=1):
        if document is None and line.strip():
            mark = _BEGIN_MARK.fullmatch(line)
            if not mark:
                form = f"`{_BEGIN} (NAME); part 000`"
                raise line_error(path, number, f"not of the form {form}: {line.strip()[:80]!r}.")
            document = _Rows(number, mark[1], mark[2] or "", [[]])
        elif document and line.startswith(_END):
            yield document
            document = None
        elif document and line.strip():
            document.sentences[-1].append(Row(number, fields_of(line)))
        elif document and document.sentences[-1]:
            document.sentences.append([])
    if document:
        raise line_error(path, document.line, f"no `{_END}` for this document.")


def _document(path: str | os.PathLike, document: _Rows) -> Document:
    sentences = [rows for rows in document.sentences if rows]
    rows = list(itertools.chain.from_iterable(sentences))
    if not rows:
        raise line_error(path, document.line, f"the document {document.name!r} has no token.")
    with naming_row(path, rows):
        for position, row in enumerate(rows):
            if len(row.fields) < _MIN_COLUMNS or not row.fields[_TOKEN_COLUMN - 1]:
                raise TokenError(
                    position,
                    f"at least {_MIN_COLUMNS} columns are required, with the token in column "
                    f"{_TOKEN_COLUMN}: {' '.join(row.fields)[:80]!r}.",
                )
        entities = _entities(rows)
    tokens = [[row.fields[_TOKEN_COLUMN - 1] for row in each] for each in sentences]
    speakers = [[_speaker(row) for row in each] for each in sentences]
    has_speakers = any(map(any, speakers))
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
                    raise TokenError(position, f"`{bracket}` closes what is not open.")
                mentions.setdefault(entity, set()).add((open_brackets[entity].pop(), position))
    for entity, positions in open_brackets.items():
        if positions:
            raise TokenError(positions[0], f"`({entity}` is not closed in its document.")
    return sorted(map(sorted, mentions.values()))
