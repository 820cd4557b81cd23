import errno
import json
import os
import stat

import pytest

from elmo_tf.files import atomic_directory, atomic_file, refuse_file, refuse_pattern, write_json


class InterruptedWriteError(Exception):
    """Any error while a file is written."""


def test_a_file_appears_when_the_block_ends(tmp_path):
    path = tmp_path / "new" / "file.txt"

    with atomic_file(path) as part:
        part.write_text("done")
        assert not path.exists()
        assert part.parent == path.parent

    assert path.read_text() == "done"
    assert os.listdir(path.parent) == ["file.txt"]


def test_a_file_is_synced_to_disk_before_it_is_renamed(tmp_path, monkeypatch):
    events = []

    def recorded(name):
        function = getattr(os, name)

        def call(*arguments):
            if name == "fsync":
                assert os.fstat(arguments[0]).st_size == len("done")
            events.append(name)
            return function(*arguments)

        return call

    for name in ("fsync", "replace"):
        monkeypatch.setattr(os, name, recorded(name))
    with atomic_file(tmp_path / "file.txt") as part:
        part.write_text("done")

    assert events[:2] == ["fsync", "replace"]


def test_a_failed_block_keeps_the_old_file_and_no_temporary_file(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("old")

    def fail():
        with atomic_file(path) as part:
            part.write_text("half")
            raise InterruptedWriteError

    with pytest.raises(InterruptedWriteError):
        fail()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file.txt"]


@pytest.mark.parametrize("atomic", [atomic_file, atomic_directory])
def test_a_failed_block_leaves_no_new_files(tmp_path, atomic):
    def fail():
        with atomic(tmp_path / "name") as part:
            (part / "content" if part.is_dir() else part).write_text("half")
            raise InterruptedWriteError

    with pytest.raises(InterruptedWriteError):
        fail()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("atomic", [atomic_file, atomic_directory])
def test_disk_full_errors_name_the_path(tmp_path, atomic):
    def fail(*arguments):
        with atomic(tmp_path / "name"):
            raise OSError(*arguments)

    with pytest.raises(OSError, match=r"No space left on device: '.*name'$"):
        fail(errno.ENOSPC, "as a library tells it")
    with pytest.raises(OSError, match=r"as a library tells it$"):
        fail(errno.EIO, "as a library tells it")
    with pytest.raises(OSError, match=r"'another'$"):
        fail(errno.ENOSPC, "as a library tells it", "another")


def test_files_have_the_usual_permissions(tmp_path):
    (tmp_path / "usual").touch()
    (tmp_path / "folder").mkdir()

    with atomic_file(tmp_path / "file"):
        pass
    with atomic_directory(tmp_path / "directory"):
        pass

    def mode(name):
        return stat.S_IMODE((tmp_path / name).stat().st_mode)

    assert mode("file") == mode("usual")
    assert mode("directory") == mode("folder")


def test_a_file_is_replaced_unless_overwrite_is_false(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("old")

    with (
        pytest.raises(
            FileExistsError,
            match=r"file\.txt exists\. Choose another path or add --overwrite \(over",
        ),
        atomic_file(path, overwrite=False),
    ):
        pass
    assert path.read_text() == "old"
    with atomic_file(path) as part:
        part.write_text("new")
    assert path.read_text() == "new"


def test_a_file_does_not_replace_a_folder(tmp_path):
    with (
        pytest.raises(FileExistsError, match=r"Cannot write the file .*: it is a directory"),
        atomic_file(tmp_path),
    ):
        pass


def test_a_folder_appears_when_the_block_ends(tmp_path):
    path = tmp_path / "new" / "folder"

    with atomic_directory(path) as part:
        (part / "inner").mkdir()
        (part / "inner" / "file.txt").write_text("done")
        assert not path.exists()

    assert (path / "inner" / "file.txt").read_text() == "done"
    assert os.listdir(path.parent) == ["folder"]


def test_a_non_empty_folder_is_replaced_only_with_overwrite(tmp_path):
    path = tmp_path / "folder"
    path.mkdir()
    (path / "old.txt").write_text("old")

    with (
        pytest.raises(FileExistsError, match=r"folder exists\. Choose another path\.$"),
        atomic_directory(path),
    ):
        pass
    assert os.listdir(path) == ["old.txt"]
    with atomic_directory(path, overwrite=True, known=["old.txt", "other.txt"]) as part:
        (part / "new.txt").write_text("new")
    assert os.listdir(path) == ["new.txt"]
    assert os.listdir(tmp_path) == ["folder"]


def test_a_folder_with_other_files_is_never_replaced(tmp_path):
    path = tmp_path / "folder"
    path.mkdir()
    for name in ("known.txt", "letters"):
        (path / name).touch()

    with (
        pytest.raises(FileExistsError, match=r"contains other files: letters\."),
        atomic_directory(path, overwrite=True, known=["known.txt"]),
    ):
        pass
    (tmp_path / "file").touch()
    with (
        pytest.raises(FileExistsError, match=r"file exists and is not a directory\. Choose"),
        atomic_directory(tmp_path / "file", overwrite=True),
    ):
        pass
    assert sorted(os.listdir(path)) == ["known.txt", "letters"]


def test_a_path_with_wildcards_is_refused(tmp_path):
    refuse_pattern(tmp_path / "plain")
    for name in ("a[1]", "a*", "a?", "a\\b"):
        with pytest.raises(ValueError, match="as a wildcard"):
            refuse_pattern(tmp_path / name)


def test_an_empty_folder_is_replaced_without_overwrite(tmp_path):
    path = tmp_path / "folder"
    path.mkdir()

    with atomic_directory(path) as part:
        (part / "new.txt").touch()

    assert os.listdir(path) == ["new.txt"]


def test_a_failed_replacement_leaves_the_old_folder(tmp_path):
    path = tmp_path / "folder"
    path.mkdir()
    (path / "old.txt").touch()

    def fail():
        with atomic_directory(path, overwrite=True, known=["old.txt"]) as part:
            (part / "new.txt").touch()
            raise InterruptedWriteError

    with pytest.raises(InterruptedWriteError):
        fail()
    assert os.listdir(path) == ["old.txt"]
    assert os.listdir(tmp_path) == ["folder"]


def test_a_link_to_a_file_stays_and_its_target_is_replaced(tmp_path):
    target, link = tmp_path / "disk" / "file.txt", tmp_path / "link"
    link.symlink_to(target)

    for content in ("first", "second"):
        with atomic_file(link) as part:
            assert part.parent == target.parent
            part.write_text(content)
        assert link.is_symlink()
        assert target.read_text() == content


def test_a_link_to_a_directory_stays_and_its_target_is_replaced(tmp_path):
    target, link = tmp_path / "disk" / "folder", tmp_path / "link"
    target.mkdir(parents=True)
    (target / "old.txt").touch()
    link.symlink_to(target)

    with atomic_directory(link, overwrite=True, known=["old.txt"]) as part:
        assert part.parent == target.parent
        (part / "new.txt").touch()

    assert link.is_symlink()
    assert os.listdir(target) == ["new.txt"]
    assert os.listdir(target.parent) == ["folder"]


def test_a_path_that_is_not_a_regular_file_is_never_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")

    with (
        pytest.raises(FileExistsError, match="pipe: it is not a regular file"),
        atomic_file(tmp_path / "pipe"),
    ):
        pass


def test_json_keeps_invalid_bytes_of_a_path(tmp_path):
    content = {"corpus": os.fsdecode(b"caf\xe9"), "language": "français"}

    write_json(tmp_path / "record.json", content)

    text = (tmp_path / "record.json").read_text("utf-8")
    assert "français" in text
    assert json.loads(text) == content


def test_a_broken_link_counts_as_an_existing_path(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")

    with pytest.raises(FileExistsError, match=r"link exists\. Choose"):
        refuse_file(tmp_path / "link", overwrite=False)
    refuse_file(tmp_path / "link", overwrite=True)
    refuse_file(tmp_path / "nowhere", overwrite=False)


def test_a_directory_created_meanwhile_is_not_replaced(tmp_path):
    path = tmp_path / "directory"

    def write_late():
        with atomic_directory(path) as part:
            (part / "content").write_text("late")
            path.mkdir()
            (path / "content").write_text("first")

    with pytest.raises(FileExistsError, match=r"directory exists\."):
        write_late()
    assert os.listdir(tmp_path) == ["directory"]
    assert (path / "content").read_text() == "first"
