"""After a kill, a `JournaledFile` has the content of its last commit."""

import contextlib
import errno
import io
import itertools

import numpy as np
import pytest

from elmo_tf.embedding.outputs.journaled_file import JournaledFile


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file"


def reopened(path):
    """The file's content and note as a new process reads them."""
    with JournaledFile(path) as file:
        return file.read(), file.note


def test_uncommitted_writes_are_discarded(path):
    with JournaledFile(path) as file:
        file.write(b"first")
        file.commit({"step": 1})
        file.seek(0)
        file.write(b"F")
        file.seek(0, 2)
        file.write(b" second")
        assert (file.seek(0), file.read()) == (0, b"First second")

    assert reopened(path) == (b"first", {"step": 1})


def test_a_file_without_a_commit_is_empty_when_reopened(path):
    assert reopened(path) == (b"", {})
    with JournaledFile(path) as file:
        file.write(b"lost")

    assert reopened(path) == (b"", {})


def test_a_kill_after_the_record_is_written_keeps_the_commit(path, monkeypatch):
    with JournaledFile(path) as file:
        file.write(b"a" * 10_000)
        file.commit({"step": 1})
        file.seek(5000)
        file.write(b"b" * 100)
        file.seek(0, 2)
        file.write(b"c")
        monkeypatch.setattr(file, "_apply_record", _killed)
        with pytest.raises(KeyboardInterrupt):
            file.commit({"step": 2})

    assert reopened(path) == (b"a" * 5000 + b"b" * 100 + b"a" * 4900 + b"c", {"step": 2})


def test_a_kill_before_the_record_is_written_keeps_the_previous_commit(path, monkeypatch):
    with JournaledFile(path) as file:
        file.write(b"a" * 10_000)
        file.commit({"step": 1})
        file.seek(5000)
        file.write(b"b" * 10_000)
        monkeypatch.setattr("elmo_tf.files.os.replace", _killed)
        with pytest.raises(KeyboardInterrupt):
            file.commit({"step": 2})
    monkeypatch.undo()

    assert reopened(path) == (b"a" * 10_000, {"step": 1})


def test_the_first_write_error_is_raised_by_checked_and_commit(path, monkeypatch):
    with JournaledFile(path) as file:
        file.write(b"first")
        file.commit({"step": 1})
        with full_disk(monkeypatch):
            file.write(b"second")
            file.truncate(3)
        with pytest.raises(OSError, match="No space left: 1"), file.checked():
            raise ValueError("what came of it")
        with pytest.raises(OSError, match="No space left: 1"):
            file.commit({"step": 2})

    assert reopened(path) == (b"first", {"step": 1})


@contextlib.contextmanager
def full_disk(monkeypatch):
    numbers = itertools.count(1)

    def fail(*arguments):
        raise OSError(errno.ENOSPC, f"No space left: {next(numbers)}")

    with monkeypatch.context() as patch:
        for name in ("pwrite", "ftruncate"):
            patch.setattr(f"elmo_tf.embedding.outputs.journaled_file.os.{name}", fail)
        yield


def _killed(*arguments):
    raise KeyboardInterrupt


@pytest.mark.parametrize("seed", range(5))
def test_random_operations_match_a_plain_file_and_commits_survive(path, seed):
    rng = np.random.default_rng(seed)
    plain = io.BytesIO()
    file = JournaledFile(path)
    committed = b""
    for step in range(300):
        size = plain.seek(0, io.SEEK_END)
        start, length = int(rng.integers(0, size + 5000)), int(rng.integers(0, 9000))
        action = rng.integers(0, 10)
        if action < 6:
            data = rng.bytes(length)
            for one in (plain, file):
                one.seek(start)
                one.write(data)
        elif action < 8:
            for one in (plain, file):
                one.seek(start)
            assert file.read(length) == plain.read(length)
        elif action == 8:
            for one in (plain, file):
                one.truncate(max(0, size - length))
        else:
            file.commit({"step": step})
            plain.seek(0)
            committed = plain.read()
        if step % 70 == 69:
            file.close()
            file = JournaledFile(path)
            file.seek(0)
            assert file.read() == committed
            plain.seek(0)
            plain.write(committed)
            plain.truncate(len(committed))
    file.close()
