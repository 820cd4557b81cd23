"""Vocabulary: tokens ─► ids of the softmax."""

import collections
import functools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

import tensorflow as tf

from elmo_tf.files import atomic_file
from elmo_tf.text.counting import count_text
from elmo_tf.text.reading import decode, encode, open_bytes, read_lines

SPECIAL_TOKENS = BOS_TOKEN, EOS_TOKEN, UNKNOWN_TOKEN = "<S>", "</S>", "<UNK>"
BOS_ID, EOS_ID, UNKNOWN_ID = range(3)


class StringTable:
    """Ids of strings in the graph: the position in a list, or `default` for all other strings."""

    def __init__(self, strings: Sequence[str], default: int):
        self._strings = strings
        self._default = default

    @functools.cached_property
    def table(self) -> tf.lookup.StaticHashTable:
        """TensorFlow's table."""
        with tf.init_scope():  # outside of the graph that is being traced
            keys = tf.constant([encode(string) for string in self._strings])
            values = tf.range(len(self._strings), dtype=tf.int64)
            initializer = tf.lookup.KeyValueTensorInitializer(keys, values)
            return tf.lookup.StaticHashTable(initializer, self._default)

    def __getstate__(self) -> dict:  # tables cannot be copied
        return {name: value for name, value in vars(self).items() if name != "table"}


class Vocabulary(StringTable):
    """The tokens that a language model predicts, sorted by decreasing count.

    The order matters: the sampled softmax draws negatives from a log-uniform distribution over it.

    Args:
        tokens: `<S>`, `</S>`, `<UNK>`, then the other tokens, without duplicates. Tokens are
            compared by their bytes, see `encode`.

    Raises:
        ValueError: the first three tokens are not `<S>`, `</S>`, `<UNK>`, or a token is duplicated
            or empty.

    Example:
        >>> vocabulary = elmo_tf.Vocabulary.build(["the cat sat", "the dog"], max_size=5)
        >>> vocabulary.tokens
        ('<S>', '</S>', '<UNK>', 'the', 'cat')

    Source: Peters et al. 2018; the vocabulary files of the original.
    """

    def __init__(self, tokens: Iterable[str]):
        self.tokens: tuple[str, ...] = tuple(map(_as_read, tokens))
        if self.tokens[:3] != SPECIAL_TOKENS:
            raise ValueError(
                f"The first tokens of a `Vocabulary` must be {', '.join(SPECIAL_TOKENS)}. "
                f"Received: {self.tokens[:3]!r:.80}."
            )
        self._ids: dict[str, int] = {}
        for index, token in enumerate(self.tokens):
            if not token.strip() or self._ids.setdefault(token, index) != index:
                message = f"Token {index} of a `Vocabulary` is empty or repeated"
                raise ValueError(f"{message}: {token!r:.80}.")
        super().__init__(self.tokens, UNKNOWN_ID)

    @classmethod
    def build(
        cls,
        lines_or_paths: Iterable[str | os.PathLike],
        min_count: int = 1,
        max_size: int | None = None,
    ) -> "Vocabulary":
        """Builds a vocabulary of the most frequent tokens, ties in order of code points.

        Args:
            lines_or_paths: lines of text (`str`) or files (`os.PathLike`; `.gz` is decompressed).
            min_count: int >= 1. Tokens with a lower count are mapped to `<UNK>`.
            max_size: int >= 3 or None. Maximum size, including `<S> </S> <UNK>`.

        Raises:
            TypeError: a single line or path, or an item of another type, such as a list of tokens.
            ValueError: the text has no token, `max_size` is too small, or see `sentence_lines`.
            OSError: a file cannot be read.
        """
        if isinstance(lines_or_paths, str | os.PathLike):
            raise TypeError("`lines_or_paths` must be a list of lines or paths, not a single one.")
        paths: list[os.PathLike] = []
        counts: collections.Counter[str] = collections.Counter()
        for index, item in enumerate(lines_or_paths):
            if isinstance(item, os.PathLike):
                paths.append(item)
            elif isinstance(item, str):
                counts.update(_as_read(item).split())
            else:
                raise TypeError(
                    "Each item of `lines_or_paths` must be a line (str) or a file (os.PathLike). "
                    f"Item {index} is {item!r:.80}."
                )
        if paths:
            counts.update(count_text(paths).types)
        return cls.of_counts(counts, min_count, max_size)

    @classmethod
    def of_counts(
        cls, counts: Mapping[str, int], min_count: int = 1, max_size: int | None = None
    ) -> "Vocabulary":
        """Builds a vocabulary from the count of each token. For the rest, see `build`."""
        if not counts:
            raise ValueError("Cannot build a vocabulary: the text contains no tokens.")
        if max_size is not None and max_size < len(SPECIAL_TOKENS):
            raise ValueError(f"`max_size` must be at least 3. Received: {max_size}")
        kept = {token for token, count in counts.items() if count >= min_count} - {*SPECIAL_TOKENS}
        ordered = sorted(kept, key=lambda token: (-counts[token], token))
        return cls((*SPECIAL_TOKENS, *ordered)[:max_size])

    @classmethod
    def load(cls, path: str | os.PathLike) -> "Vocabulary":
        """Reads a file with one token per line; `<S>`, `</S>` and `<UNK>` may be on any line.

        Raises:
            ValueError: a line is not one token, a token is on two lines, or see `read_vocabulary`.
            OSError: the file cannot be read.
        """
        vocabulary, _ = read_vocabulary(path)
        for token in vocabulary.tokens:
            if token.split() != [token]:
                message = "a line is not one token, or repeats one"
                raise ValueError(f"{os.fspath(path)}: {message}: {token!r:.80}.")
        return vocabulary

    def save(self, path: str | os.PathLike) -> None:
        """Writes one token per line."""
        with atomic_file(path) as part, open_bytes(part, "wb") as file:
            file.writelines(encode(token) + b"\n" for token in self.tokens)

    def __iter__(self) -> Iterator[str]:
        return iter(self.tokens)

    def __len__(self) -> int:
        return len(self.tokens)

    def __contains__(self, token: str) -> bool:
        return _as_read(token) in self._ids

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.tokens == other.tokens

    def __hash__(self) -> int:
        return hash(self.tokens)

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} tokens)"

    def ids(self, tokens: Sequence[str]) -> list[int]:
        """Returns the ids of Python strings; unknown tokens get the id of `<UNK>`."""
        return [self._ids.get(_as_read(token), UNKNOWN_ID) for token in tokens]

    def lookup(self, tokens: tf.Tensor) -> tf.Tensor:
        """Returns the ids of a string tensor, int64 of the same shape."""
        return self.table.lookup(tokens)


def read_vocabulary(
    path: str | os.PathLike, num_rows: int | None = None
) -> tuple[Vocabulary, list[int]]:
    """Reads the vocabulary of a checkpoint as the original does.

    Lines are stripped, a line `!!!MAXTERMID` is skipped, and `<S>`, `</S>` and `<UNK>` may be on
    any line. The last of equal lines counts. The others, and empty lines, have rows that no token
    reads but the softmax sums over: they get a remark.

    Returns the vocabulary, and the row of each of its tokens in the tables of the checkpoint, which
    have `num_rows`: this decides on empty lines at the end.

    Raises:
        ValueError: `<S>`, `</S>` or `<UNK>` is missing.
        OSError: the file cannot be read.
    """
    # The skipped line is in vocabulary files of the 1 Billion Word benchmark.
    lines = [line for line in map(str.strip, read_lines(path)) if line != "!!!MAXTERMID"]
    while lines and not lines[-1] and len(lines) > (num_rows or 0):
        lines.pop()
    last = {line: row for row, line in enumerate(lines)}
    special = [last.get(token) for token in SPECIAL_TOKENS]
    if None in special:
        missing = SPECIAL_TOKENS[special.index(None)]
        raise ValueError(f"{path} has no line {missing}, which a language model needs.")
    rows = [*special, *sorted({*range(len(lines))} - {*special})]
    tokens = [
        line if line and last[line] == row else f"{line} (row {row + 1}, unused)".lstrip()
        for row, line in ((row, lines[row]) for row in rows)
    ]
    return Vocabulary(tokens), rows


def _as_read(string: str) -> str:
    """Normalizes a string to the form in which `read_lines` reads its bytes."""
    return string if string.isascii() else decode(encode(string))
