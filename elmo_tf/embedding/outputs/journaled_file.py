"""A file that any kill leaves as its last commit did, however it was being written."""

import contextlib
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from elmo_tf.files import atomic_file, synchronise

_PAGE = 4096
_RECORD_SUFFIX = ".commit"


class JournaledFile(io.RawIOBase):
    """A file to read and write anywhere, of which only commits count.

    What is written behind the end of the last commit goes to the disk at once; what would change
    the committed bytes waits in memory. A commit puts the changed pages and the new size in a
    record beside the file, in one step, and only then changes the file itself. To open it again
    cuts the file to the recorded size and puts the recorded pages in place, which does no harm if
    they are there already. So formats that keep their indexes all over the file, as HDF5 does, need
    no copy of it to be safe.

    HDF5 calls it from C, where an exception cannot be passed on and makes the next calls fail in
    other ways. So `write` and `truncate` raise no `OSError`; `checked` and `commit` raise the first
    one.

    Args:
        path: the file; made if it is not there. The record is `path` + `.commit`.

    Raises:
        OSError: the file cannot be opened.
    """

    def __init__(self, path: str | os.PathLike):
        super().__init__()
        path = Path(path)
        self._record = path.with_name(path.name + _RECORD_SUFFIX)
        self._pages: dict[int, bytearray] = {}  # of the committed part, changed since
        self._place = self._size = self._committed = 0
        self._error: OSError | None = None  # the first of a write
        self.note: dict[str, Any] = {}
        """What the last commit said; empty if there was none."""
        is_there = path.exists() and self._record.exists()
        if not is_there:  # a record without its file would be taken for that of the new one
            self._record.unlink(missing_ok=True)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        if is_there:
            self._recover()
        os.ftruncate(self._descriptor, self._size)

    @contextlib.contextmanager
    def checked(self) -> Iterator[None]:
        """A block that raises the first error of a write, and not what came of it."""
        try:
            yield
        finally:
            if self._error is not None:
                raise self._error

    def commit(self, note: dict[str, Any]) -> None:
        """Makes all that was written so far last. Returns when it is on the disk.

        Args:
            note: kept with it, in JSON.

        Raises:
            OSError: it could not be written.
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
        synchronise(self._record.parent)  # the new name too
        self._recover()
        os.ftruncate(self._descriptor, self._size)
        os.fsync(self._descriptor)
        self._pages.clear()

    def _recover(self) -> None:
        """Puts the file where the record says that it was."""
        with np.load(self._record) as record:
            self._size = self._committed = int(record["size"])
            self.note = json.loads(record["note"].item())
            pages = record["pages"].reshape(-1, _PAGE)
            # Behind what was committed before, the file holds what is newer than the pages.
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
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._size}[whence]
        self._place = base + offset
        return self._place

    def tell(self) -> int:
        return self._place

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        start = self._place
        count = max(0, min(len(view), self._size - start))
        found = os.pread(self._descriptor, count, start)
        # A file is read as zeros where nothing has been written yet.
        view[:count] = found.ljust(count, b"\0")
        for number in range(start // _PAGE, -(-(start + count) // _PAGE)):
            if number in self._pages:
                in_page, in_view = self._overlap(number, start, start + count)
                view[in_view] = self._pages[number][in_page]
        self._place += count
        return count

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        start, end = self._place, self._place + len(view)
        with self._keeping_error():
            for number in range(start // _PAGE, -(-min(end, self._committed) // _PAGE)):
                in_page, in_view = self._overlap(number, start, end)
                self._page(number)[in_page] = view[in_view]
            behind = max(start, self._committed)
            if behind < end:
                self._write_through(view[behind - start :], behind)
        self._place = end
        self._size = max(self._size, end)
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        place = self._place
        size = place if size is None else size
        # What is cut off and committed stays in the file until the next commit, behind zeros.
        self.seek(size)
        self.write(bytes(max(0, min(self._size, self._committed) - size)))
        self._place, self._size = place, size
        with self._keeping_error():
            os.ftruncate(self._descriptor, max(self._size, self._committed))
        return self._size

    def close(self) -> None:
        if not self.closed:
            os.close(self._descriptor)
            self._descriptor = -1  # its number may be that of another file from now on
        super().close()

    @contextlib.contextmanager
    def _keeping_error(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._error = self._error or error

    def _page(self, number: int) -> bytearray:
        """A page of the committed part, to be changed in memory; the last one may be shorter."""
        if number not in self._pages:
            start = number * _PAGE
            size = min(_PAGE, self._committed - start)
            self._pages[number] = bytearray(os.pread(self._descriptor, size, start))
        return self._pages[number]

    def _overlap(self, number: int, start: int, end: int) -> tuple[slice, slice]:
        """Where the committed bytes of a page and a stretch of the file meet, in each of them."""
        page_start = number * _PAGE
        first = max(start, page_start)
        last = max(first, min(end, page_start + _PAGE, self._committed))
        return slice(first - page_start, last - page_start), slice(first - start, last - start)

    def _write_through(self, view: memoryview, start: int) -> None:
        while view:
            count = os.pwrite(self._descriptor, view, start)
            view, start = view[count:], start + count
