"""Sentences ─► the size of a text and its suspicious lines, which are reported together."""

import collections
import itertools
import re
import unicodedata
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from absl import logging

from elmo_tf.logs import progress, warn_once
from elmo_tf.text.reading import TextSource, encode, is_utf_8, sentence_lines

# Longer sentences are split in training. The cost of cutting windows grows with their length.
MAX_SENTENCE_TOKENS = 10_000

# Kinds of suspicious lines, and their descriptions.
KINDS = {
    "invalid": "with invalid UTF-8 (read byte for byte; another encoding?)",
    "nul": "with NUL bytes (UTF-16?)",
    "boundary": "with a token <S> or </S> (names of the sentence boundaries)",
    "space": "with tokens separated by no-break or ideographic spaces (U+00A0, U+3000)",
    "empty": "without tokens",
    "crlf": "ending in CRLF (read as LF)",
    "long": f"of more than {MAX_SENTENCE_TOKENS:,} tokens (split)",
    "cut": "with a token longer than the model reads (truncated), such as {!r:.80}",
    "unknown": "with a token that is not in the vocabulary (read as <UNK>), such as {!r:.80}",
    "normal form": "not in Unicode's normal form NFC (see unicodedata.normalize), such as {!r:.80}",
    "raw": "that look like raw text, such as {!r:.80} (remedy: tokenizer= or --tokenize)",
    "script": "of letters that the vocabulary lacks, such as {!r} (a model of another language?)",
}
_HARMLESS = ("empty", "crlf")
# These kinds are looked for in the first sentences, and reported if many of them have it.
_STYLES, _SHARE = ("raw", "script"), 0.2
_FIRST_SENTENCES = 1000

_BOUNDARIES = {"<S>", "</S>"}
_WIDE_SPACES = re.compile(r"\S[\u00a0\u3000]+\S")
# A letter, then punctuation that tokenizers separate: at the end of a token; a full stop only at
# the end of the sentence, because others end abbreviations; that of Chinese and Japanese anywhere.
_ATTACHED = re.compile(
    r"(?:^|(?<=\s))\S*[^\W\d_]"
    r"(?:[,;:!?،؛؟।]['\"”’)\]]*(?!\S)"
    r"|(?<=[^\W\d_]{2})\.['\"”’)\]]*$|[。！？，；：、])"
)
_LINES_AT_A_TIME = 1024
_Sentence = TypeVar("_Sentence", str, list[str])


class TokenLimit(NamedTuple):
    """The length to which a model truncates tokens, in "bytes" (of UTF-8) or "characters"."""

    length: int
    unit: str

    def is_exceeded(self, token: str) -> bool:
        """Whether a token is longer."""
        if len(token) * 4 <= self.length:  # fast: a character takes at most 4 bytes
            return False
        return len(encode(token) if self.unit == "bytes" else token) > self.length


class KnownText(NamedTuple):
    """The text that a model knows.

    Attributes:
        limit: the length to which it truncates tokens, or None.
        vocabulary: the tokens that a model of whole tokens knows, or None.
        characters: those of its training text; empty if they are unknown.
    """

    limit: TokenLimit | None = None
    vocabulary: Container[str] | None = None
    characters: Container[str] = frozenset()


class TextCount:
    """Counts the sentences, the tokens and the suspicious lines of a text.

    Args:
        known: the text that the model knows which reads the sentences. Without it, only the kinds
            of lines that are suspicious in any text are counted.
        is_corpus: whether sentences are those of `read_sentences`: not empty, and split.

    Attributes:
        sentences: number of sentences.
        tokens: number of tokens, without boundaries.
        longest: tokens of the longest sentence.
        types: how often each token occurs; only of `count_text`.
        lines: the numbers of suspicious lines by kind, see `KINDS`.
    """

    def __init__(self, known: KnownText | None = None, is_corpus: bool = False):
        self.sentences = self.tokens = self.longest = 0
        self.types: collections.Counter[str] = collections.Counter()
        self.lines: collections.Counter[str] = collections.Counter()
        self._is_corpus = is_corpus
        self._known = known
        self._token_kinds: dict[str, Callable[[str], bool]] = {}
        if known is not None:
            self._token_kinds["normal form"] = lambda t: not unicodedata.is_normalized("NFC", t)
            if known.limit is not None:
                self._token_kinds["cut"] = known.limit.is_exceeded
            if known.vocabulary is not None:
                self._token_kinds["unknown"] = lambda token: token not in known.vocabulary
        self._examples: dict[str, str] = {}

    @property
    def targets(self) -> int:
        """Targets of one direction of a language model: tokens, and a boundary per sentence."""
        return self.tokens + self.sentences

    def add(self, line: str, tokens: Sequence[str]) -> None:
        """Counts a sentence: its line, or tokens of columns joined by spaces; and its tokens."""
        size = len(tokens)
        self.tokens += size
        if self._is_corpus and not 0 < size <= MAX_SENTENCE_TOKENS:
            self.sentences += -(-size // MAX_SENTENCE_TOKENS)
            self.lines["long"] += size > 0
            self.longest = max(self.longest, min(size, MAX_SENTENCE_TOKENS))
        else:
            self.sentences += 1
            self.longest = max(self.longest, size)
        if not size:
            self.lines["empty"] += 1
        if line.endswith("\r\n"):
            self.lines["crlf"] += 1
        self.add_line(line, tokens)
        self.add_tokens(tokens)

    def add_line(self, line: str, tokens: Sequence[str] | None = None) -> None:
        """Counts the kinds of lines that are suspicious in any text, also in raw text."""
        if line.isascii() and ">" not in line and "\0" not in line:
            return  # fast: most lines
        if not is_utf_8(line):
            self.lines["invalid"] += 1
        if "\0" in line:
            self.lines["nul"] += 1
        tokens = line.split() if tokens is None else tokens
        if "S>" in line and not _BOUNDARIES.isdisjoint(tokens):
            self.lines["boundary"] += 1
        # Tokens of columns may contain such spaces.
        if _WIDE_SPACES.search(line) and not any(map(_WIDE_SPACES.search, tokens)):
            self.lines["space"] += 1

    def add_tokens(self, tokens: Sequence[str]) -> None:
        """Counts the kinds of text that the model does not know, and keeps an example of each."""
        if self._known is not None:
            for kind, example in self._unknown_text(tokens):
                self.lines[kind] += 1
                self._examples.setdefault(kind, example)

    def _unknown_text(self, tokens: Sequence[str]) -> Iterator[tuple[str, str]]:
        """The kinds of a sentence that a model does not know, each with an example."""
        for kind, is_suspicious in self._token_kinds.items():
            if (token := next(filter(is_suspicious, tokens), None)) is not None:
                yield kind, token
        if self.sentences > _FIRST_SENTENCES:
            return
        text, characters = " ".join(tokens), self._known.characters
        if match := _ATTACHED.search(text):
            yield "raw", match.group()
        letters = [letter for letter in text if letter.isalpha()] if characters else []
        unknown = [letter for letter in letters if letter not in characters]
        if len(unknown) > _SHARE * len(letters):
            yield "script", unknown[0]

    def report(self, once: bool = False) -> None:
        """Logs the suspicious lines; as a warning, unless they are empty or end in CRLF.

        `once` reports each combination of kinds once per process.
        """
        first = min(self.sentences, _FIRST_SENTENCES)
        kinds = [
            kind for kind in KINDS if self.lines[kind] > (_SHARE * first if kind in _STYLES else 0)
        ]
        if not kinds:
            return
        parts = [
            f"{self.lines[kind]:,} {KINDS[kind].format(self._examples.get(kind))}" for kind in kinds
        ]
        message = f"Suspicious lines: {', '.join(parts)}."
        if once:
            warn_once(f"lines {', '.join(kinds)}", "%s", message)
        else:
            is_harmless = set(kinds) <= set(_HARMLESS)
            logging.log(logging.INFO if is_harmless else logging.WARNING, "%s", message)


def count_text(sources: Sequence[TextSource], format: str | None = None) -> TextCount:
    """Counts the tokens and the suspicious lines of a corpus.

    For `format` and errors, see `sentence_lines`.
    """
    count = TextCount(is_corpus=True)
    with progress(None, "counting", "sentences") as meter:
        for source in sources:
            lines = sentence_lines(source, format=format)
            while some := list(itertools.islice(lines, _LINES_AT_A_TIME)):
                split = [line.split() for line in some]
                count.types.update(itertools.chain.from_iterable(split))
                for line, tokens in zip(some, split, strict=True):
                    count.add(line, tokens)
                meter.update(len(some))
    return count


def reported_lines(sources: Iterable[TextSource], format: str | None = "text") -> Iterator[str]:
    """Yields the lines of texts, and finally reports the suspicious ones of all texts.

    For `format` and errors, see `sentence_lines`.
    """
    count = TextCount()
    for source in sources:
        for line in sentence_lines(source, format=format):
            count.add_line(line)
            yield line
    count.report()


def reported_sentences(sentences: Iterable[_Sentence], known: KnownText) -> Iterator[_Sentence]:
    """Yields sentences, and reports text that a model does not know after the last or the 1,000th.

    A sentence is a string of tokens separated by whitespace, or a list of tokens.
    """
    count, sentences = TextCount(known), iter(sentences)
    try:
        for sentence in itertools.islice(sentences, _FIRST_SENTENCES):
            count.sentences += 1
            count.add_tokens(sentence.split() if isinstance(sentence, str) else sentence)
            yield sentence
    finally:
        count.report(once=True)
    yield from sentences
