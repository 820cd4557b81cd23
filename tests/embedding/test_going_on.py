"""An interrupted `embed_file` resumes and writes the same output."""

import contextlib
import errno
import fcntl
import itertools
import os
import resource

import numpy as np
import pytest

from elmo_tf import Embedder
from vector_files import read_vectors

FORMATS = (".hdf5", ".parquet", ".npz", ".npy")
formats = pytest.mark.parametrize("suffix", FORMATS)


@pytest.fixture
def text(tmp_path):
    """300 lines of random words, some empty: six groups of the `embedder`."""
    rng = np.random.default_rng(2)
    path = tmp_path / "text.txt"
    lines = (
        " ".join(f"w{n}" for n in rng.integers(0, 900, rng.integers(0, 16))) for _ in range(300)
    )
    path.write_text("\n".join(lines))
    return path


class Interrupted:
    """An `Embedder` that is interrupted after `num_groups` groups."""

    def __init__(self, embedder, num_groups):
        self._embedder = embedder
        self._num_groups = num_groups
        self.settings = embedder.settings
        self.token_limit = embedder.token_limit
        self.bilm = embedder.bilm
        self.tokenizer = None

    def embed_groups(self, sentences, first_group):
        for number, arrays in enumerate(self._embedder.embed_groups(sentences, first_group)):
            if number == self._num_groups:
                raise KeyboardInterrupt
            yield arrays

    def embed_file(self, *arguments, **options):
        return Embedder.embed_file(self, *arguments, **options)


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    """Makes Parquet shards so small that there are several."""
    monkeypatch.setattr("elmo_tf.embedding.outputs.parquet_output._SHARD", 20_000)


def interrupt(*arguments):
    raise KeyboardInterrupt


@contextlib.contextmanager
def interrupted_at(name, replacement=interrupt):
    """A block in which `embed_file` is interrupted when it calls `name`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"elmo_tf.embedding.{name}", replacement)
        with pytest.raises(KeyboardInterrupt):
            yield


def check_vectors(output, embedder, text):
    arrays = read_vectors(output)
    assert len(arrays) == 300
    for number, expected in enumerate(embedder.embed(text.read_text().split("\n"))):
        np.testing.assert_allclose(arrays[number], expected, atol=1e-5)


@pytest.fixture(scope="module")
def embedders(bilm):
    """Two embedders with the same settings, as in two processes."""
    return [Embedder(bilm, batch_tokens=64) for _ in range(2)]


@pytest.mark.parametrize(
    ("suffix", "pool"), [*((suffix, "none") for suffix in FORMATS), (".npy", "mean")]
)
def test_an_interrupted_job_resumes_and_gives_the_same_vectors(
    embedders, text, tmp_path, suffix, pool, caplog, optimized_graphs
):
    caplog.set_level("INFO", logger="absl")
    whole, parts = tmp_path / f"whole{suffix}", tmp_path / f"parts{suffix}"
    embedders[0].embed_file(text, whole, pool=pool)

    for embedder in embedders:
        stopping = Interrupted(embedder, num_groups=2)
        with pytest.raises(KeyboardInterrupt):
            stopping.embed_file(text, parts, pool=pool)
        assert not parts.exists()
    caplog.clear()
    embedders[1].embed_file(text, parts, pool=pool)

    assert "Resuming after" in caplog.text
    arrays, expected = read_vectors(parts), read_vectors(whole)
    assert list(arrays) == list(expected)
    assert len(arrays) == 300
    for number, array in expected.items():
        # On processors without AVX-512, rounding depends on the other sentences of a batch.
        np.testing.assert_allclose(arrays[number], array, atol=1e-6)
    if whole.is_dir():
        assert sorted(os.listdir(parts)) == sorted(os.listdir(whole))
        assert len(os.listdir(whole)) > 1
    assert not list(tmp_path.glob("*.unfinished"))


@formats
@pytest.mark.parametrize(
    ("name", "choices"), [("put_in_place", {}), ("FileJob._remove_folder", {"overwrite": True})]
)
def test_a_job_interrupted_at_its_end_can_be_repeated(
    embedder, text, tmp_path, suffix, name, choices
):
    """The interrupt is before it moves its output, or after that, before it removes its folder."""
    output = tmp_path / f"vectors{suffix}"
    with interrupted_at(f"file_jobs.{name}"):
        embedder.embed_file(text, output)

    embedder.embed_file(text, output, **choices)

    check_vectors(output, embedder, text)


@contextlib.contextmanager
def full_disk(num_bytes):
    """A block in which no file can become larger than `num_bytes`."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize(
    ("suffix", "num_bytes"),
    [(".npz", 10), *itertools.product(FORMATS, (5000, 30_000))],  # 10: too few for job.json
)
def test_a_full_disk_error_names_the_path_and_the_job_can_be_resumed(
    embedder, text, tmp_path, suffix, num_bytes
):
    parts = tmp_path / f"parts{suffix}"

    with pytest.raises(OSError, match="File too large") as caught, full_disk(num_bytes):
        embedder.embed_file(text, parts)
    assert caught.value.errno == errno.EFBIG
    assert caught.value.filename.startswith(str(parts))
    assert not parts.exists()

    embedder.embed_file(text, parts)

    check_vectors(parts, embedder, text)


def test_unfinished_work_of_another_job_is_kept_without_overwrite(
    bilm, embedder, fresh_bilm, text, tmp_path
):
    output = tmp_path / "vectors.hdf5"
    with pytest.raises(KeyboardInterrupt):
        Interrupted(embedder, num_groups=2).embed_file(text, output)
    other_bilm = fresh_bilm()
    kernel = other_bilm.trainable_weights[0]
    kernel.assign(2 * kernel)
    top = Embedder(bilm, "top", batch_tokens=64)
    text.with_name("other.txt").write_text("something else")

    for other, input, options, difference in (
        (embedder, text.with_name("other.txt"), {}, "input"),
        (top, text, {}, "layers"),
        (embedder, text, {"dtype": "float16"}, "output options"),
        (embedder, text, {"pool": "mean"}, "output options"),
        (Embedder(other_bilm, batch_tokens=64), text, {}, "model"),
    ):
        with pytest.raises(
            FileExistsError, match=rf"unfinished work of another job, with a different {difference}"
        ):
            other.embed_file(input, output, **options)
        assert not output.exists()

    top.embed_file(text, output, overwrite=True)
    check_vectors(output, top, text)


def test_two_processes_cannot_write_the_same_output_at_once(embedder, text, tmp_path):
    folder = tmp_path / "vectors.hdf5.unfinished"
    folder.mkdir()
    descriptor = os.open(folder, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)

    with pytest.raises(FileExistsError, match=r"Another process is writing .*vectors\.hdf5"):
        embedder.embed_file(text, tmp_path / "vectors.hdf5")

    os.close(descriptor)
    embedder.embed_file(text, tmp_path / "vectors.hdf5")
    assert len(read_vectors(tmp_path / "vectors.hdf5")) == 300


def test_a_job_restarts_if_its_unfinished_folder_has_no_job_file(embedder, text, tmp_path):
    folder = tmp_path / "vectors.npz.unfinished"
    folder.mkdir()
    (folder / ".job.json.1234.part").write_text("{")

    embedder.embed_file(text, tmp_path / "vectors.npz")

    assert len(read_vectors(tmp_path / "vectors.npz")) == 300


def test_a_job_interrupted_between_the_two_npy_files_can_be_resumed(embedder, text, tmp_path):
    output = tmp_path / "vectors.npy"
    moved = []

    def move_once(part, path):
        if moved:
            raise KeyboardInterrupt
        moved.append(path)
        os.replace(part, path)

    with interrupted_at("file_jobs.put_in_place", move_once):
        embedder.embed_file(text, output)
    assert moved
    assert not output.exists()

    embedder.embed_file(text, output)

    check_vectors(output, embedder, text)


def test_unfinished_work_is_kept_if_resuming_is_interrupted(embedder, text, tmp_path):
    output = tmp_path / "vectors.npz"
    with pytest.raises(KeyboardInterrupt):
        Interrupted(embedder, num_groups=2).embed_file(text, output)
    with interrupted_at("outputs.numpy_output.GrowingFiles"):
        embedder.embed_file(text, output)

    assert (tmp_path / "vectors.npz.unfinished" / "job.json").exists()


def test_an_input_that_changes_during_the_job_raises_an_error(embedder, text, tmp_path):
    class Disturbed(Interrupted):
        def embed_groups(self, sentences, first_group):
            yield from embedder.embed_groups(sentences, first_group)
            with open(text, "a") as file:
                file.write("\none line more")

    with pytest.raises(ValueError, match=r"text\.txt has changed since the job began"):
        Disturbed(embedder, 0).embed_file(text, tmp_path / "vectors.hdf5")
    assert not (tmp_path / "vectors.hdf5").exists()


def test_a_folder_with_unrelated_files_is_kept(embedder, text, tmp_path):
    folder = tmp_path / "vectors.hdf5.unfinished"
    folder.mkdir()
    (folder / "thesis.tex").write_text("years")

    with pytest.raises(FileExistsError, match=r"files that are not unfinished work: thesis\.tex"):
        embedder.embed_file(text, tmp_path / "vectors.hdf5")
    assert (folder / "thesis.tex").exists()
