import errno
import os
import threading
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

from elmo_tf import Embedder
from elmo_tf.embedding.layer_cache import LayerCache, default_cache_folder
from nested_arrays import assert_close

pytestmark = pytest.mark.usefixtures("eager_module")

SENTENCES = [["the", "cat", "sat", "."], [], ["a", "dog"], ["this", "and", "that", "or", "those"]]
NUM_BYTES = 3 * 11 * 12 * 2  # layers, tokens, features


class Fake:
    """An `Embedder` whose vectors depend on the tokens; counts how often it embeds."""

    layers, num_layers, dim = "all", 3, 12

    def __init__(self, arrays=None):
        self.calls = 0
        self._arrays = arrays

    def settings(self):
        return {"model": "fake", "precision": "float32"}

    def embed(self, sentences):
        self.calls += 1
        if self._arrays is not None:
            yield from self._arrays
            return
        for tokens in sentences:
            values = np.array([ord(token[0]) for token in tokens], np.float32)
            yield np.arange(36).reshape(3, 1, 12) + values[:, np.newaxis]


@pytest.fixture
def fake():
    return Fake()


@pytest.fixture
def cache(tmp_path):
    return LayerCache(tmp_path / "cache")


@pytest.fixture
def entries(tmp_path):
    """A function that lists the cache folder, without lock files."""
    return lambda: sorted(path for path in (tmp_path / "cache").glob("*[!k]"))


def read(cache, embedder, sentences=SENTENCES):
    """Returns the layers of all sentences, in memory."""
    with cache.layers(embedder, sentences) as layers:
        return [layers.sentence(number) for number in range(len(layers))]


def test_layers_equal_those_of_the_embedder_in_float16(cache, bilm):
    embedder = Embedder(bilm)
    expected = [array.astype(np.float16) for array in embedder.embed(SENTENCES)]

    for _ in range(2):  # computed, then read from the cache
        with cache.layers(embedder, SENTENCES) as layers:
            assert len(layers) == 4
            assert layers.shape == (3, 11, 12)
            assert layers.offsets.tolist() == [0, 4, 4, 6, 11]
            assert_close([*map(layers.sentence, range(4))], expected)
            for number in range(3):
                layer = layers.layer(number)
                assert isinstance(layer, np.memmap)
                np.testing.assert_array_equal(layer, np.concatenate(expected, 1)[number])


def test_each_list_of_sentences_is_computed_once(cache, fake):
    others = [["the", "cat", "sat", "."]], [["the", "cat"], ["sat", "."]], [["thecat", "sat", "."]]

    for _ in range(2):
        for sentences in (SENTENCES, *others):
            assert_close(read(cache, fake, sentences), [*Fake().embed(sentences)])

    assert fake.calls == 1 + len(others)
    for name in ("model", "precision"):
        settings = {**fake.settings(), name: "other"}
        fake.settings = lambda settings=settings: settings
        read(cache, fake)
    assert fake.calls == 3 + len(others)
    assert read(cache, fake, [[]])[0].shape == (3, 0, 12)


@pytest.mark.parametrize("size", [0, 300, NUM_BYTES + 1])
def test_a_damaged_entry_is_computed_again(cache, fake, entries, size, caplog):
    expected = read(cache, fake)
    os.truncate(entries()[0], size)

    assert_close(read(cache, fake), expected)
    assert_close(read(cache, fake), expected)

    assert "layers are damaged and are computed again" in caplog.text
    assert fake.calls == 2
    assert len(entries()) == 1


def test_the_least_recently_used_entry_is_removed_first(tmp_path, fake):
    most = 3 * 72 * 12
    cache = LayerCache(tmp_path / "cache", max_bytes=most)
    one, two, three, four = ([[name] * 12] for name in "abcd")
    now = iter(range(1, 100))

    def use(sentences):
        read(cache, fake, sentences)
        files = {path: path.stat() for path in (tmp_path / "cache").iterdir()}
        (newest,) = [p for p, s in files.items() if p.suffix == ".float16" and s.st_mtime > 100]
        os.utime(newest, (next(now),) * 2)
        assert sum(state.st_size for state in files.values()) <= most

    for sentences in (one, two, three, one, four, one, three, four):
        use(sentences)
    assert fake.calls == 4
    use(two)
    assert fake.calls == 5
    for length in range(1, 20):
        use([["e"] * length])


def test_only_cache_entries_are_removed_from_the_folder(tmp_path, fake, entries):
    thesis = tmp_path / "cache" / "thesis.tex"
    thesis.parent.mkdir()
    thesis.write_text("x" * 5000)
    cache = LayerCache(tmp_path / "cache", max_bytes=NUM_BYTES)

    with cache.layers(fake, SENTENCES) as layers:
        read(cache, fake, SENTENCES[::-1])

        assert len(entries()) == 2
        assert thesis.exists()
        assert_close([*map(layers.sentence, range(4))], [*Fake().embed(SENTENCES)])


@pytest.mark.parametrize(("max_bytes", "is_warned"), [(NUM_BYTES - 1, True), (0, False)])
def test_layers_larger_than_the_cache_are_computed_but_not_stored(
    tmp_path, fake, max_bytes, is_warned, caplog, monkeypatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    cache = LayerCache(tmp_path, max_bytes)
    assert not cache.has_room(fake, SENTENCES)

    for _ in range(2):
        assert_close(read(cache, fake), [*Fake().embed(SENTENCES)])

    assert fake.calls == 2
    assert list(tmp_path.iterdir()) == []
    assert ("larger than the cache" in caplog.text) == is_warned


def test_threads_with_the_same_sentences_compute_the_layers_once(cache, fake, entries):
    found = []
    threads = [threading.Thread(target=lambda: found.append(read(cache, fake))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert fake.calls == 1
    assert_close(found, [[*Fake().embed(SENTENCES)]] * 4)
    assert len(entries()) == 1


def test_partial_entries_of_killed_processes_are_removed_and_not_read(cache, fake, entries):
    read(cache, fake)
    (entry,) = entries()
    part = entry.with_name(f"{entry.name}.part")
    entry.rename(part)

    with FileLock(entry.with_suffix(".lock")):
        read(cache, fake, [["other", "sentences"]])
        assert part in entries()  # its process still runs
    read(cache, fake, [["and", "others"]])

    assert part not in entries()
    assert_close(read(cache, fake), [*Fake().embed(SENTENCES)])


def test_values_too_large_for_float16_are_clipped_and_logged(cache, caplog):
    array = np.full((3, 2, 12), 1.5, np.float32)
    array[1, 0, :5] = [7e4, -1e5, 65_504, 3e38, -65_504]

    (found,) = read(cache, Fake([array]), [["a", "b"]])

    expected = np.float16([65_504, -65_504, 65_504, 65_504, -65_504, 1.5])
    np.testing.assert_array_equal(found[1, 0, :6], expected)
    assert "Values up to 3e+38 were clipped" in caplog.text


def full_disk():
    yield np.zeros((3, 4, 12), np.float32)
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    ("arrays", "error", "message"),
    [
        ([np.full((3, 2, 12), np.inf)], ValueError, "Vectors of sentence 0 are not finite"),
        (full_disk(), OSError, "No space left on device: '.*/cache'"),
    ],
)
def test_a_failure_leaves_no_entry(cache, fake, entries, arrays, error, message):
    with pytest.raises(error, match=message):
        read(cache, Fake(arrays))

    assert entries() == []
    assert_close(read(cache, fake), [*Fake().embed(SENTENCES)])


def test_insufficient_disk_space_is_reported_before_the_computation(tmp_path, fake, entries):
    endless = range(10**15)  # only its length is used

    with pytest.raises(OSError, match=r"(File too large|No space left on device): '.*cache'"):
        read(LayerCache(tmp_path / "cache", max_bytes=1), fake, [endless])
    assert fake.calls == 0
    assert entries() == []


def test_invalid_arguments_are_refused(cache, fake, tmp_path):
    with pytest.raises(TypeError, match=r"A sentence must be a list of tokens.*'the cat'"):
        read(cache, fake, ["the cat"])
    fake.layers = "top"
    with pytest.raises(ValueError, match=r"`embedder` must return all layers.*Received: 'top'"):
        read(cache, fake)
    with pytest.raises(ValueError, match="`max_bytes` must be an integer of at least 0"):
        LayerCache(tmp_path, max_bytes=-1)


def test_the_default_folder_follows_xdg_cache_home_and_home(monkeypatch, fake, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert default_cache_folder() == Path("/caches/elmo_tf/layers")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert default_cache_folder() == Path("/home/me/.cache/elmo_tf/layers")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("os.getuid", lambda: 2**31 - 2)  # a user ID without an account

    with pytest.raises(RuntimeError, match="no home folder for the layer cache: set XDG"):
        LayerCache()
    for cache in (LayerCache(max_bytes=0), LayerCache(tmp_path)):
        assert len(read(cache, fake)) == 4
