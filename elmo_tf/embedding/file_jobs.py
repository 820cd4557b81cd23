"""A file of sentences ─► a file of their vectors, by work that can be killed at any time."""

import collections
import contextlib
import fcntl
import hashlib
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
from elmo_tf.embedding.outputs.vector_output import OutputOptions, VectorOutput
from elmo_tf.files import atomic_file, put_in_place
from elmo_tf.progress import progress
from elmo_tf.text.sentence_files import Sentence, SentenceCount, count_sentences

_SUFFIX = ".unfinished"
_JOB_FILE = "job.json"


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
        output: its suffix tells the format; see `output_format`.
        options: of the output.
        overwrite: whether the output may be replaced, and unfinished work on something else.

    Raises:
        FileExistsError: the output is there already, or unfinished work that does not fit, and
            `overwrite` is false; or somebody else is at work on it.
        ValueError: the input is no file on a disk, or the format has no such option.
    """

    def __init__(
        self,
        embedder: GroupEmbedder,
        input: str | os.PathLike,
        read: Callable[[], Iterator[Sentence]],
        output: str | os.PathLike,
        options: OutputOptions,
        overwrite: bool = False,
    ):
        self._format = output_format(output)
        self._format.check(options)
        self._output = Path(output)
        self._format.refuse(self._output, overwrite)
        self._embedder = embedder
        self._input = Path(input)
        if self._input.exists() and not self._input.is_file():
            raise ValueError(
                f"{self._input} is no file on a disk: text is read more than once, which a pipe "
                "does not allow. Write it to a file first."
            )
        with open(self._input, "rb"):
            pass
        self._read = read
        self._options = options
        self._overwrite = overwrite
        self._folder = self._output.with_name(self._output.name + _SUFFIX)

    def run(self) -> SentenceCount:
        """Does the work, or what is left of it.

        Returns:
            The size of the input, and how many of its sentences are odd.
        """
        self._output.parent.mkdir(parents=True, exist_ok=True)
        with self._locked_folder(), contextlib.ExitStack() as undo:
            undo.callback(shutil.rmtree, self._folder, ignore_errors=True)
            count = self._count()
            output = self._format(self._folder, self._options)
            with contextlib.closing(output):
                if output.position:
                    undo.pop_all()
                for _ in self._write(output, count):
                    undo.pop_all()  # from here on, there is something to go on from
                for path, suffix in output.finish(self._read()):
                    put_in_place(path, self._output.with_name(self._output.name + suffix))
            shutil.rmtree(self._folder, ignore_errors=True)
        return count

    @contextlib.contextmanager
    def _locked_folder(self) -> Iterator[None]:
        """The folder of what is written so far, for nobody else; emptied if it does not fit."""
        self._folder.mkdir(exist_ok=True)
        # The lock ends with the process, however that ends.
        descriptor = os.open(self._folder, os.O_RDONLY)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise FileExistsError(
                    f"Another process is writing {self._output} ({self._folder} is locked)."
                ) from None
            self._refuse_other_work()
            yield
        finally:
            os.close(descriptor)

    def _refuse_other_work(self) -> None:
        job = self._folder / _JOB_FILE
        settings = self._settings()
        kept = json.loads(job.read_bytes())["settings"] if job.exists() else {}
        others = [name for name, value in settings.items() if kept.get(name) != value]
        if not others:
            return
        if not self._overwrite and job.exists():
            raise FileExistsError(
                f"{self._folder} holds unfinished work that does not fit this call: other "
                f"{', '.join(others)}. Delete it, choose another output, or allow it to be "
                "replaced (overwrite=True, --overwrite)."
            )
        for child in self._folder.iterdir():
            shutil.rmtree(child) if child.is_dir() else child.unlink()

    def _settings(self) -> dict[str, Any]:
        """All that the output depends on, by names for people."""
        stat = self._input.stat()
        first = list(itertools.islice(self._read(), 100))
        return {
            "version of elmo_tf": __version__,
            "input": [stat.st_size, stat.st_mtime_ns],
            "format of the input": hashlib.sha256(repr(first).encode()).hexdigest(),
            "output options": {"format": self._format.name, **vars(self._options)},
            **self._embedder.settings(),
        }

    def _count(self) -> SentenceCount:
        """The size of the input, which is counted once."""
        job = self._folder / _JOB_FILE
        if job.exists():
            count = SentenceCount(**json.loads(job.read_bytes())["count"])
        else:
            sentences = progress_sentences(self._read())
            count = count_sentences(sentences, self._embedder.max_token_bytes)
            content = {"settings": self._settings(), "count": count._asdict()}
            with atomic_file(job) as part:
                part.write_text(json.dumps(content, indent=1), encoding="utf-8")
        if oddities := count.oddities(self._embedder.max_token_bytes):
            logging.warning("%s", oddities)
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


def progress_sentences(sentences: Iterator[Sentence]) -> Iterator[Sentence]:
    """Gives sentences on, and tells how many have been read."""
    with progress(None, "reading", "sentences") as meter:
        for sentence in sentences:
            yield sentence
            meter.update(1)
