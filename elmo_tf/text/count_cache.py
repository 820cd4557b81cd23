"""What text files counted before, kept beside them in a hidden file."""

import hashlib
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from elmo_tf.files import atomic_file
from elmo_tf.text.sentences import encode
from elmo_tf.text.vocabulary import Vocabulary

# Hidden, so that no pattern such as `folder/*` takes it for text.
CACHE_FILE = ".elmo_tf_counts.json"
# Less text is counted in about half a second, which is not worth a file in someone's folder.
MIN_BYTES = 2**23
MAX_ENTRIES = 20
# File systems keep times as coarse as this: a file written later than this before it was counted
# could change once more without a trace.
_COARSEST_TIME_NS = 2_000_000_000
# To be raised when the same text is to be counted otherwise.
_VERSION = 2


class CountCache:
    """The counts of some files by a vocabulary, kept as long as neither changes.

    They stand in `.elmo_tf_counts.json`, in the deepest folder that holds all of the files, under a
    digest of the files' names in that folder, their sizes and times, and the vocabulary's tokens.
    A cache that cannot be read or written is as good as none.

    Nothing is kept of files of less than 8 MiB together, nor of those changed while they were
    counted or within two seconds before; and nothing is written to a folder that is marked
    read-only, even by a user who could, nor to the root folder.

    Args:
        files: text files.
        vocabulary: a `Vocabulary`.

    Raises:
        OSError: a file is not there.
    """

    def __init__(self, files: Sequence[str | os.PathLike], vocabulary: Vocabulary):
        self._files = sorted(os.path.abspath(file) for file in files)
        self._states = self._read_states()
        if sum(state.size for state in self._states) < MIN_BYTES:
            self._path = None
            return
        folder = os.path.commonpath([os.path.dirname(file) for file in self._files])
        self._path = Path(folder, CACHE_FILE)
        names = [os.path.relpath(file, folder) for file in self._files]
        self._key = _digest(names, self._states, vocabulary)

    def load(self, fields: Sequence[str]) -> dict[str, int] | None:
        """What was saved, if it is whole.

        Args:
            fields: names of the counts, all of which are needed.
        """
        count = self._read().get(self._key) if self._path else None
        if not isinstance(count, dict) or count.keys() != set(fields):
            return None
        if not all(type(value) is int and value >= 0 for value in count.values()):
            return None
        return count

    def save(self, count: dict[str, int]) -> None:
        """Keeps counts, with the newest of those of other files and vocabularies."""
        if not self._path:
            return
        try:
            if not (_may_hold(self._path.parent) and self._is_settled()):
                return
            counts = self._read()
            counts.pop(self._key, None)
            newest = [*counts.items(), (self._key, count)][-MAX_ENTRIES:]
            with atomic_file(self._path) as part:
                part.write_text(json.dumps(dict(newest), indent=1), encoding="utf-8")
        except OSError:
            pass  # the folder is not ours to write to, or full

    def _read(self) -> dict[str, Any]:
        try:
            counts = json.loads(self._path.read_bytes())
        except (OSError, ValueError):
            return {}
        return counts if isinstance(counts, dict) else {}

    def _is_settled(self) -> bool:
        """Whether what was counted is what the key stands for."""
        newest = max(state.time_ns for state in self._states)
        return time.time_ns() - newest > _COARSEST_TIME_NS and self._read_states() == self._states

    def _read_states(self) -> list["_State"]:
        stats = map(os.stat, self._files)
        return [_State(stat.st_size, stat.st_mtime_ns) for stat in stats]


class _State(NamedTuple):
    size: int
    time_ns: int


def _may_hold(folder: Path) -> bool:
    """Whether a folder may get a file that nobody asked for."""
    # The system lets a superuser write to a folder that nobody is to write to.
    return folder != folder.parent and bool(folder.stat().st_mode & 0o222)


def _digest(names: Sequence[str], states: Sequence[_State], vocabulary: Vocabulary) -> str:
    files = [[name, *state] for name, state in zip(names, states, strict=True)]
    digest = hashlib.sha256(json.dumps([_VERSION, files]).encode())
    for token in vocabulary.tokens:
        digest.update(encode(token) + b"\n")
    return digest.hexdigest()
