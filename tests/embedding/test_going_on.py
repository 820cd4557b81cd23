"""Work on a file that was stopped goes on, and comes to the same end."""

import contextlib
import errno
import fcntl
import itertools
import os
import resource

import numpy as np
import pytest

from elmo_tf import BiLM, BiLMConfig, Embedder
from elmo_tf.embedding.token_table import TokenTable
from vector_files import read_vectors

FORMATS = (".hdf5", ".parquet", ".npz", ".npy")
formats = pytest.mark.parametrize("suffix", FORMATS)


@pytest.fixture
def text(tmp_path):
    """300 lines of other words each, some empty: six groups of the `embedder`."""
    rng = np.random.default_rng(2)
    path = tmp_path / "text.txt"
    lines = (
        " ".join(f"w{n}" for n in rng.integers(0, 900, rng.integers(0, 16))) for _ in range(300)
    )
    path.write_text("\n".join(lines))
    return path


class Interrupted:
    """An `Embedder` that is stopped after some groups."""

    def __init__(self, embedder, num_groups):
        self._embedder = embedder
        self._num_groups = num_groups
        self.settings = embedder.settings
        self.token_limit = embedder.token_limit
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
    """So that there is more than one."""
    monkeypatch.setattr("elmo_tf.embedding.outputs.parquet_output._SHARD", 20_000)


def stopped(*arguments):
    raise KeyboardInterrupt


@contextlib.contextmanager
def stopped_at(name, instead=stopped):
    """A block in which embedding a file is stopped where it calls that."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"elmo_tf.embedding.{name}", instead)
        with pytest.raises(KeyboardInterrupt):
            yield


def check_vectors(output, embedder, text):
    arrays = read_vectors(output)
    assert len(arrays) == 300
    for number, expected in enumerate(embedder.embed(text.read_text().split("\n"))):
        np.testing.assert_allclose(arrays[number], expected, atol=1e-5)


@pytest.fixture(scope="module")
def embedders(bilm):
    """Two of the same settings, as in two processes."""
    return [Embedder(bilm, batch_tokens=64) for _ in range(2)]


@pytest.mark.parametrize(
    ("suffix", "pool"), [*((suffix, "none") for suffix in FORMATS), (".npy", "mean")]
)
def test_work_goes_on_where_it_was_stopped(
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
def test_a_stop_before_the_end_is_mended_too(embedder, text, tmp_path, suffix):
    output = tmp_path / f"vectors{suffix}"
    with stopped_at("file_jobs.put_in_place"):
        embedder.embed_file(text, output)

    embedder.embed_file(text, output)

    check_vectors(output, embedder, text)


@contextlib.contextmanager
def full_disk(num_bytes):
    """A block in which no file can become larger than that."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize(
    ("suffix", "num_bytes"),
    [(".npz", 10), *itertools.product(FORMATS, (5000, 30_000))],  # 10: for the settings of the job
)
def test_a_full_disk_is_told_with_the_path_and_work_goes_on_later(
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


def test_unfinished_work_on_something_else_is_kept_unless_it_may_go(
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

    for other, input, options, told in (
        (embedder, text.with_name("other.txt"), {}, "input"),
        (top, text, {}, "layers"),
        (embedder, text, {"dtype": "float16"}, "output options"),
        (embedder, text, {"pool": "mean"}, "output options"),
        (Embedder(other_bilm, batch_tokens=64), text, {}, "model"),
    ):
        with pytest.raises(
            FileExistsError, match=rf"unfinished work of another job, with a different {told}"
        ):
            other.embed_file(input, output, **options)
        assert not output.exists()

    top.embed_file(text, output, overwrite=True)
    check_vectors(output, top, text)


def test_two_at_once_do_not_disturb_each_other(embedder, text, tmp_path):
    folder = tmp_path / "vectors.hdf5.unfinished"
    folder.mkdir()
    descriptor = os.open(folder, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)

    with pytest.raises(FileExistsError, match=r"Another process is writing .*vectors\.hdf5"):
        embedder.embed_file(text, tmp_path / "vectors.hdf5")

    os.close(descriptor)
    embedder.embed_file(text, tmp_path / "vectors.hdf5")
    assert len(read_vectors(tmp_path / "vectors.hdf5")) == 300


def test_a_folder_left_without_a_job_is_begun_anew(embedder, text, tmp_path):
    folder = tmp_path / "vectors.npz.unfinished"
    folder.mkdir()
    (folder / ".job.json.1234.part").write_text("{")

    embedder.embed_file(text, tmp_path / "vectors.npz")

    assert len(read_vectors(tmp_path / "vectors.npz")) == 300


@formats
def test_what_was_moved_away_is_not_taken_for_there(embedder, text, tmp_path, suffix):
    """A kill between the end and the removal of what is left behind."""
    output = tmp_path / f"vectors{suffix}"
    with stopped_at("file_jobs.FileJob._remove_folder"):
        embedder.embed_file(text, output)

    embedder.embed_file(text, output, overwrite=True)

    check_vectors(output, embedder, text)


def test_a_stop_between_the_two_files_of_an_array_is_mended_too(embedder, text, tmp_path):
    output = tmp_path / "vectors.npy"
    moved = []

    def moved_once(part, path):
        if moved:
            raise KeyboardInterrupt
        moved.append(path)
        os.replace(part, path)

    with stopped_at("file_jobs.put_in_place", moved_once):
        embedder.embed_file(text, output)
    assert moved
    assert not output.exists()

    embedder.embed_file(text, output)

    check_vectors(output, embedder, text)


def test_work_that_cannot_go_on_now_is_kept(embedder, text, tmp_path):
    output = tmp_path / "vectors.npz"
    with pytest.raises(KeyboardInterrupt):
        Interrupted(embedder, num_groups=2).embed_file(text, output)
    with stopped_at("outputs.numpy_output.GrowingFiles"):
        embedder.embed_file(text, output)

    assert (tmp_path / "vectors.npz.unfinished" / "job.json").exists()


def test_an_input_that_changes_meanwhile_is_an_error(embedder, text, tmp_path):
    class Disturbed(Interrupted):
        def embed_groups(self, sentences, first_group):
            yield from embedder.embed_groups(sentences, first_group)
            with open(text, "a") as file:
                file.write("\none line more")

    with pytest.raises(ValueError, match=r"text\.txt has changed since the job began"):
        Disturbed(embedder, 0).embed_file(text, tmp_path / "vectors.hdf5")
    assert not (tmp_path / "vectors.hdf5").exists()


def test_a_folder_of_somebody_else_is_kept(embedder, text, tmp_path):
    folder = tmp_path / "vectors.hdf5.unfinished"
    folder.mkdir()
    (folder / "thesis.tex").write_text("years")

    with pytest.raises(FileExistsError, match=r"files that are not unfinished work: thesis\.tex"):
        embedder.embed_file(text, tmp_path / "vectors.hdf5")
    assert (folder / "thesis.tex").exists()


def test_vectors_of_tokens_do_not_depend_on_how_many_are_encoded_with_them(optimized_graphs):
    bilm = BiLM(BiLMConfig.preset("small"))
    tokens = [f"{'w' * (number % 9)}{number}".encode() for number in range(300)]

    together = TokenTable(bilm, 1000)
    rows = together.rows([tokens])[0]
    apart = TokenTable(bilm, 1000)
    for start, end in ((0, 1), (1, 8), (8, 25), (25, 300)):
        own = apart.rows([tokens[start:end]])[0]
        expected = together.vectors(rows[start:end])
        # Equal bits need AVX-512: other processors round by the number of tokens.
        np.testing.assert_allclose(apart.vectors(own), expected, atol=1e-6)
