"""The work directory of a run: who may use it, whether a run resumes, its record and its log."""

import contextlib
import json
import shutil
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from elmo_tf.files import atomic_file, locked_directory, write_json
from elmo_tf.tasks.config import TaskConfig
from elmo_tf.trainers.config import PretrainConfig

LOG_FILE = "log.jsonl"


class WorkDirectory:
    """The work directory of a run, which starts there or resumes.

    The record of a run is a JSON file with its `settings` and results. Its log has one JSON object
    per step or epoch.

    Args:
        config: the settings, with `workdir`, `resume` and `overwrite`.
        results: the names of all files and directories that a run writes.
        product: the result that is not written before the first save.
        saved_record: returns the record of the last save in a directory, or None without one.
        unit: "step" or "epoch", the key of the log.
        inputs: names among `results` that may exist before, and are not deleted. Defaults to none.

    `before` is the record of the save from which this run resumes; None if it starts from the
    beginning.

    Raises:
        FileExistsError: the directory is in use, or `overwrite` would delete files of others.
    """

    def __init__(
        self,
        config: PretrainConfig | TaskConfig,
        results: Collection[str],
        product: str,
        saved_record: Callable[[Path], dict[str, Any] | None],
        unit: str,
        inputs: Collection[str] = (),
    ):
        self.path = Path(config.workdir)
        self._config = config
        self._results = {*results, config.RECORD, LOG_FILE}
        self._product = product
        self._saved_record = saved_record
        self._unit = unit
        self._inputs = set(inputs)
        self._is_writer = True
        self.before = self._checked()

    def _checked(self) -> dict[str, Any] | None:
        """Checks that the run may start or resume; returns `before`."""
        config, names = self._config, set[str]()
        if self.path.is_dir():
            names = {each.name for each in self.path.iterdir() if not each.name.startswith(".")}
        before = self._saved_record(self.path) if config.resume else None
        is_run, is_known = config.RECORD in names, names <= self._results
        if before is not None or names <= self._inputs:
            return before
        if config.overwrite:
            if names & self._results - self._inputs and not is_run:
                raise FileExistsError(
                    f"{self.path} is not the work directory of a run: it holds "
                    f"{', '.join(sorted(names & self._results))} but no {config.RECORD}. Nothing "
                    "was deleted. Choose another --workdir."
                )
        elif is_run and not config.resume:
            raise FileExistsError(
                f"{self.path} already holds a training run. Add --resume (resume=True) to resume "
                "it, or choose another --workdir. --overwrite (overwrite=True) deletes its results."
            )
        elif not (is_run and is_known) or self._product in names:
            self.refuse(names)
        return None

    def refuse(self, names: Collection[str]) -> None:
        """Raises `FileExistsError`, because these files are not those of a run to resume."""
        raise FileExistsError(
            f"{self.path} is not empty, and holds no run to resume: it holds "
            f"{', '.join(sorted(names)[:5])}. Choose another --workdir."
        )

    def check_settings(self, settings: dict[str, Any]) -> None:
        """Raises `ValueError` if the run is resumed with other settings, see `RunSettings`."""
        if self.before is not None:
            path = self.path / self._config.RECORD
            self._config.check_resumed(settings, self.before["settings"], path)

    @contextlib.contextmanager
    def locked(self, is_writer: bool = True) -> Iterator[None]:
        """A context that creates the directory and locks it, if this process is the writer."""
        self._is_writer = is_writer
        with contextlib.ExitStack() as stack:
            if is_writer:
                message = f"Another process trains in {self.path}. Wait for it, or choose another "
                stack.enter_context(locked_directory(self.path, f"{message}--workdir."))
                # Another run may have begun and ended in the meantime.
                if (self._checked() is None) != (self.before is None):
                    raise FileExistsError(f"{message}--workdir.")
            yield

    def begin(self, record: dict[str, Any], done: int) -> None:
        """Writes the record of a run that starts after `done` steps or epochs.

        Deletes earlier results if it starts from the beginning, and later lines of the log.
        """
        if not self._is_writer:
            return
        if self.before is None:
            # The record last: without it, nothing else would be deleted.
            names = self._results - self._inputs
            for name in sorted(names, key=lambda name: name == self._config.RECORD):
                path = self.path / name
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        for name in self._results:  # temporary files of a killed run
            for part in self.path.rglob(f".{name}.*.part*"):
                part.unlink()
        self.write(record)
        log = self.path / LOG_FILE
        lines = log.read_text(encoding="utf-8").splitlines(True) if log.exists() else []
        # A killed run may leave half a line.
        lines = [one for one in lines if one.endswith("\n") and json.loads(one)[self._unit] <= done]
        with atomic_file(log) as part:
            part.write_text("".join(lines), encoding="utf-8")

    def write(self, record: dict[str, Any]) -> None:
        """Writes the record."""
        if self._is_writer:
            write_json(self.path / self._config.RECORD, record)

    def log(self, entry: dict[str, Any]) -> None:
        """Adds a line to the log."""
        if self._is_writer:
            with open(self.path / LOG_FILE, "a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")
