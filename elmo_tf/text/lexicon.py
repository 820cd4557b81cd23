"""Lexicon: the characters, and maybe words, that a biLM of ELMoForManyLangs knows."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from elmo_tf.files import atomic_file
from elmo_tf.text.characters import Spelling
from elmo_tf.text.reading import encode, is_utf_8, read_lines
from elmo_tf.text.vocabulary import StringTable

CHARACTERS_FILE = "char.dic"
WORDS_FILE = "word.dic"

_WORD_SPECIALS = ("<oov>", "<bos>", "<eos>", "<pad>")
_CHARACTER_SPECIALS = (*_WORD_SPECIALS, "<bow>", "<eow>")


class Lexicon(Spelling):
    """Characters and words of a biLM, with their ids.

    The ids of a token are that of the word, if there are words, and those of its characters, which
    are code points. An id is the position in the list plus one. The original swaps the word
    boundaries: a word begins with `<eow>` and ends with `<bow>`. The tokens `<bos>` and `<eos>` of
    a text are read as boundaries of sentences. Invalid UTF-8 is an unknown character.

    Args:
        characters: single code points, and `<bos> <eos> <oov> <pad> <bow> <eow>`.
        words: words, and `<oov> <bos> <eos> <pad>`; None if the biLM reads only characters.

    Raises:
        ValueError: a special entry is missing, an entry is listed twice, or a character is not one
            code point.

    Source: the dictionaries of ELMoForManyLangs (Che et al. 2018).
    """

    def __init__(self, characters: Sequence[str], words: Sequence[str] | None = None):
        self.entries = tuple(characters)
        self.words = None if words is None else tuple(words)
        ids = _ids(self.entries, CHARACTERS_FILE, _CHARACTER_SPECIALS)
        self.num_characters = len(ids)
        self.begin_word, self.end_word = ids["<eow>"], ids["<bow>"]
        self.bos, self.eos, self.pad = ids["<bos>"], ids["<eos>"], ids["<pad>"]
        self._unknown = ids["<oov>"]
        known = {key: index for key, index in ids.items() if key not in _CHARACTER_SPECIALS}
        for key in known:
            if len(key) != 1:
                raise ValueError(f"{CHARACTERS_FILE}: the entry {key!r} is not one character.")
        points = sorted((ord(key), index) for key, index in known.items())
        # -1 is no code point: an empty table has no first element to compare with.
        self._points, self._ids = np.array([(-1, 0), *points], np.int32).T
        self._table: StringTable | None = None
        self.num_words = 0
        if self.words is not None:
            word_ids = _ids(self.words, WORDS_FILE, _WORD_SPECIALS)
            self.num_words = len(word_ids)
            self._table = StringTable(self.words, default=word_ids["<oov>"] - 1)
            self.num_columns = 1
            self.boundary_words = [word_ids["<bos>"]], [word_ids["<eos>"]]

    @classmethod
    def build(cls, tokens: Iterable[str], words: Sequence[str] | None, max_chars: int) -> "Lexicon":
        """Builds a lexicon: special entries, then the characters by code point, and the words.

        Args:
            tokens: tokens of a text, all of whose characters are included.
            words: words, whose characters are included too, or None for characters alone. Words
                with invalid UTF-8 are left out.
            max_chars: int. `max_chars` of the biLM; words are truncated to two characters less.
        """
        characters = {*"".join(tokens), *"".join(words or ())}
        if words is not None:
            cut = (word[: max_chars - 2] for word in words if is_utf_8(word))
            words = tuple(dict.fromkeys((*_WORD_SPECIALS, *cut)))
        return cls((*_CHARACTER_SPECIALS, *sorted(filter(is_utf_8, characters))), words)

    @classmethod
    def load(cls, folder: str | os.PathLike, has_words: bool = True) -> "Lexicon":
        """Reads `char.dic` and, if `has_words`, `word.dic`: `entry TAB id` per line.

        Raises:
            ValueError: the ids are not 0, 1, 2 …, or see the class.
            OSError: a file cannot be read.
        """
        folder = Path(folder)
        words = _read(folder / WORDS_FILE) if has_words else None
        try:
            return cls(_read(folder / CHARACTERS_FILE), words)
        except ValueError as error:
            raise ValueError(f"{folder}: {error}") from None

    def save(self, folder: str | os.PathLike) -> None:
        """Writes `char.dic` and, if there are words, `word.dic`, for `load`."""
        for name, entries in ((CHARACTERS_FILE, self.entries), (WORDS_FILE, self.words or ())):
            lines = [encode(f"{entry}\t{index}\n") for index, entry in enumerate(entries)]
            if lines:
                with atomic_file(Path(folder, name)) as part:
                    part.write_bytes(b"".join(lines))

    def get_config(self) -> dict[str, list[str] | None]:
        """The arguments, as JSON."""
        words = None if self.words is None else list(self.words)
        return {"characters": list(self.entries), "words": words}

    @property
    def table(self) -> tf.lookup.StaticHashTable | None:
        """The table of the words, see `StringTable`."""
        return None if self._table is None else self._table.table

    def characters(self, tokens: tf.Tensor, count: int) -> tuple[tf.Tensor, tf.Tensor]:
        points = tf.strings.unicode_decode(tokens, "UTF-8")  # U+FFFD for invalid bytes
        lengths = tf.cast(points.row_lengths(), tf.int32)
        points = points.to_tensor(shape=(None, count))
        index = tf.searchsorted(self._points, tf.reshape(points, (-1,)), side="right") - 1
        index = tf.reshape(index, tf.shape(points))
        is_known = tf.gather(self._points, index) == points
        return tf.where(is_known, tf.gather(self._ids, index), self._unknown), lengths

    def ids_of(self, tokens: tf.Tensor, max_chars: int) -> tf.Tensor:
        ids = super().ids_of(tokens, max_chars)
        if self._table is not None:
            # Words are truncated like their characters, before they are looked up.
            words = tf.strings.substr(tokens, 0, max_chars - 2, unit="UTF8_CHAR")
            words = tf.cast(self._table.table.lookup(words), tf.int32)[:, tf.newaxis] + 1
            ids = tf.concat([tf.where(ids[:, :1] == 0, 0, words), ids], axis=-1)
        bos, eos = tf.unstack(self.boundary_ids(max_chars))
        for token, boundary in ((b"<bos>", bos), (b"<eos>", eos)):
            ids = tf.where((tokens == token)[:, tf.newaxis], boundary, ids)
        return ids


def _ids(entries: Sequence[str], name: str, specials: Sequence[str]) -> dict[str, int]:
    """The id of each entry, from 1."""
    ids = {entry: index for index, entry in enumerate(entries, start=1)}
    if len(ids) < len(entries):
        twice = next(entry for index, entry in enumerate(entries, 1) if ids[entry] != index)
        raise ValueError(f"{name}: the entry {twice!r} is listed twice.")
    missing = [special for special in specials if special not in ids]
    if missing:
        raise ValueError(f"{name}: the entry {missing[0]} is missing.")
    return ids


def _read(path: Path) -> list[str]:
    """The entries of a dictionary file."""
    entries = []
    for index, line in enumerate(read_lines(path)):
        entry, _, received = line.rstrip("\r\n").rpartition("\t")
        if received.strip() != str(index):
            message = f"the id {index} is required. Received: {received!r}."
            raise ValueError(f"{path}, line {index + 1}: {message}")
        # As in the original, which strips whitespace, an empty entry is the ideographic space.
        entries.append(entry.strip() or "\u3000")
    return entries
