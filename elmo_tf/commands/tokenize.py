"""The subcommand `tokenize`: raw text ─► one tokenized sentence per line."""

import collections
import functools
import itertools
import multiprocessing
import os
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Annotated, Any

from absl import logging
from cyclopts import Parameter

from elmo_tf.commands.options import Overwrite, text_sources

_CHARACTERS = 100_000  # of the lines that a process tokenizes at a time


def tokenize(
    files: Annotated[tuple[str, ...], Parameter(help="raw text; .gz is decompressed; - is stdin")],
    /,
    *,
    language: str,
    output: str,
    overwrite: Overwrite = False,
) -> None:
    """Split raw text into sentences and tokens, as vocab and train read them.

    Args:
        language: ko (words), ko-morph (morphemes), ja, zh, th, xx (any language), or a language of
            spaCy's tokenizer (en, de, …).
        output: text in Unicode's normal form NFC, one tokenized sentence per line. A hidden file
            beside it records the language for vocab and train.
    """
    from elmo_tf.files import atomic_file, refuse_file
    from elmo_tf.logs import progress
    from elmo_tf.processors import num_cores
    from elmo_tf.text.batches import read_ahead
    from elmo_tf.text.counting import reported_lines
    from elmo_tf.text.reading import open_bytes
    from elmo_tf.text.tokenizers import record_tokenizer

    refuse_file(output, overwrite)
    _tokenizer(language)  # fails before the text is read
    lines = reported_lines(text_sources(files, "text"))
    parts = iter(lambda: read_ahead(lines, _CHARACTERS), [])
    counts: collections.Counter[str] = collections.Counter()
    with (
        atomic_file(output, overwrite) as part,
        open_bytes(part, "wb") as file,
        progress(None, "tokenizing", "tokens") as meter,
    ):
        for text, found in _tokenized(language, parts, num_cores()):
            if not counts["sentences"] and text.startswith(b">"):
                file.write(b" ")  # else it would look like FASTA
            file.write(text)
            counts.update(found)
            meter.update(found["tokens"])
    record_tokenizer(output, language)
    numbers = f"{counts['sentences']:,}", f"{counts['tokens']:,}"
    logging.info("%s holds %s sentences of %s tokens.", output, *numbers)


def _tokenized(
    language: str, parts: Iterable[list[str]], cores: int
) -> Iterator[tuple[bytes, dict[str, int]]]:
    """The tokenized parts in order. A text of several parts is tokenized by a process per core."""
    call = functools.partial(_tokenize_lines, language)
    first = list(itertools.islice(parts, 2))
    parts = itertools.chain(first, parts)
    if len(first) < 2 or cores == 1:
        yield from map(call, parts)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(cores, context, initializer=_end_with_parent) as pool:
        waiting = collections.deque()
        for part in parts:
            waiting.append(pool.submit(call, part))
            if len(waiting) > 2 * cores:  # a bounded part of the text is in memory
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _end_with_parent() -> None:
    """Ends a process when its parent was killed; else it would wait for further parts forever."""
    parent = multiprocessing.parent_process()
    threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()


@functools.cache
def _tokenizer(language: str) -> Any:
    from elmo_tf.processors import left_out
    from elmo_tf.text.tokenizers import LanguageTokenizer

    with left_out("tensorflow", "torch"):  # spaCy would import them
        return LanguageTokenizer(language)


def _tokenize_lines(language: str, lines: Iterable[str]) -> tuple[bytes, dict[str, int]]:
    """The sentences of lines, one per line, and what was counted."""
    from elmo_tf.text.reading import encode

    tokenizer, sentences = _tokenizer(language), []
    counts: collections.Counter[str] = collections.Counter()
    for line in lines:
        for sentence in tokenizer(line):
            sentences.append(encode(" ".join(token.text for token in sentence)) + b"\n")
            counts["tokens"] += len(sentence)
    counts["sentences"] = len(sentences)
    return b"".join(sentences), counts
