"""All layers of a biLM ─► the vectors of an `Embedder`, of its sentences and raw texts."""

import itertools
import math
import numbers
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from elmo_tf.checkpoints.load import load_bilm
from elmo_tf.embedding import LAYERS
from elmo_tf.layers.scalar_mix import ScalarMix
from elmo_tf.models.bilm import BiLM
from elmo_tf.models.copies import copied_bilm
from elmo_tf.models.elmo import Elmo
from elmo_tf.processors import PRECISIONS
from elmo_tf.text.tokenizers import Token, Tokenizer, tokenized


def check_layers(layers: Any, num_layers: float = math.inf) -> None:
    """Raises `ValueError` unless `layers` is one of `LAYERS` or below `num_layers`, if known."""
    is_number = isinstance(layers, numbers.Integral)
    if not (0 <= layers < num_layers if is_number else layers in LAYERS):
        last = "" if num_layers == math.inf else f" to {num_layers - 1}"
        raise ValueError(
            f"`layers` must be one of {', '.join(LAYERS)}, or a number from 0{last}. "
            f"Received: {layers!r}"
        )


def chosen_layers(layers: tf.Tensor, choice: str | int, mix: ScalarMix | None) -> tf.Tensor:
    """Selects or combines the layers of unpadded sentences, see `Embedder`.

    (batch, layer, token, feature) → (batch, …, token, feature). For "concat", all layers. Without
    a `mix`, "mix" is the average, as of an untrained mix.
    """
    if choice in ("all", "concat"):
        return layers
    if choice == "average" or (choice == "mix" and mix is None):
        return tf.reduce_mean(layers, axis=1)
    if choice == "sum":
        return tf.reduce_sum(layers, axis=1)
    if choice == "mix":
        return mix(layers)
    return layers[:, -1 if choice == "top" else choice]


def check_all_layers(embedder: Any) -> None:
    """Raises `ValueError` unless an `Embedder` returns all layers."""
    if embedder.layers != "all":
        raise ValueError(f"`embedder` must return all layers. Received: {embedder.layers!r}")


def bilm_and_mix(source: Any, layers: str | int, precision: str) -> tuple[BiLM, ScalarMix | None]:
    """Returns the biLM in the given precision, and the mix for the layers "mix"; see `Embedder`."""
    if isinstance(source, BiLM | Elmo):
        bilm = getattr(source, "bilm", source)
    else:
        bilm = load_bilm(source, dtype=PRECISIONS[precision])
    mix = None
    if layers == "mix" and isinstance(source, Elmo):
        if source.num_mixes > 1:
            raise ValueError(f"The Elmo must have one mix. Received: num_mixes={source.num_mixes}")
        if source.top_only:
            raise ValueError('The Elmo has no mix (top_only=True): use layers="top".')
        mix = source.mixes[0]
    if bilm.stateful:
        raise ValueError("An Embedder needs a biLM with stateful=False.")
    if bilm.keep_boundaries:
        raise ValueError("An Embedder needs a biLM with keep_boundaries=False.")
    return with_precision(bilm, precision), mix


def with_precision(bilm: BiLM, precision: str) -> BiLM:
    """The biLM, or a copy of it if it has another precision."""
    return bilm if bilm.compute_dtype == precision else copied_bilm(bilm, PRECISIONS[precision])


def mean_over_tokens(vectors: np.ndarray) -> np.ndarray:
    """Mean over tokens: float (…, token, feature) → (…, feature); zeros without tokens."""
    return vectors.sum(axis=-2) / max(1, vectors.shape[-2])


def unit_vectors(vectors: np.ndarray) -> np.ndarray:
    """Normalizes vectors along the last axis to length 1, float32; zero vectors stay zero."""
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.ascontiguousarray(vectors / np.where(norms > 0, norms, 1), np.float32)


class EmbeddedText(NamedTuple):
    """The tokens of a text, all sentences in a row."""

    tokens: list[str]
    offsets: np.ndarray  # int (token, 2): start and end in the text, in characters
    vectors: np.ndarray  # float32 (…, token, feature), see `Embedder`


def embedded_texts(
    texts: Iterable[str | list[str]],
    tokenizer: Tokenizer,
    embed: Callable[[Iterator[list[str]]], Iterator[np.ndarray]],
) -> Iterator[EmbeddedText]:
    """See `Embedder.embed_texts`; `embed` yields the vectors of sentences (lists of tokens)."""
    # A text without tokens is one sentence without tokens.
    split, embedded = itertools.tee(_sentences(text, tokenizer) or [[]] for text in texts)
    arrays = embed([token.text for token in sentence] for text in embedded for sentence in text)
    for text in split:
        tokens = list(itertools.chain.from_iterable(text))
        places = [(token.start, token.end) for token in tokens]
        yield EmbeddedText(
            [token.text for token in tokens],
            np.array(places, np.int64).reshape(-1, 2),
            np.concatenate(list(itertools.islice(arrays, len(text))), axis=-2),
        )


def _sentences(text: str | list[str], tokenizer: Tokenizer) -> Sequence[Sequence[Token]]:
    """The sentences of a text. A list of tokens is one, with offsets as if joined by spaces."""
    if isinstance(text, str):
        return tokenized(text, tokenizer)
    starts = itertools.accumulate((len(token) + 1 for token in text), initial=0)
    return [[Token(token, at, at + len(token)) for token, at in zip(text, starts, strict=False)]]
