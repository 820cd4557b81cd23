"""Files that only grow, with a record of their committed sizes."""

import contextlib
import json
import os
from pathlib import Path
from typing import Any, BinaryIO

from elmo_tf.files import sync_to_disk, write_json

_RECORD = "commit.json"


class GrowingFiles:
    """Files to append to, with commits.

    Args:
        folder: the folder of the files and of the record. Opening truncates each file to its
            committed size, and all files to 0 if the record is missing or a file is shorter.
        *names: the names of the files.

    Raises:
        OSError: a file cannot be opened.
    """

    def __init__(self, folder: Path, *names: str):
        self._record = folder / _RECORD
        self.paths = [folder / name for name in names]
        record = self._read_record()
        self.note: dict[str, Any] = record.get("note", {})
        """The note of the last commit; empty without a commit."""
        self.files: list[BinaryIO] = []
        for path in self.paths:
            path.touch()
            file = open(path, "r+b")  # noqa: SIM115 - closed in `close`
            file.truncate(record.get(path.name, 0))
            file.seek(0, os.SEEK_END)
            self.files.append(file)

    def _read_record(self) -> dict[str, Any]:
        if not self._record.exists():
            return {}
        record = json.loads(self._record.read_bytes())
        if all(path.exists() and path.stat().st_size >= record[path.name] for path in self.paths):
            return record
        self._record.unlink()
        return {}

    def commit(self, note: dict[str, Any]) -> None:
        """Makes the current content permanent. Returns when it is on the disk.

        Args:
            note: stored with the commit, in JSON.
        """
        record: dict[str, Any] = {"note": note}
        for path, file in zip(self.paths, self.files, strict=True):
            file.flush()
            os.fsync(file.fileno())
            record[path.name] = file.seek(0, os.SEEK_END)
        write_json(self._record, record)
        sync_to_disk(self._record.parent)  # the new names
        self.note = note

    def close(self) -> None:
        """Closes the files."""
        with contextlib.ExitStack() as closing:  # closes all files even if one fails
            for file in self.files:
                closing.callback(file.close)
