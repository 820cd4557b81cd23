"""Text files ─► counts of tokens and of suspicious lines. Does not import TensorFlow."""

import collections
import dataclasses
import io
import itertools
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

from elmo_tf.cores import num_cores
from elmo_tf.progress import progress
from elmo_tf.text.fasta import is_fasta
from elmo_tf.text.reading import TextSource, is_compressed, sentence_lines
from elmo_tf.text.sentence_files import suspicions

# Longer sentences are split. The cost of cutting windows grows with their length.
MAX_SENTENCE_TOKENS = 10_000
# Bytes of text that a process counts at a time. Smaller texts are counted without other processes.
_PART_BYTES = 2**22, 2**25
_LINES_AT_A_TIME = 1024
_PROGRAM = "from elmo_tf.text.counting import count_part; count_part()"

_Range = tuple[str, int, int]  # a file, the first byte of a part of it, and its end


@dataclasses.dataclass
class TextCount:
    """Counts of a text, whose sentences are those of `read_sentences`."""

    types: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    # By kind, see `suspicions`; also "cut", "empty" and "crlf".
    lines: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    sentences: int = 0
    longest: int = 0  # tokens of the longest sentence

    def add_lines(self, lines: Sequence[str]) -> None:
        """Counts more lines."""
        split = [line.split() for line in lines]
        self.types.update(itertools.chain.from_iterable(split))
        for line, tokens in zip(lines, split, strict=True):
            for kind in suspicions(line, tokens):
                self.lines[kind] += 1
            if line.endswith("\r\n"):
                self.lines["crlf"] += 1
            if not tokens:
                self.lines["empty"] += 1
            elif len(tokens) > MAX_SENTENCE_TOKENS:
                self.lines["cut"] += 1
            self.sentences += -(-len(tokens) // MAX_SENTENCE_TOKENS)
        longest = max(map(len, split), default=0)
        self.longest = max(self.longest, min(longest, MAX_SENTENCE_TOKENS))

    def add(self, other: "TextCount") -> None:
        """Adds the counts of another text."""
        self.types.update(other.types)
        self.lines.update(other.lines)
        self.sentences += other.sentences
        self.longest = max(self.longest, other.longest)


def count_text(sources: Sequence[TextSource], format: str | None = None) -> TextCount:
    """Counts the tokens and the suspicious lines of texts.

    Regular files of text, if they are large, are counted by a process per core.

    For `format` and errors, see `sentence_lines`.
    """
    with progress(None, "counting", "sentences") as meter:
        parts = list(_parts(sources, format)) if num_cores() > 1 else []
        if len(parts) > 1 and (count := _count_parts(parts, meter)) is not None:
            return count
        # After an error, the text is counted again: the message then has the number of the line.
        count = TextCount()
        for source in sources:
            lines = sentence_lines(source, format=format)
            while some := list(itertools.islice(lines, _LINES_AT_A_TIME)):
                count.add_lines(some)
                meter.update(len(some))
    return count


def _parts(sources: Sequence[TextSource], format: str | None) -> list[list[_Range]]:
    """Divides files into parts of similar size; no parts if only this process can read them."""
    for source in sources:
        is_path = isinstance(source, str | os.PathLike) and os.path.isfile(source)
        if not is_path or (is_fasta(source) if format is None else format == "fasta"):
            return []
    lowest, highest = _PART_BYTES
    part_size = min(highest, max(lowest, sum(map(os.path.getsize, sources)) // (4 * num_cores())))
    parts, size = [], part_size
    for source in sources:
        for path, start, end in _ranges(source, part_size):
            if size >= part_size:
                parts.append([])
                size = 0
            parts[-1].append((path, start, end))
            size += end - start
    return parts


def _ranges(path: str | os.PathLike, part_size: int) -> Iterator[_Range]:
    """Divides a file at line ends; a compressed one has a single range."""
    path = os.path.abspath(path)
    size, start = os.path.getsize(path), 0
    with open(path, "rb") as file:
        while start < size:
            end = size
            if not is_compressed(path):
                file.seek(start + part_size)
                file.readline()
                end = min(file.tell(), size)
            yield path, start, end
            start = end


def _count_parts(parts: list[list[_Range]], meter: Any) -> TextCount | None:
    """Counts parts by a process per core; None if one of them fails."""
    count, pool = TextCount(), ThreadPoolExecutor(num_cores())
    try:
        for call in as_completed([pool.submit(_count_by_process, part) for part in parts]):
            if (part := call.result()) is None:
                return None
            count.add(part)
            meter.update(part.sentences)
    finally:
        pool.shutdown(cancel_futures=True)
    return count


def _count_by_process(part: list[_Range]) -> TextCount | None:
    # Not by `multiprocessing`, which would import the caller's main module again.
    command = [sys.executable, "-P", "-c", _PROGRAM]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
    content = json.dumps(part).encode()
    done = subprocess.run(command, input=content, env=environment, capture_output=True, check=False)
    return None if done.returncode else pickle.loads(done.stdout)


def count_part() -> None:
    """The program of a process: counts the ranges on stdin, and writes a `TextCount` to stdout."""
    count = TextCount()
    for path, start, end in json.load(sys.stdin.buffer):
        source = path
        if not is_compressed(path):
            with open(path, "rb") as file:
                file.seek(start)
                source = io.BytesIO(file.read(end - start))
            source.name = path
        lines = sentence_lines(source, 1 if start == 0 else 2, "text")  # 1: the first of a file
        while some := list(itertools.islice(lines, _LINES_AT_A_TIME)):
            count.add_lines(some)
    sys.stdout.buffer.write(pickle.dumps(count))
