"""A file of sentences ─► a file of their vectors, by a job that can be interrupted and resumed."""

import contextlib
import functools
import itertools
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from absl import logging

from elmo_tf import __version__
from elmo_tf.embedding.outputs.formats import output_format
from elmo_tf.embedding.outputs.vector_output import TOKENS, UNFINISHED, OutputOptions, VectorOutput
from elmo_tf.files import (
    locked_directory,
    naming_full_disk,
    put_in_place,
    sync_to_disk,
    write_json,
)
from elmo_tf.progress import progress, progress_over
from elmo_tf.text.corpus import check_regular_file
from elmo_tf.text.sentence_files import FileSentence, SentenceCount, count_sentences

_JOB_FILE = "job.json"


class FileJob:
    """The work of `Embedder.embed_file`.

    The folder `output` + `.unfinished` holds the settings of the job and the vectors written so
    far. Each group of sentences that are read ahead together ends with a commit to disk, from which
    a new job with the same arguments resumes.

    Args:
        embedder: an `Embedder`.
        input, output, overwrite: see `Embedder.embed_file`.
        read: returns the sentences of the input from the beginning.
        input_format: a description of the format in which the input is read.
        options: see `OutputOptions`.

    Raises:
        FileExistsError, OSError, ValueError: see `Embedder.embed_file`.
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
        self._format = output_format(output)
        self._format.check(options)
        self._output = Path(os.path.realpath(output))  # replaces the target of a link, not the link
        self._format.refuse(self._output, overwrite)
        self._embedder = embedder
        self._input = Path(input)
        check_regular_file(self._input)
        self._read, self._input_format = read, input_format
        self._options = options
        self._overwrite = overwrite
        self._folder = self._output.with_name(self._output.name + UNFINISHED)
        self._job_file = self._folder / _JOB_FILE

    def run(self) -> SentenceCount:
        """Runs or resumes the job, and returns the size of the input."""
        self._output.parent.mkdir(parents=True, exist_ok=True)
        with (
            naming_full_disk(self._output),
            self._locked_folder(),
            contextlib.ExitStack() as undo,
        ):
            if not self._job_file.exists():
                undo.callback(self._remove_folder)
            count = self._count()
            output = self._format(self._folder, self._options)
            with contextlib.closing(output):
                for _ in self._write(output, count):
                    undo.pop_all()  # after a commit, the job can be resumed
                self._refuse_changes()
                for path, suffix in [self._tokens(), *output.finish(self._read())]:
                    name = self._output.with_name(self._output.name + suffix)
                    if path is None:
                        name.unlink(missing_ok=True)
                    else:
                        put_in_place(path, name)
            sync_to_disk(self._output.parent)  # the new names
            self._remove_folder()
        return count

    def _tokens(self) -> tuple[Path | None, str]:
        """Writes the tokens of raw text and their places; see `VectorOutput.finish`."""
        if self._embedder.tokenizer is None:
            return None, TOKENS
        path = self._folder / TOKENS[1:]
        with open(path, "w", encoding="utf-8", errors="backslashreplace") as file:
            for sentence in self._read():
                starts, ends = zip(*sentence.offsets, strict=True)
                row = {
                    "line": sentence.line,
                    "tokens": sentence.tokens,
                    "starts": starts,
                    "ends": ends,
                }
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
        return path, TOKENS

    @contextlib.contextmanager
    def _locked_folder(self) -> Iterator[None]:
        """Creates and locks the folder, and empties it if its work cannot be resumed."""
        message = f"Another process is writing {self._output} ({self._folder} is locked)."
        with locked_directory(self._folder, message):
            self._format.refuse(self._output, self._overwrite)
            self._refuse_other_work()
            yield

    def _remove_folder(self) -> None:
        self._job_file.unlink(missing_ok=True)  # first, since without it the rest is ignored
        shutil.rmtree(self._folder, ignore_errors=True)

    def _refuse_other_work(self) -> None:
        names = {child.name for child in self._folder.iterdir()}
        if self._job_file.exists():
            found = json.loads(self._job_file.read_bytes())["settings"]
            others = [name for name, value in self._settings.items() if found.get(name) != value]
            problem = "holds unfinished work of another job, with a different "
        else:  # killed before the job file was written
            others = [name for name in names if not name.startswith(f".{_JOB_FILE}.")]
            problem = "holds files that are not unfinished work: "
        if not others:
            return
        if not self._overwrite:
            raise FileExistsError(
                f"{self._folder} {problem}{', '.join(others)}. Delete it, choose another output, "
                "or replace it (overwrite=True, --overwrite)."
            )
        self._job_file.unlink(missing_ok=True)  # first, since without it the rest is ignored
        for name in names - {_JOB_FILE}:
            child = self._folder / name
            shutil.rmtree(child) if child.is_dir() else child.unlink()

    def _refuse_changes(self) -> None:
        """Checks that input and output did not change while the job was running."""
        if self._settings["input"] != self._input_state():
            raise ValueError(
                f"{self._input} has changed since the job began: {self._folder} holds vectors of "
                "both versions. Start again (overwrite=True, --overwrite)."
            )
        self._format.refuse(self._output, self._overwrite)

    def _input_state(self) -> list[int]:
        stat = self._input.stat()
        return [stat.st_size, stat.st_mtime_ns]

    @functools.cached_property
    def _settings(self) -> dict[str, Any]:
        """Everything that the output depends on at the start, by names for error messages."""
        return {
            "version of elmo_tf": __version__,
            "input": self._input_state(),
            "format of the input": self._input_format,
            "output options": {"format": self._format.name, **vars(self._options)},
            **self._embedder.settings(),
        }

    def _count(self) -> SentenceCount:
        """Counts the sentences of the input, or reads the count of an interrupted job."""
        if self._job_file.exists():
            count = SentenceCount(**json.loads(self._job_file.read_bytes())["count"])
        else:
            settings = self._settings  # before counting, in case the input changes meanwhile
            sentences = progress_over(self._read(), None, "reading", "sentences")
            limits = self._embedder.token_limit, self._embedder.bilm.vocabulary
            count = count_sentences(sentences, *limits)
            content = {"settings": settings, "count": count._asdict()}
            write_json(self._job_file, content)
        if data_warnings := count.data_warnings(self._embedder.token_limit):
            logging.warning("%s", data_warnings)
        return count

    def _write(self, output: VectorOutput, count: SentenceCount) -> Iterator[None]:
        """Writes the missing vectors, and yields after each group once there is a commit."""
        number = output.position.get("sentences", 0)
        tokens = output.position.get("tokens", 0)
        group = output.position.get("groups", 0)
        if output.position:
            logging.info(
                "Resuming after %s of %s sentences.", f"{number:,}", f"{count.sentences:,}"
            )
        sentences, embedded = itertools.tee(itertools.islice(self._read(), number, None))
        token_lists = (sentence.tokens for sentence in embedded)
        with progress(count.tokens, "embedding", "tokens", initial=tokens) as meter:
            for arrays in self._embedder.embed_groups(token_lists, group):
                while arrays:
                    sentence = next(sentences)
                    output.write(number, sentence, arrays.popleft())
                    number += 1
                    tokens += len(sentence.tokens)
                    meter.update(len(sentence.tokens))
                group += 1
                output.commit({"sentences": number, "tokens": tokens, "groups": group})
                if output.position:
                    yield
