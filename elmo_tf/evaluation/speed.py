"""The speed of a biLM on this machine, beside that of plain matrix products."""

import collections
import math
import os
import random
import statistics
import string
import time
from collections.abc import Callable, Sequence

import tensorflow as tf

from elmo_tf.embedding.embedder import Embedder
from elmo_tf.models.bilm import BiLM
from elmo_tf.processors import PRECISIONS, num_cores, usable_precision
from elmo_tf.text.counting import KnownText

_PRODUCT = 2048  # rows and columns of the matrices
_SENTENCE, _DOCUMENT = 20, 2000  # tokens
_SINGLE_SENTENCES = 30


def measure_speed(
    source: str | os.PathLike, num_turns: int = 3, tokens_per_turn: int = 10_000
) -> dict[str, dict[str, float]]:
    """Measures a biLM on made-up sentences of lowercase letters.

    Args:
        source: the path or name of a model; the words of a `BiLM` would not be cached.
        num_turns: int >= 1. Number of times each precision is measured, in alternation.
        tokens_per_turn: int >= 1. Number of tokens of the sentences of a turn.

    Returns:
        For "float32", and "bfloat16" if this machine has instructions for it, the medians of:
        "product_gflops", 10⁹ operations per second of products of 2,048 × 2,048 matrices;
        "words_per_second", new distinct words that the token encoder encodes; "tokens_per_second",
        of sentences of 20 tokens whose words are cached, all layers; "share", the rate of the
        LSTMs' products for these sentences, as a share of "product_gflops";
        "document_tokens_per_second", of one document of 2,000 tokens; and "milliseconds", of one
        sentence of 20 tokens.

    Raises:
        FileNotFoundError, ValueError: the model cannot be read.
    """
    rng = random.Random(0)
    # One of all layers that caches words, and one that encodes the words of each call.
    pairs: dict[str, tuple[Embedder, Embedder]] = {}
    for name in filter(lambda name: usable_precision(name) == name, PRECISIONS):
        embedder = Embedder(source, "all", precision=name)
        pairs[name] = embedder, Embedder(embedder.bilm, 0, precision=name)
        for each in pairs[name]:
            each.known_text = KnownText()  # made-up words are not reported
    measured: dict[str, list[dict[str, float]]] = {name: [] for name in pairs}
    for turn in range(num_turns + 1):
        # Distinct, also from those of other turns.
        numbers = range(turn * _DOCUMENT, (turn + 1) * _DOCUMENT)
        spellings = [(*rng.choices(string.ascii_lowercase, k=n % 7), str(n)) for n in numbers]
        words = list(map("".join, spellings))
        count = -(-tokens_per_turn // _SENTENCE)
        sentences = [rng.choices(words, k=_SENTENCE) for _ in range(count)]
        for name, pair in pairs.items():
            measured[name].append(_measure(*pair, words, sentences))
    # The first turn traces the graphs.
    return {
        name: {key: statistics.median(turn[key] for turn in turns[1:]) for key in turns[0]}
        for name, turns in measured.items()
    }


def _measure(
    embedder: Embedder, encoder: Embedder, words: list[str], sentences: Sequence[list[str]]
) -> dict[str, float]:
    product_rate = _product_rate(embedder.precision)
    new = _seconds(encoder, [words])
    _seconds(embedder, [words])  # caches the words
    document = _seconds(embedder, [words])
    rate = len(sentences) * _SENTENCE / _seconds(embedder, sentences)
    single = [_seconds(embedder, [sentence]) for sentence in sentences[:_SINGLE_SENTENCES]]
    return {
        "product_gflops": product_rate / 1e9,
        "words_per_second": _DOCUMENT / new,
        "tokens_per_second": rate,
        "share": rate * _operations_per_token(embedder.bilm) / product_rate,
        "document_tokens_per_second": _DOCUMENT / document,
        "milliseconds": 1000 * statistics.median(single),
    }


def _seconds(embedder: Embedder, sentences: Sequence[list[str]]) -> float:
    start = time.perf_counter()
    collections.deque(embedder.embed(sentences), maxlen=0)
    return time.perf_counter() - start


def _product_rate(precision: str) -> float:
    """Operations per second of products of matrices, one or more on each core."""
    count = num_cores()
    matrices = tf.random.normal((count, _PRODUCT, _PRODUCT))
    matrices = tf.unstack(tf.cast(matrices, precision))
    # An operation may have a single thread.
    products: Callable = tf.function(
        lambda *each: [tf.matmul(matrix, matrix) for matrix in each], autograph=False
    )
    products(*matrices)
    start = time.perf_counter()
    products(*matrices)
    return count * 2 * _PRODUCT**3 / (time.perf_counter() - start)


def _operations_per_token(bilm: BiLM) -> int:
    """Operations of the matrix products of all LSTMs for one token."""
    weights = [weight for stack in bilm.lstm_stacks for weight in stack.weights]
    return 2 * sum(math.prod(weight.shape) for weight in weights if len(weight.shape) == 2)
