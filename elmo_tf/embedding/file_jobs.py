"""A file of sentences ─► a file of their vectors, by a job that can be interrupted and resumed."""

import contextlib
import itertools
import json
import operator
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from absl import logging

from elmo_tf import __version__
from elmo_tf.embedding.vector_formats import output_format
from elmo_tf.embedding.vector_output import TOKENS, UNFINISHED, OutputOptions
from elmo_tf.files import (
    atomic_file,
    locked_directory,
    naming_full_disk,
    put_in_place,
    sync_to_disk,
    write_json,
)
from elmo_tf.progress import progress, progress_over
from elmo_tf.text.input_warnings import warn_of_raw_text
from elmo_tf.text.reading import check_regular_file
from elmo_tf.text.sentence_files import FileSentence, SentenceCount, count_sentences

_JOB_FILE, _SHARDS = "job.json", "shards"
_BYTES_PER_SENTENCE = 1024  # of an output besides the vectors, about


@contextlib.contextmanager
def unfinished_folder(
    output: Path, settings: dict[str, Any], overwrite: bool = False
) -> Iterator[Path]:
    """Context manager that creates and locks the folder of the unfinished work of a job.

    The folder `output` + `.unfinished` has the settings of the job, and its shards. If the block
    raises, the finished shards stay, and a job with the same settings finds them. Otherwise the
    folder is removed at the end. Yields the folder of the shards.

    `settings` are everything that the shards depend on, for JSON; the keys are for error messages.
    `overwrite` replaces unfinished work of another job.

    Raises:
        FileExistsError: the folder has unfinished work with other settings, or other files; or
            another process writes this output.
        OSError: the folder is not writable, or the disk is full.
    """
    folder = output.with_name(output.name + UNFINISHED)
    shards, job_file = folder / _SHARDS, folder / _JOB_FILE
    output.parent.mkdir(parents=True, exist_ok=True)
    message = f"Another process is writing {output} ({folder} is locked)."
    with naming_full_disk(output), locked_directory(folder, message):
        if problem := why_not_resumable(folder, settings):
            if not overwrite:
                raise FileExistsError(
                    f"{folder} {problem}. Delete it, choose another output, or replace it "
                    "(overwrite=True, --overwrite)."
                )
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


def why_not_resumable(folder: Path, settings: dict[str, Any]) -> str:
    """Why a job cannot resume from a folder, for an error message; empty if it can."""
    job_file = folder / _JOB_FILE
    if job_file.exists():
        found = json.loads(job_file.read_bytes())
        settings = json.loads(json.dumps(settings))  # lists in place of tuples
        others = [name for name, value in settings.items() if found.get(name) != value]
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


class _Group(NamedTuple):
    """Sentences that are embedded together: their shard, and the index of the first one."""

    shard: Path
    first: int
    sentences: list[FileSentence]

    @property
    def num_tokens(self) -> int:
        return sum(len(sentence.tokens) for sentence in self.sentences)


class FileJob:
    """The work of `Embedder.embed_file`; see there for the arguments and errors.

    Each group of sentences that are embedded together becomes a shard. At the end, the shards are
    joined to the output. `read` returns the sentences of the input from the beginning, and
    `input_format` describes the format in which it is read.
    """

    def __init__(
        self,
        embedder: Any,
        input: str | os.PathLike,
        read: Callable[[], Iterator[FileSentence]],
        input_format: str,
        output: str | os.PathLike,
        options: OutputOptions,
        overwrite: bool = False,
    ):
        self._format = output_format(output)(options)
        self._output = Path(os.path.realpath(output))  # replaces the target of a link, not the link
        self._overwrite = overwrite
        self._format.refuse(self._output, overwrite)
        self._embedder = embedder
        self._input = Path(input)
        check_regular_file(self._input)
        self._read = read
        self._settings = {
            "version of elmo_tf": __version__,
            "input": self._input_state(),
            "format of the input": input_format,
            "output options": {"format": self._format.name, **vars(options)},
            **embedder.settings(),
        }

    def run(self) -> SentenceCount:
        """Runs or resumes the job, and returns the size of the input."""
        with unfinished_folder(self._output, self._settings, self._overwrite) as shards:
            folder, count = shards.parent, self._count()
            self._write_shards(shards, count)
            self._format.refuse(self._output, self._overwrite)
            if self._settings["input"] != self._input_state():
                raise ValueError(
                    f"{self._input} has changed since the job began: {folder} holds vectors of "
                    "both versions. Start again (overwrite=True, --overwrite)."
                )
            if self._format.doubles_size:
                # HDF5 reports a full disk late, in many errors.
                size = sum(path.stat().st_size for path in shards.iterdir())
                with tempfile.TemporaryFile(dir=folder) as file:
                    size += _BYTES_PER_SENTENCE * (count.sentences + 1)
                    os.posix_fallocate(file.fileno(), 0, size)
            groups = ((group.shard, group.sentences) for group in self._groups(shards))
            files = self._format.join(groups, folder)
            if self._embedder.tokenizer is not None:
                files[TOKENS] = self._write_tokens(folder)
            for suffix in (TOKENS, *self._format.suffixes, ""):  # the vectors last
                path = self._output.with_name(self._output.name + suffix)
                if suffix in files:
                    put_in_place(files[suffix], path)
                else:
                    path.unlink(missing_ok=True)  # of the output that is replaced
            sync_to_disk(self._output.parent)  # the new names
        return count

    def _input_state(self) -> list[int]:
        stat = self._input.stat()
        return [stat.st_size, stat.st_mtime_ns]

    def _count(self) -> SentenceCount:
        sentences = self._read()
        if self._embedder.tokenizer is None:
            sentences = warn_of_raw_text(sentences, operator.attrgetter("text"))
        sentences = progress_over(sentences, None, "reading", "sentences")
        limit = self._embedder.token_limit
        count = count_sentences(sentences, limit, self._embedder.bilm.vocabulary)
        if data_warnings := count.data_warnings(limit):
            logging.warning("%s", data_warnings)
        return count

    def _groups(self, shards: Path) -> Iterator[_Group]:
        """Yields the groups of the input; an empty one if it has no sentences."""
        sentences, first = self._read(), 0
        for index in itertools.count():
            group = self._embedder.next_group(sentences, lambda sentence: len(sentence.tokens))
            if index and not group:
                return
            yield _Group(shards / shard_name(index, self._format.shard_suffix), first, group)
            first += len(group)

    def _write_shards(self, shards: Path, count: SentenceCount) -> None:
        groups = self._groups(shards)
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
                    self._format.write_shard(
                        *(part, group.first, group.sentences),
                        self._embedder.embed_group([one.tokens for one in group.sentences]),
                    )
                meter.update(group.num_tokens)

    def _write_tokens(self, folder: Path) -> Path:
        """Writes the tokens of raw text and their places in its lines."""
        path = folder / TOKENS[1:]
        with open(path, "w", encoding="utf-8", errors="backslashreplace") as file:
            for sentence in self._read():
                starts, ends = zip(*sentence.offsets, strict=True)
                row = {"line": sentence.line, "tokens": sentence.tokens}
                row |= {"starts": starts, "ends": ends}
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
        return path
