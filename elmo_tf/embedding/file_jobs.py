"""A file of sentences ─► a file of their vectors, by work that can be killed at any time."""

import collections
import contextlib
import fcntl
import functools
import itertools
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from absl import logging

from elmo_tf import __version__
from elmo_tf.embedding.outputs.formats import output_format
from elmo_tf.embedding.outputs.vector_output import UNFINISHED, OutputOptions, VectorOutput
from elmo_tf.files import atomic_file, naming_full_disk, put_in_place, synchronise
from elmo_tf.progress import progress
from elmo_tf.text.corpus import check_regular_file
from elmo_tf.text.sentence_files import Sentence, SentenceCount, count_sentences

_JOB_FILE, _LOCK_FILE = "job.json", "lock"


class GroupEmbedder(Protocol):
    """What a job needs of an `Embedder`."""

    max_token_bytes: int | None

    def embed_groups(self, sentences: Iterator, first_group: int) -> Iterator[collections.deque]:
        """See `Embedder`."""

    def settings(self) -> dict[str, Any]:
        """See `Embedder`."""


class FileJob:
    """Writes the vectors of a file's sentences, and goes on from where it was stopped.

    What is written so far is in the folder `output` + `.unfinished`, together with what it was made
    from; the output appears when it is complete. After each group of sentences that is read ahead
    together all so far is on the disk for good, and the same call goes on from there, to the same
    vectors.

    Args:
        embedder: an `Embedder`.
        input: the file that is read, for its size and time.
        read: gives its sentences from the beginning.
        reading: tells the format in which it is read.
        output: its suffix tells the format; see `output_format`.
        options: of the output.
        overwrite: whether the output may be replaced, and unfinished work on something else.

    Raises:
        FileExistsError: the output is there already, or unfinished work that does not fit, and
            `overwrite` is false; or somebody else is at work on it.
        OSError, ValueError: the input cannot be read more than once, the name of the output has
            an unknown suffix, or the format has no such option.
    """

    def __init__(
        self,
        embedder: GroupEmbedder,
        input: str | os.PathLike,
        read: Callable[[], Iterator[Sentence]],
        reading: str,
        output: str | os.PathLike,
        options: OutputOptions,
        overwrite: bool = False,
    ):
        self._format = output_format(output)
        self._format.check(options)
        self._output = Path(os.path.realpath(output))  # what a link stands for, not the link
        self._format.refuse(self._output, overwrite)
        self._embedder = embedder
        self._input = Path(input)
        check_regular_file(self._input)
        self._read, self._reading = read, reading
        self._options = options
        self._overwrite = overwrite
        self._folder = self._output.with_name(self._output.name + UNFINISHED)

    def run(self) -> SentenceCount:
        """Does the work, or what is left of it.

        Returns:
            The size of the input, and how many of its sentences are odd.
        """
        self._output.parent.mkdir(parents=True, exist_ok=True)
        with (
            naming_full_disk(self._output),
            self._locked_folder(),
            contextlib.ExitStack() as undo,
        ):
            if not (self._folder / _JOB_FILE).exists():
                undo.callback(self._remove_folder)
            count = self._count()
            output = self._format(self._folder, self._options)
            with contextlib.closing(output):
                for _ in self._write(output, count):
                    undo.pop_all()  # from here on, there is something to go on from
                self._refuse_changes()
                for path, suffix in output.finish(self._read()):
                    name = self._output.with_name(self._output.name + suffix)
                    if path is None:
                        name.unlink(missing_ok=True)
                    else:
                        put_in_place(path, name)
            synchronise(self._output.parent)  # the new names
            self._remove_folder()
        return count

    @contextlib.contextmanager
    def _locked_folder(self) -> Iterator[None]:
        """The folder of what is written so far, for nobody else; emptied if it does not fit."""
        self._folder.mkdir(exist_ok=True)
        lock = self._folder / _LOCK_FILE
        # The lock ends with the process, however that ends.
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if not _has_locked(descriptor, lock):
                raise FileExistsError(
                    f"Another process is writing {self._output} ({self._folder} is locked)."
                )
            self._format.refuse(self._output, self._overwrite)
            self._refuse_other_work()
            yield
        finally:
            os.close(descriptor)

    def _remove_folder(self) -> None:
        # First what makes it count.
        (self._folder / _JOB_FILE).unlink(missing_ok=True)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _refuse_other_work(self) -> None:
        job = self._folder / _JOB_FILE
        names = {child.name for child in self._folder.iterdir()} - {_LOCK_FILE}
        if job.exists():
            kept = json.loads(job.read_bytes())["settings"]
            others = [name for name, value in self._settings.items() if kept.get(name) != value]
            problem = "holds unfinished work that does not fit this call: other "
        else:  # killed before the job began
            others = [name for name in names if not name.startswith(f".{_JOB_FILE}.")]
            problem = "holds what is no unfinished work: "
        if not others:
            return
        if not self._overwrite:
            raise FileExistsError(
                f"{self._folder} {problem}{', '.join(others)}. Delete it, choose another output, "
                "or allow it to be replaced (overwrite=True, --overwrite)."
            )
        job.unlink(missing_ok=True)  # first what makes the rest count
        for name in names - {_JOB_FILE}:
            child = self._folder / name
            shutil.rmtree(child) if child.is_dir() else child.unlink()

    def _refuse_changes(self) -> None:
        """Looks once more at what the work began with."""
        if self._settings["input"] != self._input_state():
            raise ValueError(
                f"{self._input} has changed since its embedding began: what is in {self._folder} "
                "is of both. Begin anew (overwrite=True, --overwrite)."
            )
        self._format.refuse(self._output, self._overwrite)

    def _input_state(self) -> list[int]:
        stat = self._input.stat()
        return [stat.st_size, stat.st_mtime_ns]

    @functools.cached_property
    def _settings(self) -> dict[str, Any]:
        """All that the output depends on when the work begins, by names for people."""
        return {
            "version of elmo_tf": __version__,
            "input": self._input_state(),
            "format of the input": self._reading,
            "output options": {"format": self._format.name, **vars(self._options)},
            **self._embedder.settings(),
        }

    def _count(self) -> SentenceCount:
        """The size of the input, which is counted once."""
        job = self._folder / _JOB_FILE
        if job.exists():
            count = SentenceCount(**json.loads(job.read_bytes())["count"])
        else:
            settings = self._settings  # of before it is counted: it may change
            sentences = progress_sentences(self._read())
            count = count_sentences(sentences, self._embedder.max_token_bytes)
            content = {"settings": settings, "count": count._asdict()}
            with atomic_file(job) as part:
                part.write_text(json.dumps(content, indent=1), encoding="utf-8")
        if data_warnings := count.data_warnings(self._embedder.max_token_bytes):
            logging.warning("%s", data_warnings)
        return count

    def _write(self, output: VectorOutput, count: SentenceCount) -> Iterator[None]:
        """Writes what is missing, and gives way after each commit that came about."""
        number = output.position.get("sentences", 0)
        tokens = output.position.get("tokens", 0)
        group = output.position.get("groups", 0)
        if output.position:
            logging.info(
                "Going on after %s of %s sentences.", f"{number:,}", f"{count.sentences:,}"
            )
        pending: collections.deque[Sentence] = collections.deque()

        def token_lists() -> Iterator[list[str]]:
            for sentence in itertools.islice(self._read(), number, None):
                pending.append(sentence)
                yield sentence.tokens

        with progress(count.tokens, "embedding", "tokens", initial=tokens) as meter:
            for arrays in self._embedder.embed_groups(token_lists(), group):
                while arrays:
                    sentence = pending.popleft()
                    output.write(number, sentence, arrays.popleft())
                    number += 1
                    tokens += len(sentence.tokens)
                    meter.update(len(sentence.tokens))
                group += 1
                output.commit({"sentences": number, "tokens": tokens, "groups": group})
                if output.position:
                    yield


def _has_locked(descriptor: int, path: Path) -> bool:
    """Locks an open file, if nobody has it locked and it is still what has that path."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    # Who was quicker may have finished, and removed it.
    return path.exists() and os.path.samestat(os.fstat(descriptor), path.stat())


def progress_sentences(sentences: Iterator[Sentence]) -> Iterator[Sentence]:
    """Gives sentences on, and tells how many have been read."""
    with progress(None, "reading", "sentences") as meter:
        for sentence in sentences:
            yield sentence
            meter.update(1)
