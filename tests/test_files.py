import json
import math
import os
import stat

import pytest

from elmo_tf.files import atomic_directory, atomic_file, json_text

both = pytest.mark.parametrize("atomic", [atomic_file, atomic_directory])


def write(part, content):
    """Writes a file, or a file in a directory."""
    (part / "content" if part.is_dir() else part).write_text(content)


def content_of(path):
    return (path / "content" if path.is_dir() else path).read_text()


def known(atomic):
    return {"known": ["content"]} if atomic is atomic_directory else {}


def test_numbers_that_json_lacks_are_null():
    value = {"a": [math.inf, -math.inf, math.nan, 0.5, "Infinity"]}
    assert json.loads(json_text(value)) == {"a": [None, None, None, 0.5, "Infinity"]}


@both
def test_a_path_appears_with_default_permissions_when_the_block_ends(tmp_path, atomic):
    path, default = tmp_path / "new" / "name", tmp_path / "default"
    with atomic(path) as part:
        default.mkdir() if part.is_dir() else default.touch()
        write(part, "done")
        assert not path.exists()
        assert part.parent == path.parent
    assert content_of(path) == "done"
    assert os.listdir(path.parent) == ["name"]
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(default.stat().st_mode)


@both
def test_a_failed_block_changes_nothing(tmp_path, atomic):
    path = tmp_path / "new" / "name"

    def fail():
        with atomic(path, overwrite=True, **known(atomic)) as part:
            write(part, "half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert os.listdir(tmp_path) == []
    with atomic(path) as part:
        write(part, "old")
    with pytest.raises(KeyboardInterrupt):
        fail()
    assert os.listdir(path.parent) == ["name"]
    assert content_of(path) == "old"


def test_only_the_same_kind_of_path_is_replaced(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")

    for atomic, name, message in (
        (atomic_directory, os.getcwd(), r"cannot be replaced\. Choose a new"),
        (atomic_directory, "file", r"file exists and is not a directory\. Choose"),
        (atomic_file, "folder", "folder is not a regular file"),
        (atomic_file, "pipe", "pipe is not a regular file"),
        (atomic_file, "/dev/stdin", r"cannot be stdin \(-\)"),
    ):
        with pytest.raises(FileExistsError, match=message):
            atomic(tmp_path / name, overwrite=True).__enter__()


@both
def test_a_link_stays_and_its_target_is_replaced(tmp_path, atomic):
    target, link = tmp_path / "disk" / "target", tmp_path / "link"
    target.parent.mkdir()
    if atomic is atomic_directory:
        target.mkdir()
    link.symlink_to(target)

    for content in ("first", "second"):
        with atomic(link, overwrite=True, **known(atomic)) as part:
            assert part.parent == target.parent
            write(part, content)
        assert link.is_symlink()
        assert content_of(target) == content
    assert os.listdir(target.parent) == ["target"]

    (tmp_path / "broken").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileExistsError, match=r"broken exists\. Choose"):
        atomic_file(tmp_path / "broken", overwrite=False).__enter__()


@both
def test_a_full_disk_is_named_whatever_the_first_error_was(tmp_path, atomic):
    def write_late():
        with atomic(tmp_path / "output"):
            try:
                raise OSError("errno = 28, error message = 'No space left on device'")
            finally:
                raise RuntimeError("Disable slist on flush dest failure failed")  # of HDF5

    with pytest.raises(OSError, match=r"^Cannot write \S+/output: No space left on device\.$"):
        write_late()
    assert not any(tmp_path.iterdir())


def test_a_directory_created_meanwhile_is_not_replaced(tmp_path):
    path = tmp_path / "directory"

    def write_late():
        with atomic_directory(path) as part:
            write(part, "late")
            path.mkdir()
            write(path, "first")

    with pytest.raises(FileExistsError, match=r"directory exists\."):
        write_late()
    assert os.listdir(tmp_path) == ["directory"]
    assert content_of(path) == "first"
