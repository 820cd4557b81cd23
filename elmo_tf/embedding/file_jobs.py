"""A file of sentences ─► a file of their vectors, by a job that can be interrupted and resumed."""

import contextlib
import functools
import hashlib
import itertools
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from absl import logging

from elmo_tf import __version__
from elmo_tf.embedding.vector_files import FORMATS, OutputOptions, VectorFile
from elmo_tf.files import (
    atomic_file,
    check_space,
    json_text,
    locked_directory,
    put_in_place,
    refuse_file,
    sync_to_disk,
    write_json,
)
from elmo_tf.logs import progress, progress_over
from elmo_tf.text.counting import TextCount
from elmo_tf.text.reading import check_regular_file, format_of
from elmo_tf.text.sentence_files import FileSentence, sentence_reader
from elmo_tf.text.tokenizers import LanguageTokenizer

# Added to the name of the output, for the folder of unfinished work and the tokens of raw text.
_UNFINISHED, _TOKENS = ".unfinished", ".tokens.jsonl"
_JOB_FILE, _SHARDS = "job.json", "shards"  # in the folder of unfinished work
_BYTES_PER_SENTENCE = 1024  # of an output besides the vectors, about


class _Group(NamedTuple):
    """Sentences that are embedded together: their shard, and the index of the first one."""

    shard: Path
    first: int
    sentences: list[FileSentence]

    @property
    def num_tokens(self) -> int:
        return sum(len(sentence.tokens) for sentence in self.sentences)


def embed_file(
    embedder: Any,
    input: str | os.PathLike,
    output: str | os.PathLike,
    overwrite: bool,
    options: OutputOptions,
    **reading: Any,
) -> TextCount:
    """See `Embedder.embed_file`. Each group of sentences becomes a shard, in the output's order.

    `reading` are arguments of `sentence_reader`.
    """
    input, output = Path(input), Path(os.path.realpath(output))  # of a link, replaces the target
    vector_file = _checked_output(output, options, overwrite)
    check_regular_file(input)
    read = sentence_reader(input, tokenizer=embedder.tokenizer, **reading)
    settings = {
        "version of elmo_tf": __version__,
        "input": _state(input),
        "format of the input": {**reading, "format": reading["format"] or format_of(input)},
        "output options": {"format": vector_file.name, **vars(options)},
        **embedder.settings(),
    }
    if embedder.tokenizer is not None:
        is_named = isinstance(embedder.tokenizer, LanguageTokenizer)
        settings["tokenizer"] = repr(embedder.tokenizer) if is_named else _digest(read())
    with unfinished_folder(output, settings, overwrite) as shards:
        count = _count(embedder, read())
        groups = functools.partial(_groups, embedder, read, shards, vector_file.shard_suffix)
        _write_shards(embedder, vector_file, groups(), count)
        _checked_output(output, options, overwrite)
        if settings["input"] != _state(input):
            raise ValueError(f"{input} has changed since the job began. Start with --overwrite.")
        if vector_file.shard_suffix == ".raw":  # joining the shards doubles the size
            size = sum(path.stat().st_size for path in shards.iterdir())
            check_space(shards.parent, size + _BYTES_PER_SENTENCE * (count.sentences + 1))
        joined = ((group.shard, group.sentences) for group in groups())
        vectors = vector_file.join(joined, embedder.array_shape(options.pool), shards.parent)
        tokens = output.with_name(output.name + _TOKENS)
        if embedder.tokenizer is not None:
            put_in_place(_tokens_file(read(), shards.parent / tokens.name), tokens)
        else:
            tokens.unlink(missing_ok=True)  # of the output that is replaced
        put_in_place(vectors, output)
        sync_to_disk(output.parent)  # the new names
    return count


def _checked_output(output: Path, options: OutputOptions, overwrite: bool) -> VectorFile:
    """The format of an output, chosen by its suffix. Errors: see `Embedder.embed_file`."""
    suffix = output.suffix.lower()
    if suffix not in FORMATS:
        raise ValueError(f"An output must end in {', '.join(FORMATS)}. Received: {output}")
    vector_file = FORMATS[suffix](options)
    vector_file.refuse(output, overwrite)
    # The tokens are moved first, so an interrupted job may have written them.
    is_own = os.path.isdir(f"{output}{_UNFINISHED}")
    refuse_file(f"{output}{_TOKENS}", overwrite or is_own)
    return vector_file


@contextlib.contextmanager
def unfinished_folder(
    output: Path, settings: dict[str, Any], overwrite: bool = False
) -> Iterator[Path]:
    """Context manager that locks the folder `output` + `.unfinished`, and removes it at the end.

    If the block raises, the finished shards stay, and a job with the same settings, everything that
    the shards depend on, finds them. Yields the folder of the shards. `FileExistsError` if there is
    other work, which `overwrite` replaces, or another process writes this output.
    """
    folder = output.with_name(output.name + _UNFINISHED)
    shards, job_file = folder / _SHARDS, folder / _JOB_FILE
    output.parent.mkdir(parents=True, exist_ok=True)
    message = f"Another process is writing {output} ({folder} is locked)."
    with locked_directory(folder, message):
        if problem := _why_not_resumable(folder, settings):
            if not overwrite:
                remedy = "Delete it, or replace it with --overwrite (overwrite=True)."
                raise FileExistsError(f"{folder} {problem}. {remedy}")
            _remove_children(folder)
        try:
            write_json(job_file, settings)
            shards.mkdir(exist_ok=True)
            # Incomplete files of jobs that were interrupted.
            for path in [*shards.glob(".*"), *({*folder.iterdir()} - {shards, job_file})]:
                path.unlink()
            yield shards
        except BaseException:
            if not any(shards.glob("part-*")):
                _remove_children(folder)
                folder.rmdir()
            raise
        _remove_children(folder)
        folder.rmdir()


def _why_not_resumable(folder: Path, settings: dict[str, Any]) -> str:
    """Why a job cannot resume from a folder, for an error message; empty if it can."""
    job_file = folder / _JOB_FILE
    if job_file.exists():
        found = json.loads(job_file.read_bytes())
        settings = json.loads(json_text(settings))  # as `write_json` writes them
        others = [name for name in found | settings if found.get(name) != settings.get(name)]
        problem = "holds unfinished work of another job, with a different "
    else:  # new, or the job was killed before it wrote the file
        others = [child.name for child in folder.iterdir() if not child.name.startswith(".")]
        problem = "holds files that are not unfinished work: "
    return problem + ", ".join(others) if others else ""


def _remove_children(folder: Path) -> None:
    job_file = folder / _JOB_FILE
    # The job file last: without it, the rest would not be known as unfinished work.
    for child in sorted(folder.iterdir(), key=lambda child: child == job_file):
        shutil.rmtree(child) if child.is_dir() else child.unlink()


def shard_name(index: int, suffix: str) -> str:
    """The name of a shard, by its index."""
    return f"part-{index:05d}{suffix}"


def _state(file: Path) -> list[int]:
    stat = file.stat()
    return [stat.st_size, stat.st_mtime_ns]


def _digest(sentences: Iterable[FileSentence]) -> str:
    """A digest of the tokens of sentences, which a function has split."""
    digest = hashlib.sha256()
    for sentence in sentences:
        digest.update(repr(sentence.tokens).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _count(embedder: Any, sentences: Iterator[FileSentence]) -> TextCount:
    """Counts the sentences and the suspicious ones among them, which are reported."""
    count = TextCount(embedder.known_text)
    for sentence in progress_over(sentences, None, "reading", "sentences"):
        count.add(sentence.text, sentence.tokens)
    count.report()
    return count


def _groups(
    embedder: Any, read: Callable[[], Iterator[FileSentence]], shards: Path, suffix: str
) -> Iterator[_Group]:
    """Yields the groups of the input; an empty one if it has no sentences."""
    sentences, first = read(), 0
    for index in itertools.count():
        group = embedder.next_group(sentences, lambda sentence: len(sentence.tokens))
        if index and not group:
            return
        yield _Group(shards / shard_name(index, suffix), first, group)
        first += len(group)


def _write_shards(
    embedder: Any, vector_file: VectorFile, groups: Iterator[_Group], count: TextCount
) -> None:
    """Writes the shards that do not exist yet."""
    num_done = 0
    for group in groups:
        if not group.shard.exists():
            groups = itertools.chain([group], groups)
            break
        num_done += group.num_tokens
    if num_done:
        logging.info("Resuming after %s of %s tokens.", f"{num_done:,}", f"{count.tokens:,}")
    with progress(count.tokens, "embedding", "tokens", initial=num_done) as meter:
        for group in groups:
            with atomic_file(group.shard) as part:
                # Not stored in a variable, which would keep it in memory with the next group.
                vector_file.write_shard(
                    *(part, group.first, group.sentences),
                    embedder.embed_group([sentence.tokens for sentence in group.sentences]),
                )
            meter.update(group.num_tokens)


def _tokens_file(sentences: Iterable[FileSentence], path: Path) -> Path:
    """Writes the tokens of raw text and their places in its lines."""
    with open(path, "w", encoding="utf-8", errors="backslashreplace") as file:
        for sentence in sentences:
            starts, ends = zip(*sentence.offsets, strict=True)
            row = {"line": sentence.line, "tokens": sentence.tokens, "starts": starts, "ends": ends}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    return path
