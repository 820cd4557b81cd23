"""What the embedding of a file would take, from a sample of its sentences."""

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
from elmo_tf.embedding.file_jobs import progress_sentences
from elmo_tf.embedding.outputs.formats import output_format
from elmo_tf.embedding.outputs.vector_output import OutputOptions
from elmo_tf.precision import PRECISIONS, has_fast_bfloat16
from elmo_tf.text.sentence_files import Sentence, count_sentences
from elmo_tf.threads import num_cores

SAMPLE = 1000
# Seconds for which each precision is timed, at least, as far as there are sentences.
_SECONDS = 10.0
# Sentences of the sample that are written, to see how many bytes they take.
_WRITTEN = 100


def plan(
    model: str,
    read: Callable[[], Iterator[Sentence]],
    output: str | os.PathLike,
    options: OutputOptions,
    layers: str = "all",
    precision: str = "float32",
    batch_tokens: int = 4096,
) -> dict[str, Any]:
    """Counts a file's sentences, and embeds and writes some of them to see what all would take.

    Args:
        model: what `load_bilm` takes.
        read: gives the sentences from the beginning.
        output: where the vectors would go. Nothing is written there.
        options: of the output.
        layers, precision, batch_tokens: see `Embedder`.

    Returns:
        Plain numbers and strings, by names with units. Speeds and hours are of each precision that
        this processor multiplies fast. Hours are for a machine as busy as it is now.

    Raises:
        ValueError: the output's name tells no format, or the format has no such option.
    """
    kind = output_format(output)
    kind.check(options)
    embedder = Embedder(model, layers, precision, batch_tokens)
    sample: list[Sentence] = []
    sentences = _sampled(progress_sentences(read()), sample)
    count = count_sentences(sentences, embedder.max_token_bytes)
    tokens_per_second = {embedder.precision: _tokens_per_second(embedder, sample)}
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # Linux counts KiB
    bytes_per_token = _bytes_per_token(embedder, sample[:_WRITTEN], kind, options)
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


def _sampled(sentences: Iterator[Sentence], sample: list[Sentence]) -> Iterator[Sentence]:
    """Gives sentences on, and keeps some of them: each is as likely to be kept as any other."""
    draw = random.Random(0)
    for number, sentence in enumerate(sentences):
        yield sentence
        if len(sample) < SAMPLE:
            sample.append(sentence)
        elif (place := draw.randrange(number + 1)) < SAMPLE:
            sample[place] = sentence


def _tokens_per_second(embedder: Embedder, sample: list[Sentence]) -> float:
    """The speed once all is warm; zero if there is no token."""
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
    embedder: Embedder, sample: list[Sentence], kind: Any, options: OutputOptions
) -> float:
    with tempfile.TemporaryDirectory() as folder:
        output = kind(folder, options)
        tokens = 0
        for number, vectors in enumerate(embedder.embed([one.tokens for one in sample])):
            output.write(number, sample[number], vectors)
            tokens += vectors.shape[-2]
        size = 0
        for path, _ in output.finish(iter(sample)):
            if path is not None:
                files = path.iterdir() if path.is_dir() else [path]
                size += sum(file.stat().st_size for file in files)
    return size / max(tokens, 1)
