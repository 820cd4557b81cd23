import json
import os

import pytest

from elmo_tf.text import corpus, count_cache
from elmo_tf.text.corpus import count_corpus, text_files
from elmo_tf.text.count_cache import CACHE_FILE, MAX_ENTRIES, MIN_BYTES, CountCache
from elmo_tf.text.vocabulary import Vocabulary

VOCABULARY = Vocabulary.build(["a b"])
COUNT = {"sentences": 2, "tokens": 7}


@pytest.fixture(autouse=True)
def small_files_count(monkeypatch):
    monkeypatch.setattr(count_cache, "MIN_BYTES", 1)


@pytest.fixture
def write(tmp_path):
    """Writes a file, as if it were done some time ago."""

    def write_at(name, content, seconds=1_000_000_000):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
        os.utime(path, (seconds, seconds))
        return path

    return write_at


@pytest.fixture
def files(write):
    return [write("a.txt", "a b c\n"), write("sub/b.txt", "d\n")]


def load(files, vocabulary=VOCABULARY):
    return CountCache(files, vocabulary).load(tuple(COUNT))


def save(files, vocabulary=VOCABULARY, count=COUNT):
    CountCache(files, vocabulary).save(count)


def test_what_was_saved_is_loaded_in_any_order_and_from_any_folder(files, tmp_path, monkeypatch):
    save(files)

    assert (tmp_path / CACHE_FILE).is_file()
    assert load(files) == load(files[::-1]) == COUNT
    monkeypatch.chdir(tmp_path / "sub")
    assert load(["b.txt", "../a.txt"]) == COUNT


def test_a_folder_that_is_moved_keeps_its_counts(write, tmp_path):
    save([write("old/a.txt", "a")])

    (tmp_path / "old").rename(tmp_path / "new")

    assert load([tmp_path / "new" / "a.txt"]) == COUNT


@pytest.mark.parametrize(
    "change",
    [
        lambda write, files: write("a.txt", "a b c d\n"),
        lambda write, files: write("a.txt", "a b d\n", seconds=1_000_000_001),
        lambda write, files: files.pop(),
        lambda write, files: files.append(files[0]),
        lambda write, files: files.append(write("c.txt", "d\n")),
        lambda write, files: files.insert(0, files.pop(0).rename(files[0].parent / "c.txt")),
    ],
    ids=["size", "time", "one less", "one twice", "one more", "name"],
)
def test_other_files_have_no_count(write, files, change):
    save(files)

    change(write, files)

    assert load(files) is None


def test_another_vocabulary_has_no_count(files):
    save(files)

    assert load(files, Vocabulary.build(["a b c"])) is None
    assert load(files, Vocabulary.build(["ab"])) is None


def test_the_newest_counts_are_kept(files):
    vocabularies = [Vocabulary.build([f"t{i}"]) for i in range(MAX_ENTRIES + 1)]
    for vocabulary in vocabularies[:-2]:
        save(files, vocabulary)
    save(files, vocabularies[0])

    for vocabulary in vocabularies[-2:]:
        save(files, vocabulary)

    kept = [load(files, vocabulary) == COUNT for vocabulary in vocabularies]
    assert kept == [True, False] + [True] * (MAX_ENTRIES - 1)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[:-9],
        lambda text: "\0" * len(text),
        lambda text: "[]",
        lambda text: text.replace("7", '"7"'),
        lambda text: text.replace("7", "-7"),
        lambda text: text.replace("tokens", "tokenz"),
    ],
)
def test_a_damaged_cache_is_replaced(files, tmp_path, damage):
    save(files)
    text = (tmp_path / CACHE_FILE).read_text()
    (tmp_path / CACHE_FILE).write_text(damage(text))

    assert load(files) is None
    save(files)
    assert load(files) == COUNT


def test_a_folder_of_the_cache_s_name_is_no_error(files, tmp_path):
    (tmp_path / CACHE_FILE).mkdir()

    save(files)

    assert load(files) is None


def test_a_folder_marked_read_only_is_left_alone(files, tmp_path):
    tmp_path.chmod(0o555)

    save(files)

    assert sorted(os.listdir(tmp_path)) == ["a.txt", "sub"]
    tmp_path.chmod(0o755)


def test_a_full_disk_is_no_error(files, tmp_path, monkeypatch):
    def refuse(*arguments):
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)

    save(files)

    assert sorted(os.listdir(tmp_path)) == ["a.txt", "sub"]


@pytest.mark.parametrize("change", ["changed", "removed"])
def test_files_changed_while_they_were_counted_are_not_kept(files, tmp_path, write, change):
    cache = CountCache(files, VOCABULARY)
    if change == "changed":
        write("a.txt", "a b c d\n")
    else:
        files[0].unlink()

    cache.save(COUNT)

    assert not (tmp_path / CACHE_FILE).exists()


def test_files_changed_just_before_are_not_kept(files, tmp_path):
    # A second change within one tick of the file system's clock would leave no trace.
    os.utime(files[0])

    save(files)

    assert not (tmp_path / CACHE_FILE).exists()


def test_a_little_text_leaves_no_file_beside_it(files, tmp_path, monkeypatch):
    monkeypatch.setattr(count_cache, "MIN_BYTES", MIN_BYTES)

    save(files)

    assert not (tmp_path / CACHE_FILE).exists()


def test_the_root_folder_gets_no_file(monkeypatch):
    monkeypatch.setattr(count_cache, "atomic_file", lambda path: pytest.fail(f"writes {path}"))

    save(["/etc/passwd", "/usr/bin/env"])


def test_a_corpus_is_counted_once(files, monkeypatch):
    first = count_corpus(files, VOCABULARY)
    monkeypatch.setattr(corpus, "read_lines", lambda file: pytest.fail(f"reads {file}"))

    assert count_corpus(files, VOCABULARY) == first
    assert first.tokens == 4


def test_the_cache_is_no_text(files, tmp_path):
    count_corpus(files, VOCABULARY)

    assert (tmp_path / CACHE_FILE).is_file()
    assert text_files([tmp_path / "**/*"]) == files
    assert json.loads((tmp_path / CACHE_FILE).read_text())
