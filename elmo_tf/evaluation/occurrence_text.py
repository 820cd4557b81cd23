"""The text of an index of occurrences, and checks of queries that need no model."""

import difflib
import math
import os
from collections.abc import Iterable, Sequence

from elmo_tf.progress import progress
from elmo_tf.text.corpus import MAX_SENTENCE_TOKENS
from elmo_tf.text.sentence_files import reported_lines


def distinct_sentences(
    files: Sequence[str | os.PathLike], max_tokens: int | None = None
) -> dict[str, tuple[int, int]]:
    """The first sentences, joined by spaces, with the indices of their files and their lines.

    Raises:
        ValueError: the files hold no token; or see `sentence_lines`.
    """
    left = max_tokens or math.inf
    sentences: dict[str, tuple[int, int]] = {}
    with progress(None, "reading the corpus", "tokens") as meter:
        for file, path in enumerate(files):
            for line, text in enumerate(reported_lines([path], format=None), start=1):
                tokens = text.split()
                for start in range(0, len(tokens), MAX_SENTENCE_TOKENS):
                    part = tokens[start : start + MAX_SENTENCE_TOKENS]
                    sentence = " ".join(part)
                    if sentence not in sentences and left > 0:
                        sentences[sentence] = file, line
                        left -= len(part)
                        meter.update(len(part))
                if left <= 0:
                    return sentences
    if not sentences:
        raise ValueError(f"There is no token in {files[0]}, ….")
    return sentences


def check_word(word: str, types: Iterable[str]) -> None:
    """Raises `ValueError`, which names similar words, if a word is not one of the `types`."""
    if word in types:
        return
    similar = {t.casefold(): t for t in types if abs(len(t) - len(word)) <= 2}
    near = [similar[key] for key in difflib.get_close_matches(word.casefold(), similar)]
    hint = f" Similar words: {', '.join(near)}." if near else ""
    raise ValueError(f"The word {word!r} does not occur in the text.{hint}")


def check_layers(layers: Iterable[int], num_layers: int) -> None:
    """Raises `ValueError` for layers that do not depend on the context, or do not exist."""
    for layer in layers:
        if not 1 <= layer < num_layers:
            allowed = ", ".join(map(str, range(1, num_layers)))
            raise ValueError(
                f"The layers that depend on the context are {allowed}. Received: {layer!r}"
            )
