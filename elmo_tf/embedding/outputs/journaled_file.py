"""A random-access file that returns to its last commit after a crash."""

import contextlib
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from elmo_tf.files import atomic_file, sync_to_disk

_PAGE = 4096
_RECORD_SUFFIX = ".commit"


class JournaledFile(io.RawIOBase):
    """A random-access file with commits.

    The indexes of HDF5 are spread over the file, so a crash during a write can make the complete
    file unreadable. The usual protection, writing to a copy and renaming it, would double the disk
    space and copy the file, which may be very large, at each commit. This class copies only the
    changed pages:

    - New bytes after the committed end are written to the file at once.
    - Changes of committed bytes are kept in memory as pages until the next commit.
    - A commit first writes these pages and the new size to a record beside the file, in one atomic
      step, and then changes the file.
    - Opening the file repeats the last step: it truncates the file to the recorded size and writes
      the recorded pages. Repeating it is harmless.

    HDF5 calls this class from C, which cannot pass on Python exceptions and then fails in other
    ways. So `write` and `truncate` store the first `OSError`, and `checked` and `commit` raise it.

    Args:
        path: the file, created if it does not exist. The record is `path` + `.commit`.

    Raises:
        OSError: the file cannot be opened.
    """

    def __init__(self, path: str | os.PathLike):
        super().__init__()
        path = Path(path)
        self._record = path.with_name(path.name + _RECORD_SUFFIX)
        self._pages: dict[int, bytearray] = {}  # changed pages of the committed part
        self._position = self._size = self._committed = 0
        self._error: OSError | None = None
        self.note: dict[str, Any] = {}
        """The note of the last commit; empty without a commit."""
        exists = path.exists() and self._record.exists()
        if not exists:  # a record without its file must not be applied to the new file
            self._record.unlink(missing_ok=True)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        if exists:
            self._apply_record()
        os.ftruncate(self._descriptor, self._size)

    @contextlib.contextmanager
    def checked(self) -> Iterator[None]:
        """A context that raises the first error of a write instead of errors that it caused."""
        try:
            yield
        finally:
            if self._error is not None:
                raise self._error

    def commit(self, note: dict[str, Any]) -> None:
        """Makes the current content permanent. Returns when it is on the disk.

        Args:
            note: stored with the commit, in JSON.

        Raises:
            OSError: this write or an earlier write failed.
        """
        with self.checked():
            os.fsync(self._descriptor)
        numbers = sorted(number for number in self._pages if number * _PAGE < self._size)
        pages = b"".join(bytes(self._pages[number]).ljust(_PAGE, b"\0") for number in numbers)
        with atomic_file(self._record) as part, open(part, "wb") as file:
            np.savez(
                file,
                size=self._size,
                committed=self._committed,
                numbers=np.array(numbers, np.int64),
                pages=np.frombuffer(pages, np.uint8),
                note=json.dumps(note),
            )
        sync_to_disk(self._record.parent)  # the new name
        self._apply_record()
        os.ftruncate(self._descriptor, self._size)
        os.fsync(self._descriptor)
        self._pages.clear()

    def _apply_record(self) -> None:
        with np.load(self._record) as record:
            self._size = self._committed = int(record["size"])
            self.note = json.loads(record["note"].item())
            pages = record["pages"].reshape(-1, _PAGE)
            # Beyond the end of the previous commit, the file is newer than the pages.
            end = min(self._size, int(record["committed"]))
            for number, page in zip(record["numbers"].tolist(), pages, strict=True):
                start = number * _PAGE
                self._write_through(memoryview(page)[: max(0, end - start)], start)

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = base + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        start = self._position
        count = max(0, min(len(view), self._size - start))
        content = os.pread(self._descriptor, count, start)
        view[:count] = content.ljust(count, b"\0")  # unwritten parts are zeros
        for number in range(start // _PAGE, -(-(start + count) // _PAGE)):
            if number in self._pages:
                in_page, in_view = self._overlap(number, start, start + count)
                view[in_view] = self._pages[number][in_page]
        self._position += count
        return count

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        start, end = self._position, self._position + len(view)
        with self._storing_error():
            for number in range(start // _PAGE, -(-min(end, self._committed) // _PAGE)):
                in_page, in_view = self._overlap(number, start, end)
                self._page(number)[in_page] = view[in_view]
            new = max(start, self._committed)
            if new < end:
                self._write_through(view[new - start :], new)
        self._position = end
        self._size = max(self._size, end)
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        position = self._position
        size = position if size is None else size
        # Committed bytes beyond `size` stay in the file until the next commit, but read as zeros.
        self.seek(size)
        self.write(bytes(max(0, min(self._size, self._committed) - size)))
        self._position, self._size = position, size
        with self._storing_error():
            os.ftruncate(self._descriptor, max(self._size, self._committed))
        return self._size

    def close(self) -> None:
        if not self.closed:
            os.close(self._descriptor)
            self._descriptor = -1  # the system may reuse the number for another file
        super().close()

    @contextlib.contextmanager
    def _storing_error(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._error = self._error or error

    def _page(self, number: int) -> bytearray:
        """The committed bytes of a page, to be changed in memory; the last page may be shorter."""
        if number not in self._pages:
            start = number * _PAGE
            size = min(_PAGE, self._committed - start)
            self._pages[number] = bytearray(os.pread(self._descriptor, size, start))
        return self._pages[number]

    def _overlap(self, number: int, start: int, end: int) -> tuple[slice, slice]:
        """Slices of a page and of `start:end` that select the committed bytes in both."""
        page_start = number * _PAGE
        first = max(start, page_start)
        last = max(first, min(end, page_start + _PAGE, self._committed))
        return slice(first - page_start, last - page_start), slice(first - start, last - start)

    def _write_through(self, view: memoryview, start: int) -> None:
        while view:
            count = os.pwrite(self._descriptor, view, start)
            view, start = view[count:], start + count
