"""Estimates of the time, memory and disk space to embed a file, from a sample of its sentences."""

import os
import random
import resource
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from elmo_tf.embedding.embedder import Embedder
from elmo_tf.embedding.outputs.formats import output_format
from elmo_tf.embedding.outputs.vector_output import OutputOptions
from elmo_tf.precision import PRECISIONS, has_fast_bfloat16
from elmo_tf.progress import progress_over
from elmo_tf.text.sentence_files import FileSentence, count_sentences
from elmo_tf.threads import num_cores

SAMPLE = 1000
# Each precision is timed for this long, or until the sample ends.
_SECONDS = 10.0
# Sentences of the sample that are written to measure the size of the output.
_NUM_WRITTEN = 100


def plan(
    model: str,
    read: Callable[[], Iterator[FileSentence]],
    output: str | os.PathLike,
    options: OutputOptions,
    layers: str = "all",
    precision: str = "float32",
    batch_tokens: int = 4096,
) -> dict[str, Any]:
    """Counts the sentences of a file, and embeds and writes a sample to estimate the total.

    Args:
        model: see `load_bilm`.
        read: returns the sentences of the file from the beginning.
        output: the planned output. Nothing is written there.
        options: see `OutputOptions`.
        layers, precision, batch_tokens: see `Embedder`.

    Returns:
        Numbers and strings for JSON. `tokens_per_second` and `hours` have one value per precision
        that is fast on this processor, at the current load of the machine.

    Raises:
        ValueError: the suffix of the output is unknown, or the format does not support an option.
    """
    kind = output_format(output)
    kind.check(options)
    embedder = Embedder(model, layers, precision, batch_tokens)
    sample: list[FileSentence] = []
    sentences = _sampled(progress_over(read(), None, "reading", "sentences"), sample)
    count = count_sentences(sentences, embedder.token_limit, embedder.bilm.vocabulary)
    tokens_per_second = {embedder.precision: _tokens_per_second(embedder, sample)}
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # in KiB on Linux
    bytes_per_token = _bytes_per_token(embedder, sample[:_NUM_WRITTEN], kind, options)
    for other in PRECISIONS:
        if other not in tokens_per_second and (other == "float32" or has_fast_bfloat16()):
            rate = _tokens_per_second(Embedder(model, layers, other, batch_tokens), sample)
            tokens_per_second[other] = rate
    folder = Path(output).absolute().parent
    while not folder.exists():
        folder = folder.parent
    return {
        **count._asdict(),
        "sampled_sentences": len(sample),
        "tokens_per_second": {name: round(rate, 1) for name, rate in tokens_per_second.items()},
        "hours": {
            name: round(count.tokens / rate / 3600, 4) if rate else 0.0
            for name, rate in tokens_per_second.items()
        },
        "memory_gib": round(memory, 2),
        "output_bytes": round(count.tokens * bytes_per_token),
        "free_bytes": shutil.disk_usage(folder).free,
        "cores": num_cores(),
        "fast_bfloat16": has_fast_bfloat16(),
        "fastest_precision": max(tokens_per_second, key=tokens_per_second.__getitem__),
        "batch_tokens": batch_tokens,
    }


def _sampled(
    sentences: Iterator[FileSentence], sample: list[FileSentence]
) -> Iterator[FileSentence]:
    """Yields the sentences, and puts a uniform random sample of them into `sample`."""
    draw = random.Random(0)
    for number, sentence in enumerate(sentences):
        yield sentence
        if len(sample) < SAMPLE:
            sample.append(sentence)
        elif (place := draw.randrange(number + 1)) < SAMPLE:
            sample[place] = sentence


def _tokens_per_second(embedder: Embedder, sample: list[FileSentence]) -> float:
    """The speed after a warm-up; 0 without tokens."""
    sentences = [sentence.tokens for sentence in sample if sentence.tokens]
    if not sentences:
        return 0.0
    list(embedder.embed(sentences[: len(sentences) // 10 + 1]))
    tokens, start = 0, time.perf_counter()
    for arrays in embedder.embed_groups(iter(sentences), 1):
        tokens += sum(array.shape[-2] for array in arrays)
        if time.perf_counter() - start > _SECONDS:
            break
    return tokens / (time.perf_counter() - start)


def _bytes_per_token(
    embedder: Embedder, sample: list[FileSentence], kind: Any, options: OutputOptions
) -> float:
    with tempfile.TemporaryDirectory() as folder:
        output = kind(folder, options)
        vectors = embedder.embed([sentence.tokens for sentence in sample])
        for number, (sentence, array) in enumerate(zip(sample, vectors, strict=True)):
            output.write(number, sentence, array)
        size = 0
        for path, _ in output.finish(iter(sample)):
            if path is not None:
                files = path.iterdir() if path.is_dir() else [path]
                size += sum(file.stat().st_size for file in files)
    return size / max(sum(len(sentence.tokens) for sentence in sample), 1)
