"""Sentences ─► the size of a text and its suspicious lines, which are reported together."""

import collections
import itertools
import re
import string
import unicodedata
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from absl import logging

from elmo_tf.logs import progress_over, warn_once
from elmo_tf.text.reading import TextSource, encode, is_utf_8, sentence_lines

# Longer sentences are split in training, which bounds the text in memory.
MAX_SENTENCE_TOKENS = 10_000

# Kinds of suspicious lines, and their descriptions.
KINDS = {
    "invalid": "with invalid UTF-8 (read byte for byte; another encoding?)",
    "nul": "with NUL bytes (UTF-16?)",
    "boundary": "with a token <S> or </S> (names of the sentence boundaries)",
    "empty": "without tokens",
    "long": f"of more than {MAX_SENTENCE_TOKENS:,} tokens (split)",
    "cut": "with a token longer than the model reads (truncated), such as {!r:.80}",
    "unknown": "with a token that is not in the vocabulary (read as <UNK>), such as {!r:.80}",
    "normal form": "not in Unicode's normal form NFC (see unicodedata.normalize), such as {!r:.80}",
    "residues": "whose residues are not separated by spaces, such as {!r:.80}",
    "raw": "that look like raw text, such as {!r:.80} (remedy: tokenizer= or --tokenize)",
    "script": "of letters that the vocabulary lacks, such as {!r} (a model of another language?)",
}
# The characters of a vocabulary of amino acids.
_RESIDUES = frozenset(string.ascii_uppercase + "<>/\n")
# These kinds are looked for in the first sentences, and reported if many of them have it.
_STYLES, _SHARE = ("raw", "script"), 0.2
_FIRST_SENTENCES = 1000
# Of the unknown tokens of other text, above three times that of the training text.
_UNKNOWN_SHARE, _LEAST_TOKENS = 0.2, 20

# A letter, then punctuation that tokenizers separate: at the end of a token; a full stop only at
# the end of the sentence, because others end abbreviations; that of Chinese and Japanese anywhere.
_ATTACHED = re.compile(
    r"(?:^|(?<=\s))\S*[^\W\d_]"
    r"(?:[,;:!?،؛؟।]['\"”’)\]]*(?!\S)"
    r"|(?<=[^\W\d_]{2})\.['\"”’)\]]*$|[。！？，；：、])"
)


class KnownText(NamedTuple):
    """The text that a model knows, as far as it is known."""

    max_length: int | None = None  # to which it truncates tokens
    unit: str = "bytes"  # of the length, or "characters"
    vocabulary: Container[str] | None = None  # of a model of whole tokens
    # Of its training text: the characters, the vocabulary, the share of tokens that are not in the
    # vocabulary, and the tokenizer.
    characters: Container[str] = frozenset()
    tokens: Container[str] = frozenset()
    unknown_share: float | None = None
    tokenizer: str | None = None

    def truncates(self, token: str) -> bool:
        """Whether the model truncates a token."""
        return len(encode(token) if self.unit == "bytes" else token) > self.max_length


class TextCount:
    """Counts the sentences, the tokens and the suspicious lines of a text.

    `known` is what the model knows that reads the sentences; without it, only lines that are
    suspicious in any text are counted.
    """

    def __init__(self, known: KnownText | None = None):
        self.sentences = self.tokens = 0
        self.longest = 0  # tokens of the longest sentence
        self.types: collections.Counter[str] = collections.Counter()  # only of `count_text`
        self.lines: collections.Counter[str] = collections.Counter()  # by kind, see `KINDS`
        self._known = known
        self._token_kinds: dict[str, Callable[[str], bool]] = {}
        if known is not None:
            self._token_kinds["normal form"] = lambda t: not unicodedata.is_normalized("NFC", t)
            if known.max_length is not None:
                self._token_kinds["cut"] = known.truncates
            if known.vocabulary is not None:
                self._token_kinds["unknown"] = lambda token: token not in known.vocabulary
            if known.characters and known.characters <= _RESIDUES:
                self._token_kinds["residues"] = lambda token: len(token) > 1
        self._examples: dict[str, str] = {}
        self._seen = self._unknown = 0  # tokens of the first sentences

    @property
    def targets(self) -> int:
        """Targets of one direction of a language model: tokens, and a boundary per sentence."""
        return self.tokens + self.sentences

    def add(self, line: str, tokens: Sequence[str]) -> None:
        """Counts a sentence."""
        self.sentences += 1
        self.tokens += len(tokens)
        self.longest = max(self.longest, len(tokens))
        if not tokens:
            self.lines["empty"] += 1
        self.add_line(line)
        self.add_tokens(tokens)

    def add_line(self, line: str) -> None:
        """Counts the kinds of lines that are suspicious in any text, also in raw text."""
        self.lines["invalid"] += not is_utf_8(line)
        self.lines["nul"] += "\0" in line
        self.lines["boundary"] += "S>" in line and not {"<S>", "</S>"}.isdisjoint(line.split())

    def add_tokens(self, tokens: Sequence[str]) -> None:
        """Counts the kinds of text that the model does not know, and keeps an example of each."""
        if self._known is None:
            return
        for kind, is_suspicious in self._token_kinds.items():
            if (token := next(filter(is_suspicious, tokens), None)) is not None:
                self._add_example(kind, token)
        if self.sentences > _FIRST_SENTENCES:
            return
        if self._known.unknown_share is not None:
            self._seen += len(tokens)
            self._unknown += sum(token not in self._known.tokens for token in tokens)
        text = " ".join(tokens)
        if match := _ATTACHED.search(text):
            self._add_example("raw", match.group())
        if self._known.characters:
            letters = list(filter(str.isalpha, text))
            unknown = [letter for letter in letters if letter not in self._known.characters]
            if len(unknown) > _SHARE * len(letters):
                self._add_example("script", unknown[0])

    def _add_example(self, kind: str, example: str) -> None:
        self.lines[kind] += 1
        self._examples.setdefault(kind, example)

    def report(self, once: bool = False) -> None:
        """Logs the suspicious lines; as a warning, unless they are only empty.

        `once` reports each combination of kinds once per process.
        """
        known = self._known
        if self._seen >= _LEAST_TOKENS:  # of a model whose training text is known
            share = self._unknown / self._seen
            if share > _UNKNOWN_SHARE + 3 * known.unknown_share:
                warn_once(
                    "unknown tokens",
                    "%.0f%% of the tokens are not in the vocabulary of the model, but only %.1f%% "
                    "of those of its training text, which the tokenizer %s has split. Is the text "
                    'raw? (remedy: tokenizer="model" or --tokenize)',
                    *(100 * share, 100 * known.unknown_share, known.tokenizer or "(unknown)"),
                )
        least = dict.fromkeys(_STYLES, _SHARE * min(self.sentences, _FIRST_SENTENCES))
        kinds = [kind for kind in KINDS if self.lines[kind] > least.get(kind, 0)]
        if not kinds:
            return
        parts = [
            f"{self.lines[kind]:,} {KINDS[kind].format(self._examples.get(kind))}" for kind in kinds
        ]
        message = f"Suspicious lines: {', '.join(parts)}."
        if once:
            warn_once(f"lines {', '.join(kinds)}", "%s", message)
        else:
            logging.log(logging.INFO if kinds == ["empty"] else logging.WARNING, "%s", message)


def count_text(sources: Sequence[TextSource], format: str | None = None) -> TextCount:
    """Counts the tokens and the suspicious lines of a corpus, as `read_sentences` splits it.

    For `format` and errors, see `sentence_lines`.
    """
    count = TextCount()
    lines = (line for source in sources for line in sentence_lines(source, format=format))
    for line in progress_over(lines, None, "counting", "lines"):
        tokens = line.split()
        count.types.update(tokens)
        count.add(line, tokens)
        if len(tokens) > MAX_SENTENCE_TOKENS:
            count.lines["long"] += 1
            count.sentences += (len(tokens) - 1) // MAX_SENTENCE_TOKENS
    count.sentences -= count.lines["empty"]
    count.longest = min(count.longest, MAX_SENTENCE_TOKENS)
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


def reported_sentences(sentences: Iterable[Any], known: KnownText) -> Iterator[Any]:
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
