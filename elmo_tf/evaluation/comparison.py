"""Several biLMs ─► one table of what they know, how fast they are, and how large."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from absl import logging

from elmo_tf.checkpoints.load import has_softmax, load_language_model
from elmo_tf.embedding import Embedder
from elmo_tf.evaluation.perplexity import perplexity
from elmo_tf.progress import progress
from elmo_tf.text.corpus import read_sentences

Measure = Callable[[Embedder], Mapping[str, Any]]


def compare(
    models: Mapping[str, str | os.PathLike],
    files: Sequence[Path] = (),
    measures: Mapping[str, Measure] | None = None,
    precision: str = "float32",
    num_turns: int = 3,
    tokens_per_turn: int = 10_000,
) -> dict[str, dict[str, Any]]:
    """Compares biLMs by the same text and the same tests.

    Args:
        models: what `load_bilm` takes, by the name that the results are to have.
        files: text, one tokenised sentence a line, for perplexity and speed; none for neither.
        measures: further tests, by name: each is given an `Embedder` for all layers.
        precision: of the embedding, see `Embedder`. Perplexity is measured in float32.
        num_turns: int >= 1. Turns in which each model is timed, one model after the other.
        tokens_per_turn: int >= 1. Tokens that each embeds in a turn, about, if there are as many.

    Returns:
        By model: "size", see `model_size`; "perplexity", see `held_out_perplexity`, or None;
        "tokens_per_second", one number a turn, or None; and the result of each measure.

    Raises:
        FileNotFoundError, ValueError: a model or a file cannot be read.
    """
    embedders = {
        name: Embedder(source, "all", precision=precision) for name, source in models.items()
    }
    timed = list(_first_sentences(files, (num_turns + 1) * tokens_per_turn))
    speeds = embedding_speeds(embedders, timed, num_turns)
    results = {}
    for name, embedder in embedders.items():
        logging.info("Measuring %s.", name)
        results[name] = {
            "size": model_size(embedder),
            "perplexity": held_out_perplexity(models[name], files) if files else None,
            "tokens_per_second": speeds[name] or None,
            **{kind: measure(embedder) for kind, measure in (measures or {}).items()},
        }
    return results


def model_size(embedder: Embedder) -> dict[str, int]:
    """The size of a biLM: its parameters, its layers with that of the tokens, a vector's width."""
    bilm = embedder.bilm
    return {
        "parameters": bilm.count_params(),
        "layers": bilm.config.lstm.num_layers + 1,
        "dim": embedder.dim,
    }


def held_out_perplexity(
    source: str | os.PathLike, files: Sequence[Path]
) -> dict[str, float | int] | None:
    """Perplexity of text, with the size of the vocabulary, on which it depends.

    Returns:
        What `perplexity` does, and "vocabulary" (its size); None for a model without a softmax,
        which gives no probabilities.
    """
    if not has_softmax(source):
        return None
    model = load_language_model(source)
    return {**perplexity(model, files), "vocabulary": len(model.vocabulary)}


def embedding_speeds(
    embedders: Mapping[str, Embedder], sentences: Sequence[list[str]], num_turns: int
) -> dict[str, list[float]]:
    """Times several embedders in turns, each turn on sentences that none of them has seen.

    Args:
        embedders: by name.
        sentences: lists of tokens, dealt out to the turns.
        num_turns: int >= 1. A turn before them, which traces and fills caches, is not counted.

    Returns:
        Tokens per second of each turn, by embedder; fewer turns if there are too few sentences.
    """
    speeds: dict[str, list[float]] = {name: [] for name in embedders}
    parts = [sentences[start :: num_turns + 1] for start in range(num_turns + 1)]
    with progress(len(embedders) * sum(map(len, sentences)), "timing", "tokens") as meter:
        for number, part in enumerate(filter(None, parts)):
            num_tokens = sum(map(len, part))
            for name, embedder in embedders.items():
                start = time.perf_counter()
                for _ in embedder.embed(part):
                    pass
                if number:
                    speeds[name].append(num_tokens / (time.perf_counter() - start))
                meter.update(num_tokens)
    return speeds


def _first_sentences(files: Sequence[Path], num_tokens: int) -> Iterator[list[str]]:
    """Those of a text that have so many tokens together, or all of it."""
    for sentence in read_sentences(files):
        if num_tokens <= 0:
            return
        num_tokens -= len(sentence)
        yield sentence
