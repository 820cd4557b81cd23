"""Words in context ─► the nearest tokens of a text, by cosine in each layer."""

import math
import os
import unicodedata
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from elmo_tf.embedding.embedder import Embedder
from elmo_tf.embedding.vectors import check_all_layers, check_layers, unit_vectors
from elmo_tf.evaluation.stored_vectors import VectorSource
from elmo_tf.lazy import require_extra
from elmo_tf.logs import progress
from elmo_tf.text.batches import read_ahead
from elmo_tf.text.counting import reported_lines
from elmo_tf.text.tokenizers import Tokenizer, token_sentences

_TOKENS_PER_BLOCK = 8_192
_MAX_CLUSTERED = 100
_MAX_DIFFERENCE = 0.1  # of vectors of one biLM in different precisions
# Control characters, line and paragraph separators, and surrogates (invalid bytes).
_INVISIBLE = {"Cc", "Zl", "Zp", "Cs"}

# The distinct sentences of a text, tokens joined by spaces, with file and line (from 1).
Text = Mapping[str, tuple[str, int]]


class Occurrence(NamedTuple):
    """A token in its sentence."""

    tokens: Sequence[str]
    position: int
    file: str | None = None  # where the sentence first appears in a text
    line: int | None = None
    similarity: float | None = None  # the cosine of the vectors of this token and of the query

    @property
    def token(self) -> str:
        """The token."""
        return self.tokens[self.position]


def distinct_sentences(
    files: Sequence[str | os.PathLike],
    max_tokens: int | None = None,
    tokenizer: Tokenizer | None = None,
) -> dict[str, tuple[str, int]]:
    """Reads the distinct sentences of text files.

    Reading stops after the sentence that reaches `max_tokens`.

    Raises:
        ValueError: the files hold no token; or see `sentence_lines`.
    """
    left = max_tokens or math.inf
    sentences: dict[str, tuple[str, int]] = {}
    for file in files:
        for line, text in enumerate(reported_lines([file], format=None), start=1):
            for sentence in map(" ".join, token_sentences([text], tokenizer)):
                if sentence and sentence not in sentences:
                    sentences[sentence] = os.fspath(file), line
                    left -= sentence.count(" ") + 1
                if left <= 0:
                    return sentences
    if not sentences:
        raise ValueError(f"There is no token in {files[0]}, ….")
    return sentences


def occurrences_of(word: str, sentences: Text) -> list[Occurrence]:
    """Returns all occurrences of a word; `ValueError` if there is none."""
    found = [
        Occurrence(tokens, position, *place)
        for sentence, place in sentences.items()
        for tokens in [sentence.split(" ")]
        for position, token in enumerate(tokens)
        if token == word
    ]
    if not found:
        raise ValueError(f"The word {word!r} does not occur in the text.")
    return found


def typical_occurrences(
    embedder: Embedder, occurrences: Sequence[Occurrence], count: int, layer: int
) -> list[Occurrence]:
    """Chooses occurrences of a word that are typical of different uses.

    Up to 100 occurrences, evenly spaced over the text, are clustered by their vectors in a layer
    (k-means); the occurrence nearest to each center is returned, large clusters first.

    Raises:
        ImportError: scikit-learn is not installed.
    """
    clustering = require_extra("sklearn.cluster", "analysis", "A choice of occurrences")
    spaced = np.linspace(0, len(occurrences) - 1, min(len(occurrences), _MAX_CLUSTERED))
    chosen = [occurrences[place] for place in spaced.astype(int)]
    vectors = _query_vectors(embedder, chosen)[:, layer]
    count = min(count, len(np.unique(vectors, axis=0)))
    clusters = clustering.KMeans(count, n_init=3, random_state=0).fit(vectors)
    order = np.argsort(-np.bincount(clusters.labels_), kind="stable")
    return [chosen[row] for row in clusters.transform(vectors).argmin(axis=0)[order]]


def nearest_tokens(
    embedder: Embedder,
    queries: Sequence[Occurrence],
    sentences: Text,
    layers: Sequence[int] | None = None,
    top_n: int = 5,
    words: str = "any",
    stored: VectorSource | None = None,
) -> list[dict[int, list[Occurrence]]]:
    """Finds the tokens of a text that are nearest to other tokens, by cosine.

    The sentence of a query is left out. Above layer 0, the nearest token of each sentence counts.
    Layer 0 does not depend on the context: each word counts once, and the word of the query is
    left out. Memory holds the vectors of 8,192 tokens.

    Args:
        embedder: an `Embedder` with `layers="all"`.
        queries: tokens; their sentences need not be in the text.
        sentences: the text, see `distinct_sentences`.
        layers: the layers whose vectors are compared; None for all but layer 0.
        top_n: int >= 1. Number of neighbors per query and layer.
        words: "any"; "same" for occurrences of the same word only; "other" for other words.
        stored: vectors of the text that `embedder` computed, in place of embedding it.

    Returns:
        For each query and layer, the neighbors, nearest first.

    Raises:
        ValueError: an argument is out of range, or `stored` is of another biLM or lacks a sentence.

    Source: Peters et al. 2018, table 4.
    """
    check_all_layers(embedder)
    if words not in ("any", "same", "other"):
        raise ValueError(f"`words` must be any, same or other. Received: {words!r}")
    layers = list(range(1, embedder.num_layers) if layers is None else layers)
    for layer in layers:
        check_layers(layer, embedder.num_layers)
    if words == "same" and 0 in layers:
        raise ValueError("In layer 0, all occurrences of a word have the same vector.")
    sizes = [(source.num_layers, source.dim) for source in (embedder, stored or embedder)]
    if sizes[0] != sizes[1]:
        raise ValueError(
            f"{stored.path} has {sizes[1][0]} layers of width {sizes[1][1]}, and the biLM "
            f"{sizes[0][0]} of width {sizes[0][1]}. Embed the text with this biLM and all layers."
        )
    if stored is not None and sentences:
        first = [next(iter(sentences)).split(" ")]
        (own,), (other,) = embedder.embed(first), stored.embed(first)
        if np.abs(own - other).max() > _MAX_DIFFERENCE * np.abs(own).max():
            raise ValueError(f"{stored.path} has other vectors than this biLM computes.")
    vectors = _query_vectors(embedder, queries)[:, layers]
    best: list[dict[int, dict]] = [{layer: {} for layer in layers} for _ in queries]
    num_tokens = sum(sentence.count(" ") + 1 for sentence in sentences)
    arrays = (stored or embedder).embed(sentence.split(" ") for sentence in sentences)
    rows = zip(sentences.items(), arrays, strict=True)
    with progress(num_tokens, "comparing", "tokens") as meter:
        while block := read_ahead(rows, _TOKENS_PER_BLOCK, lambda row: row[1].shape[1]):
            near = [
                Occurrence(tokens, position, *place)
                for (sentence, place), _ in block
                for tokens in [sentence.split(" ")]
                for position in range(len(tokens))
            ]
            # (layer, token, feature)
            units = unit_vectors(np.concatenate([array[layers] for _, array in block], axis=1))
            for query, own, of_query in zip(queries, vectors, best, strict=True):
                is_other = np.array([one.token != query.token for one in near])
                is_outside = np.array([one.tokens != list(query.tokens) for one in near])
                is_wanted = {"any": True, "same": ~is_other, "other": is_other}[words]
                for layer, unit, vector in zip(layers, units, own, strict=True):
                    is_allowed = is_outside & is_wanted & (is_other if layer == 0 else True)
                    cosines = np.where(is_allowed, unit @ vector, -np.inf)
                    of_query[layer] = _merged(of_query[layer], near, cosines, top_n, layer == 0)
            meter.update(len(near))
    return [
        {layer: list(nearest.values()) for layer, nearest in of_query.items()} for of_query in best
    ]


def _query_vectors(embedder: Embedder, queries: Sequence[Occurrence]) -> np.ndarray:
    """Embeds tokens in context: unit vectors (query, layer, feature)."""
    arrays = embedder.embed([query.tokens for query in queries])
    vectors = [array[:, query.position] for query, array in zip(queries, arrays, strict=True)]
    return unit_vectors(np.reshape(vectors, (-1, embedder.num_layers, embedder.dim)))


def _merged(
    best: dict, occurrences: Sequence[Occurrence], cosines: np.ndarray, top_n: int, by_word: bool
) -> dict:
    """The `top_n` nearest of earlier neighbors and of further tokens, with their keys.

    At most one of each sentence, or of each word.
    """
    found = dict(best)
    for place in np.argsort(-cosines, kind="stable"):
        if len(found) == len(best) + top_n or cosines[place] == -np.inf:
            break
        near = occurrences[place]._replace(similarity=float(cosines[place]))
        found.setdefault(near.token if by_word else tuple(near.tokens), near)
    return dict(sorted(found.items(), key=lambda pair: -pair[1].similarity)[:top_n])


def visible(text: str) -> str:
    r"""Replaces invisible characters by escapes such as `\t`, `\n`, `\x85` and `\udcff`.

    Joiners, as in Persian and in emoji, are kept.
    """
    return "".join(
        character.encode("unicode_escape").decode()
        if unicodedata.category(character) in _INVISIBLE
        else character
        for character in text
    )


def in_context(tokens: Sequence[str], position: int, width: int = 8) -> str:
    """A token in bold, with up to `width` tokens on each side, for a cell of a Markdown table."""
    first, end = max(0, position - width), position + width + 1
    words = [*tokens[first:position], f"**{tokens[position]}**", *tokens[position + 1 : end]]
    cut = " ".join(["…"] * (first > 0) + words + ["…"] * (end < len(tokens)))
    return visible(cut).replace("|", "\\|")
