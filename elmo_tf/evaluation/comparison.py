"""Comparison of several biLMs: size, speed, perplexity and further measures."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from absl import logging

from elmo_tf.checkpoints.load import has_softmax, load_language_model
from elmo_tf.embedding import Embedder
from elmo_tf.evaluation.perplexity import perplexity
from elmo_tf.evaluation.stored_vectors import VectorSource
from elmo_tf.progress import progress
from elmo_tf.text.batches import read_ahead
from elmo_tf.text.corpus import read_sentences

Measure = Callable[[Embedder | VectorSource], Mapping[str, Any]]


def compare(
    models: Mapping[str, str | os.PathLike],
    files: Sequence[Path] = (),
    measures: Mapping[str, Measure] | None = None,
    precision: str = "float32",
    num_turns: int = 3,
    tokens_per_turn: int = 10_000,
    vectors: Mapping[str, VectorSource] | None = None,
) -> dict[str, dict[str, Any]]:
    """Compares biLMs on the same text and by the same measures.

    Args:
        models: arguments of `load_bilm`, by the names used in the results.
        files: text files, one tokenized sentence per line, for perplexity and speed; without
            files, neither is measured.
        measures: further measures, by name: functions of an `Embedder` with `layers="all"`.
        precision: of the embedding, see `Embedder`. Perplexity is measured in float32.
        num_turns: int >= 1. Number of times each model is timed, alternating with the others.
        tokens_per_turn: int >= 1. Approximate number of tokens embedded per model and turn, fewer
            if the text is short.
        vectors: files of vectors by name, see `open_vectors`, to which the measures are applied
            too.

    Returns:
        For each model: "size", its numbers of parameters and layers (with layer 0), and the vector
        width; "perplexity", the result of `perplexity` and the size of the vocabulary, or None
        without a softmax; "tokens_per_second", one number per turn, or None; and the result of each
        measure.

    Raises:
        FileNotFoundError, ValueError: a model or a file cannot be read.
        ValueError: a model and a file of vectors have the same name.
    """
    if shared := sorted(set(models) & set(vectors or ())):
        raise ValueError(
            f"`models` and `vectors` must have different names. Received in both: {shared}"
        )
    embedders = {
        name: Embedder(source, "all", precision=precision) for name, source in models.items()
    }
    num_tokens = (num_turns + 1) * tokens_per_turn
    # Without the boundary that `read_ahead` adds to each sentence.
    timed = read_ahead(read_sentences(files), num_tokens, lambda tokens: len(tokens) - 1)
    speeds = embedding_speeds(embedders, timed, num_turns)
    results = {}
    for name, source in {**embedders, **(vectors or {})}.items():
        logging.info("Measuring %s.", name)
        size, measured = {"layers": source.num_layers, "dim": source.dim}, None
        if name in models:
            size = {"parameters": source.bilm.count_params(), **size}
            if files and has_softmax(models[name]):
                model = load_language_model(models[name])
                measured = {**perplexity(model, files), "vocabulary": len(model.vocabulary)}
        results[name] = {
            "size": size,
            "perplexity": measured,
            "tokens_per_second": speeds.get(name) or None,
            **{kind: measure(source) for kind, measure in (measures or {}).items()},
        }
    return results


def embedding_speeds(
    embedders: Mapping[str, Embedder], sentences: Sequence[list[str]], num_turns: int
) -> dict[str, list[float]]:
    """Times several embedders alternately, each turn on new ones of the sentences.

    A warm-up turn comes first, which is not counted. Returns for each embedder the tokens per
    second of each turn; there are fewer turns if there are not enough sentences.
    """
    speeds: dict[str, list[float]] = {name: [] for name in embedders}
    turns = [sentences[start :: num_turns + 1] for start in range(num_turns + 1)]
    with progress(len(embedders) * sum(map(len, sentences)), "timing", "tokens") as meter:
        for turn, part in enumerate(filter(None, turns)):
            num_tokens = sum(map(len, part))
            for name, embedder in embedders.items():
                start = time.perf_counter()
                for _ in embedder.embed(part):
                    pass
                if turn:
                    speeds[name].append(num_tokens / (time.perf_counter() - start))
                meter.update(num_tokens)
    return speeds
