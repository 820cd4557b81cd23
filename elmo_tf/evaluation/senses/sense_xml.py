"""The XML of sense-tagged text ─► sentences, read piece by piece in bounded memory."""

import os
from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn
from xml.parsers import expat

from elmo_tf.evaluation.senses.parts_of_speech import POS_OF_TAG, joined

_PIECE = 2**16  # bytes
# Each element, and the one that it stands in.
_PARENTS = {
    "corpus": None,
    "text": "corpus",
    "sentence": "text",
    "wf": "sentence",
    "instance": "sentence",
}
_HOLDS_WORDS = ("wf", "instance")
# For others expat asks Python, which fails without a place in the file.
_ENCODINGS = ("utf-8", "utf-16", "iso-8859-1", "us-ascii")


class Mark(NamedTuple):
    """An `<instance>`: tokens `[first:end]` of its sentence, and the line where it begins."""

    id: str
    lemma: str
    pos: str
    first: int
    end: int
    line: int


class XMLSentence(NamedTuple):
    """A `<sentence>`; `text` is the number of its `<text>`, from 0."""

    text: int
    tokens: list[str]
    marks: list[Mark]


def read_sense_xml(path: str | os.PathLike) -> Iterator[XMLSentence]:
    """Reads the sentences of a file; see `SenseCorpus`."""
    reader = _Reader(os.fspath(path))
    with open(path, "rb") as file:
        while piece := file.read(_PIECE):
            yield from reader.read(piece)
        yield from reader.read(b"", is_last=True)


class _Reader:
    def __init__(self, path: str):
        self._path = path
        self._open: list[str] = []  # elements, the innermost last
        self._text = -1
        self._tokens: list[str] = []
        self._marks: list[Mark] = []
        self._any_mark = False
        self._words = ""
        self._instance: Mark | None = None
        self._complete: list[XMLSentence] = []
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters
        self._parser.XmlDeclHandler = self._xml_declaration
        self._parser.StartDoctypeDeclHandler = self._type_declaration

    def read(self, piece: bytes, is_last: bool = False) -> list[XMLSentence]:
        """The sentences that are complete with this piece."""
        try:
            self._parser.Parse(piece, is_last)
        except expat.ExpatError as error:
            raise ValueError(
                f"{self._path}, line {error.lineno}: broken XML: {expat.ErrorString(error.code)}."
            ) from None
        if is_last and not self._any_mark:
            raise ValueError(f"{self._path} holds no <instance>.")
        complete, self._complete = self._complete, []
        return complete

    def _start(self, element: str, attributes: dict[str, str]) -> None:
        parent = self._open[-1] if self._open else None
        if element not in _PARENTS or _PARENTS[element] != parent:
            where = f"in <{parent}>" if parent else "as the outermost element"
            self._fail(
                f"<{element}> must not stand {where}. The structure is <corpus> <text> <sentence>, "
                "and <wf> and <instance> in it"
            )
        self._open.append(element)
        self._words = ""
        if element == "text":
            self._text += 1
        elif element == "sentence":
            self._tokens, self._marks = [], []
        elif element == "instance":
            self._instance = self._mark(attributes)

    def _mark(self, attributes: dict[str, str]) -> Mark:
        for name in ("id", "lemma", "pos"):
            if not attributes.get(name, "").strip():
                self._fail(f"an <instance> without {name!r}")
        if attributes["pos"] not in POS_OF_TAG:
            self._fail(
                f"'pos' of an <instance> must be one of {', '.join(POS_OF_TAG)}. "
                f"Received: {attributes['pos']!r}"
            )
        occurrence = attributes["id"]
        if occurrence.split() != [occurrence]:  # in the files of keys it ends at a space
            self._fail(f"the 'id' of an <instance> must not hold white space: {occurrence!r}")
        lemma = joined(attributes["lemma"]).lower()
        first, line = len(self._tokens), self._parser.CurrentLineNumber
        return Mark(occurrence, lemma, POS_OF_TAG[attributes["pos"]], first, first, line)

    def _end(self, element: str) -> None:
        self._open.pop()
        if element in _HOLDS_WORDS:
            words = self._words.split()
            self._tokens += words
            self._words = ""
            if self._instance:
                if not words:
                    self._fail(f"the <instance> {self._instance.id!r} holds no word")
                self._marks.append(self._instance._replace(end=len(self._tokens)))
                self._instance = None
                self._any_mark = True
        elif element == "sentence":
            self._complete.append(XMLSentence(self._text, self._tokens, self._marks))

    def _characters(self, characters: str) -> None:
        if self._open[-1] in _HOLDS_WORDS:
            self._words += characters
        elif characters.strip():
            # They are told of when they end, before the next tag.
            found = characters.lstrip()
            line = self._parser.CurrentLineNumber - found.count("\n")
            self._fail(
                f"text outside of <wf> and <instance>: {' '.join(found.split())[:60]!r}", line
            )

    def _xml_declaration(self, _version: str, encoding: str | None, _standalone: int) -> None:
        if encoding and encoding.lower() not in _ENCODINGS:
            self._fail(f"the encoding {encoding!r}, which is not read. Write the file in UTF-8")

    def _type_declaration(self, *_: Any) -> None:
        self._fail("a document type declaration, which is not read. Remove it")

    def _fail(self, message: str, line: int | None = None) -> NoReturn:
        line = line or self._parser.CurrentLineNumber
        raise ValueError(f"{self._path}, line {line}: {message}.")
