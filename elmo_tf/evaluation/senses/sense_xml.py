"""Reader of the XML of sense-tagged text, in bounded memory."""

import os
from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn
from xml.parsers import expat

from elmo_tf.evaluation.senses.inventory import POS_OF_TAG, normalized_lemma

_CHUNK_BYTES = 2**16
_PARENTS = {
    "corpus": None,
    "text": "corpus",
    "sentence": "text",
    "wf": "sentence",
    "instance": "sentence",
}
_WORD_ELEMENTS = ("wf", "instance")


class Instance(NamedTuple):
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
    instances: list[Instance]


def read_sense_xml(path: str | os.PathLike) -> Iterator[XMLSentence]:
    """Yields the sentences of a file; see `SenseCorpus`."""
    reader = _Reader(os.fspath(path))
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            yield from reader.read(chunk)
        yield from reader.read(b"", is_last=True)


class _Reader:
    def __init__(self, path: str):
        self._path = path
        self._open: list[str] = []  # elements, the innermost last
        self._text = -1
        self._tokens: list[str] = []
        self._instances: list[Instance] = []
        self._has_instance = False
        self._words = ""
        self._instance: Instance | None = None
        self._complete: list[XMLSentence] = []
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters
        self._parser.StartDoctypeDeclHandler = self._type_declaration

    def read(self, chunk: bytes, is_last: bool = False) -> list[XMLSentence]:
        """Returns the sentences that end in this chunk."""
        try:
            self._parser.Parse(chunk, is_last)
        except expat.ExpatError as error:
            raise ValueError(
                f"{self._path}, line {error.lineno}: broken XML: {expat.ErrorString(error.code)}."
            ) from None
        if is_last and not self._has_instance:
            raise ValueError(f"{self._path} has no <instance>.")
        complete, self._complete = self._complete, []
        return complete

    def _start(self, element: str, attributes: dict[str, str]) -> None:
        parent = self._open[-1] if self._open else None
        if element not in _PARENTS or _PARENTS[element] != parent:
            where = f"in <{parent}>" if parent else "as the outermost element"
            self._fail(
                f"<{element}> is not allowed {where}. The structure is <corpus> <text> <sentence>, "
                "with <wf> and <instance> inside"
            )
        self._open.append(element)
        self._words = ""
        if element == "text":
            self._text += 1
        elif element == "sentence":
            self._tokens, self._instances = [], []
        elif element == "instance":
            self._instance = self._new_instance(attributes)

    def _new_instance(self, attributes: dict[str, str]) -> Instance:
        for name in ("id", "lemma", "pos"):
            if not attributes.get(name, "").strip():
                self._fail(f"an <instance> has no {name!r}")
        if attributes["pos"] not in POS_OF_TAG:
            self._fail(
                f"'pos' of an <instance> must be one of {', '.join(POS_OF_TAG)}. "
                f"Received: {attributes['pos']!r}"
            )
        occurrence = attributes["id"]
        if occurrence.split() != [occurrence]:  # files of keys separate columns by spaces
            self._fail(f"the 'id' of an <instance> must not contain whitespace: {occurrence!r}")
        lemma = normalized_lemma(attributes["lemma"]).lower()
        first, line = len(self._tokens), self._parser.CurrentLineNumber
        return Instance(occurrence, lemma, POS_OF_TAG[attributes["pos"]], first, first, line)

    def _end(self, element: str) -> None:
        self._open.pop()
        if element in _WORD_ELEMENTS:
            words = self._words.split()
            self._tokens += words
            self._words = ""
            if self._instance:
                if not words:
                    self._fail(f"the <instance> {self._instance.id!r} has no word")
                self._instances.append(self._instance._replace(end=len(self._tokens)))
                self._instance = None
                self._has_instance = True
        elif element == "sentence":
            self._complete.append(XMLSentence(self._text, self._tokens, self._instances))

    def _characters(self, characters: str) -> None:
        if self._open[-1] in _WORD_ELEMENTS:
            self._words += characters
        elif characters.strip():
            # The parser is at the end of the buffered text, the error at its beginning.
            found = characters.lstrip()
            line = self._parser.CurrentLineNumber - found.count("\n")
            self._fail(f"text outside <wf> and <instance>: {' '.join(found.split())[:60]!r}", line)

    def _type_declaration(self, *_: Any) -> None:
        # Entities of an external declaration would be left out of the text.
        self._fail("a document type declaration is not supported. Remove it")

    def _fail(self, message: str, line: int | None = None) -> NoReturn:
        line = line or self._parser.CurrentLineNumber
        raise ValueError(f"{self._path}, line {line}: {message}.")
