import errno
import fcntl
import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from elmo_tf import Embedder
from elmo_tf.embedding.layer_cache import LayerCache, default_cache_folder

pytestmark = pytest.mark.usefixtures("eager_module")

SENTENCES = [["the", "cat", "sat", "."], [], ["a", "dog"], ["this", "and", "that", "or", "those"]]
NUM_BYTES = 3 * 11 * 12 * 2  # layers, tokens, features


@pytest.fixture(scope="module")
def embedder(bilm):
    return Embedder(bilm)


@pytest.fixture
def cache(tmp_path):
    return LayerCache(tmp_path / "cache")


@pytest.fixture
def entries(tmp_path):
    """A function that lists the cache folder, without the lock file."""
    return lambda: sorted(path for path in (tmp_path / "cache").iterdir() if path.name != "lock")


@pytest.fixture
def embeddings(embedder, monkeypatch):
    """Counts how often sentences are embedded."""
    calls = []
    embed = Embedder.embed
    monkeypatch.setattr(
        Embedder, "embed", lambda self, sentences: calls.append(1) or embed(self, sentences)
    )
    return calls


def overwrite(path, offset, content):
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(content)


def read(cache, embedder, sentences=SENTENCES):
    """Returns the layers of all sentences, in memory."""
    with cache.layers(embedder, sentences) as layers:
        return [layers.sentence(number) for number in range(len(layers))]


def test_layers_equal_those_of_the_embedder_in_float16(cache, embedder):
    expected = [array.astype(np.float16) for array in embedder.embed(SENTENCES)]

    for _ in range(2):  # computed, then read from the cache
        with cache.layers(embedder, SENTENCES) as layers:
            assert len(layers) == 4
            assert layers.offsets.tolist() == [0, 4, 4, 6, 11]
            for number, array in enumerate(expected):
                np.testing.assert_array_equal(layers.sentence(number), array)
            for number in range(3):
                layer = layers.layer(number)
                assert isinstance(layer, np.memmap)
                np.testing.assert_array_equal(layer, np.concatenate(expected, 1)[number])


def test_each_list_of_sentences_is_computed_once(cache, embedder, embeddings):
    others = [["the", "cat", "sat", "."]], [["the", "cat"], ["sat", "."]], [["thecat", "sat", "."]]

    for _ in range(2):
        for sentences in (SENTENCES, *others):
            assert len(read(cache, embedder, sentences)) == len(sentences)

    assert len(embeddings) == 1 + len(others)


def test_layers_are_cached_separately_for_each_model_and_precision(
    cache, embedder, fresh_bilm, entries
):
    other = fresh_bilm()
    weight = other.trainable_weights[0]
    weight.assign(weight + 1)

    for one in (embedder, Embedder(other), Embedder(other, precision="bfloat16")):
        expected = [array.astype(np.float16) for array in one.embed(SENTENCES)]
        for found, array in zip(read(cache, one), expected, strict=True):
            np.testing.assert_array_equal(found, array)
    precisions = {"float32", Embedder(other, precision="bfloat16").precision}
    assert len(entries()) == 1 + len(precisions)


def test_sentences_without_tokens_have_no_vectors(cache, embedder):
    with cache.layers(embedder, [[], []]) as layers:
        assert layers.layer(1).shape == (0, 12)
        assert layers.sentence(1).shape == (3, 0, 12)


@pytest.mark.parametrize(
    "damage",
    [
        lambda entry: os.truncate(entry / "layer_1.npy", 300),
        lambda entry: (entry / "layer_1.npy").write_bytes(b"no array"),
        lambda entry: overwrite(entry / "layer_1.npy", 10, b"(" * 118),
        lambda entry: (entry / "layer_2.npy").unlink(),
        lambda entry: np.save(entry / "layer_0.npy", np.zeros((11, 12), np.float32)),
        lambda entry: os.truncate(entry / "layer_0.npy", 2000),
        lambda entry: (entry / "note.json").write_text("{"),
        lambda entry: (entry / "note.json").write_text("{}"),
    ],
)
def test_a_damaged_entry_is_computed_again(cache, embedder, embeddings, entries, damage, caplog):
    expected = read(cache, embedder)
    (entry,) = entries()
    damage(entry)

    for found, array in zip(read(cache, embedder), expected, strict=True):
        np.testing.assert_array_equal(found, array)

    assert "cached layers are damaged and are computed again" in caplog.text
    assert len(embeddings) == 2
    assert entries() == [entry]


def test_the_least_recently_used_entry_is_removed_first(tmp_path, embedder, embeddings):
    cache = LayerCache(tmp_path / "cache", max_bytes=3 * (12 * 24 * 3 + 500))
    one, two, three, four = ([[name] * 12] for name in "abcd")
    for sentences in (one, two, three, one):
        read(cache, embedder, sentences)
        time.sleep(0.01)  # file timestamps are coarse
    read(cache, embedder, four)
    assert len(embeddings) == 4

    for sentences in (one, three, four):
        read(cache, embedder, sentences)
    assert len(embeddings) == 4
    read(cache, embedder, two)
    assert len(embeddings) == 5


def test_the_folder_never_exceeds_max_bytes(tmp_path, embedder, monkeypatch):
    def zeros(self, sentences):
        return (np.zeros((3, len(tokens), 12), np.float32) for tokens in sentences)

    monkeypatch.setattr(Embedder, "embed", zeros)
    cache = LayerCache(tmp_path / "cache", max_bytes=5000)
    for length in range(1, 20):
        read(cache, embedder, [["a"] * length])

        files = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
        assert sum(path.stat().st_size for path in files) <= 5000


def test_only_cache_entries_are_removed_from_the_folder(tmp_path, embedder, entries):
    user_folders = [tmp_path / "cache" / name for name in ("mine", "0" * 64, f"{'1' * 64}.part")]
    for folder in user_folders:
        folder.mkdir(parents=True)
        (folder / "thesis.tex").write_text("x" * 5000)
    cache = LayerCache(tmp_path / "cache", max_bytes=NUM_BYTES + 1000)

    read(cache, embedder)
    read(cache, embedder, SENTENCES[::-1])

    assert all((folder / "thesis.tex").exists() for folder in user_folders)
    assert len(entries()) == len(user_folders) + 1


def test_open_layers_stay_readable_after_their_entry_is_removed(tmp_path, embedder, entries):
    cache = LayerCache(tmp_path / "cache", max_bytes=NUM_BYTES + 1000)
    expected = read(cache, embedder)

    with cache.layers(embedder, SENTENCES) as layers:
        read(cache, embedder, SENTENCES[::-1])

        assert len(entries()) == 1
        for number, array in enumerate(expected):
            np.testing.assert_array_equal(layers.sentence(number), array)
        np.testing.assert_array_equal(layers.layer(2), np.concatenate(expected, 1)[2])


def test_layers_larger_than_the_cache_are_computed_but_not_stored(
    tmp_path, embedder, embeddings, entries, caplog
):
    small = LayerCache(tmp_path / "cache", max_bytes=NUM_BYTES - 1)
    expected = list(embedder.embed(SENTENCES))

    for _ in range(2):
        for found, array in zip(read(small, embedder), expected, strict=True):
            np.testing.assert_array_equal(found, array.astype(np.float16))
        assert entries() == []

    assert len(embeddings) == 3
    assert "more than the cache size" in caplog.text


def test_a_cache_of_zero_bytes_leaves_no_files(tmp_path, embedder, embeddings, monkeypatch, caplog):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    cache = LayerCache(tmp_path / "cache", max_bytes=0)

    read(cache, embedder)
    read(cache, embedder)

    assert len(embeddings) == 2
    assert list(tmp_path.iterdir()) == []
    assert not caplog.records


def test_threads_with_the_same_sentences_compute_the_layers_once(
    cache, embedder, embeddings, entries
):
    found = {}
    threads = [
        threading.Thread(target=lambda n=n: found.update({n: read(cache, embedder)}))
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(embeddings) == 1
    assert len(found) == 4
    for arrays in found.values():
        for array, expected in zip(arrays, found[0], strict=True):
            np.testing.assert_array_equal(array, expected)
    assert len(entries()) == 1


def test_a_failure_leaves_no_entry(cache, embedder, entries, monkeypatch):
    def fail(self, sentences):
        yield np.zeros((3, 4, 12), np.float32)
        raise RuntimeError("the machine burns")

    with monkeypatch.context() as patch:
        patch.setattr(Embedder, "embed", fail)
        with pytest.raises(RuntimeError, match="the machine burns"):
            read(cache, embedder)

    assert entries() == []
    np.testing.assert_allclose(
        read(cache, embedder)[2], list(embedder.embed(SENTENCES))[2], atol=1e-3
    )


def test_partial_entries_of_killed_processes_are_removed_and_not_read(cache, embedder, entries):
    expected = read(cache, embedder)
    (entry,) = entries()
    part = entry.with_name(f"{entry.name}.part")
    entry.rename(part)
    os.truncate(part / "layer_1.npy", 300)

    with open(part / "lock", "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        read(cache, embedder, [["other", "sentences"]])
        assert part in entries()  # its process still runs
    read(cache, embedder, [["and", "others"]])

    assert part not in entries()
    for found, array in zip(read(cache, embedder), expected, strict=True):
        np.testing.assert_array_equal(found, array)


def test_values_too_large_for_float16_are_clipped_and_logged(cache, embedder, monkeypatch, caplog):
    array = np.full((3, 2, 12), 1.5, np.float32)
    array[1, 0, :5] = [7e4, -1e5, 65_504, 3e38, -65_504]
    monkeypatch.setattr(Embedder, "embed", lambda self, sentences: iter([array]))

    for _ in range(2):
        caplog.clear()
        (found,) = read(cache, embedder, [["a", "b"]])

        np.testing.assert_array_equal(
            found[1, 0, :6], np.float16([65_504, -65_504, 65_504, 65_504, -65_504, 1.5])
        )
        assert "3 values of the layers are too large for float16" in caplog.text


def test_non_finite_values_raise_an_error(cache, embedder, monkeypatch, entries):
    array = np.zeros((3, 2, 12), np.float32)
    monkeypatch.setattr(Embedder, "embed", lambda self, sentences: iter([array]))

    for value in (np.nan, np.inf):
        array[2, 1, 3] = value
        with pytest.raises(ValueError, match="Vectors of sentence 0 are not finite"):
            read(cache, embedder, [["a", "b"]])
        assert entries() == []


def test_insufficient_disk_space_is_reported_before_the_computation(tmp_path, embedder, entries):
    endless = range(10**15)  # only its length is used

    with pytest.raises(OSError, match=r"layers take 6\.71e\+07 GiB, and .* GiB are free: .*cache"):
        read(LayerCache(tmp_path / "cache", max_bytes=1), embedder, [endless])
    assert entries() == []


def test_a_full_disk_error_names_the_cache_folder(cache, embedder, entries, monkeypatch, tmp_path):
    def fill(self, sentences):
        yield np.zeros((3, 4, 12), np.float32)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Embedder, "embed", fill)

    with pytest.raises(OSError, match=f"No space left on device: '{tmp_path}/cache'"):
        read(cache, embedder)
    assert entries() == []


def test_invalid_arguments_are_refused(cache, bilm, embedder, tmp_path):
    with pytest.raises(ValueError, match=r"`embedder` must return all layers.*Received: 'top'"):
        read(cache, Embedder(bilm, layers="top"))
    with pytest.raises(TypeError, match=r"A sentence must be a list of tokens.*'the cat'"):
        read(cache, embedder, ["the cat"])
    with pytest.raises(ValueError, match="`max_bytes` must be an integer of at least 0"):
        LayerCache(tmp_path, max_bytes=-1)


def test_the_default_folder_follows_xdg_cache_home_and_home(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert default_cache_folder() == Path("/caches/elmo_tf/layers")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert default_cache_folder() == Path("/home/me/.cache/elmo_tf/layers")


def test_without_a_home_folder_the_cache_needs_a_path_or_zero_bytes(
    monkeypatch, embedder, tmp_path
):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("os.getuid", lambda: 2**31 - 2)  # a user ID without an account

    with pytest.raises(RuntimeError, match="no home folder for the layer cache: set XDG"):
        LayerCache()
    for cache in (LayerCache(max_bytes=0), LayerCache(tmp_path)):
        assert len(read(cache, embedder)) == 4
