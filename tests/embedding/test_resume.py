"""An interrupted `embed_file` resumes and writes the same output."""

import errno
from unittest import mock

import numpy as np
import pytest

from elmo_tf import Embedder
from elmo_tf.embedding.file_jobs import unfinished_folder
from elmo_tf.text.tokenizers import Token
from vector_files import read_vectors

NUM_GROUPS = 5


@pytest.fixture
def text(tmp_path, monkeypatch):
    """300 lines of random words, some empty: five groups of the `embedder`."""
    monkeypatch.setattr("elmo_tf.text.batches._LONG_SENTENCES", 0)
    rng = np.random.default_rng(2)
    path = tmp_path / "text.txt"
    rows = [rng.integers(0, 900, rng.integers(0, 16)) for _ in range(300)]
    path.write_text("\n".join(" ".join(f"w{n}" for n in row) for row in rows))
    return path


@pytest.fixture
def stop_after(embedder, monkeypatch):
    """A function that interrupts the `embedder` after some groups; returns the finished groups."""
    embed_group = Embedder.embed_group

    def stop(num_groups):
        finished = []

        def embed(self, sentences):
            if len(finished) == num_groups:
                raise KeyboardInterrupt
            arrays = embed_group(self, sentences)
            finished.append(len(sentences))
            return arrays

        monkeypatch.setattr(Embedder, "embed_group", embed)
        return finished

    return stop


def check_vectors(output, embedder, text, pool="none"):
    arrays = read_vectors(output)
    assert list(arrays) == list(range(300)) or output.suffix != ".parquet"
    assert len(arrays) == 300
    for number, expected in enumerate(embedder.embed(text.read_text().split("\n"))):
        if pool == "mean":
            expected = expected.sum(axis=1) / max(1, expected.shape[1])
        np.testing.assert_allclose(arrays[number], expected, atol=1e-5)
    assert not output.with_name(f"{output.name}.unfinished").exists()


@pytest.mark.parametrize(
    ("suffix", "pool"), [(".hdf5", "none"), (".parquet", "none"), (".npy", "mean")]
)
def test_a_resumed_job_computes_only_missing_groups_and_gives_the_same_vectors(
    embedder, text, tmp_path, suffix, pool, caplog, stop_after
):
    caplog.set_level("INFO", logger="absl")
    parts = tmp_path / f"parts{suffix}"

    for num_groups in (0, 1, 3):
        finished = stop_after(num_groups)
        with pytest.raises(KeyboardInterrupt):
            embedder.embed_file(text, parts, pool=pool)
        assert len(finished) == num_groups
        assert not parts.exists()
    finished = stop_after(NUM_GROUPS)
    embedder.embed_file(text, parts, pool=pool)

    assert "Resuming after" in caplog.text
    assert len(finished) == NUM_GROUPS - 4
    stop_after(-1)  # never
    check_vectors(parts, embedder, text, pool)


@pytest.mark.parametrize("suffix", [".hdf5", ".parquet"])
@pytest.mark.parametrize(
    ("name", "choices"), [("put_in_place", {}), ("_remove_children", {"overwrite": True})]
)
def test_a_job_interrupted_at_its_end_can_be_repeated(
    embedder, text, tmp_path, monkeypatch, suffix, name, choices
):
    """The interrupt is before it moves its output, or after that, before it removes its folder."""
    output = tmp_path / f"vectors{suffix}"
    with monkeypatch.context() as patch:
        patch.setattr(
            f"elmo_tf.embedding.file_jobs.{name}", mock.Mock(side_effect=KeyboardInterrupt)
        )
        with pytest.raises(KeyboardInterrupt):
            embedder.embed_file(text, output)

    embedder.embed_file(text, output, **choices)

    check_vectors(output, embedder, text)


# Too small for the settings, for a shard, and for the output.
@pytest.mark.parametrize(
    ("suffix", "num_bytes"),
    [(".hdf5", 10), (".hdf5", 5000), (".parquet", 5000), (".hdf5", 100_000)],
)
def test_after_a_full_disk_the_job_can_be_resumed(
    embedder, text, tmp_path, suffix, num_bytes, files_limited_to
):
    parts = tmp_path / f"parts{suffix}"

    with pytest.raises(OSError, match="too large") as caught, files_limited_to(num_bytes):
        embedder.embed_file(text, parts)
    assert caught.value.errno == errno.EFBIG
    assert not parts.exists()

    embedder.embed_file(text, parts)

    check_vectors(parts, embedder, text)


def test_settings_of_a_job_contain_all_that_its_shards_depend_on(
    bilm, elmo, fresh_bilm, embedder, text, tmp_path, stop_after
):
    output = tmp_path / "vectors.hdf5"
    stop_after(2)
    with pytest.raises(KeyboardInterrupt):
        embedder.embed_file(text, output)
    other = fresh_bilm()
    kernel = other.trainable_weights[0]
    kernel.assign(2 * kernel)
    text.with_name("other.txt").write_text("something else")

    for embedder_, input, options, difference in (
        (embedder, text.with_name("other.txt"), {}, "input"),
        (embedder, text, {"format": "conll"}, "format of the input"),
        (embedder, text, {"pool": "mean"}, "output options"),
        (Embedder(bilm, "top", batch_tokens=64), text, {}, "layers"),
        (Embedder(bilm, np.int64(1), batch_tokens=64), text, {}, "layers"),
        (Embedder(bilm, batch_tokens=32), text, {}, "batch_tokens"),
        (Embedder(other, batch_tokens=64), text, {}, "model"),
    ):
        message = rf"work of another job, with a different {difference}\. Delete"
        with pytest.raises(FileExistsError, match=message):
            embedder_.embed_file(input, output, **options)
    stop_after(1)
    for change, error in ((str.lower, KeyboardInterrupt), (str.upper, FileExistsError)):
        split = Embedder(
            bilm, None, "float32", 8, lambda line, to=change: [[Token(to(line) or "-", 0, 1)]]
        )
        with pytest.raises(error):
            split.embed_file(text, tmp_path / "split.hdf5")
    with pytest.raises(FileExistsError, match=r"a different tokenizer\. Delete"):
        Embedder(bilm, batch_tokens=8).embed_file(text, tmp_path / "split.hdf5")
    stop_after(NUM_GROUPS)
    embedder.embed_file(text, output, pool="mean", overwrite=True)
    assert read_vectors(output)[0].ndim == 2


def test_an_input_that_changes_during_the_job_raises_an_error(
    embedder, text, tmp_path, monkeypatch
):
    embed_group = embedder.embed_group

    def disturbed(sentences):
        with open(text, "a") as file:
            file.write("\none line more")
        return embed_group(sentences)

    monkeypatch.setattr(embedder, "embed_group", disturbed)

    with pytest.raises(ValueError, match=r"text\.txt has changed since the job began"):
        embedder.embed_file(text, tmp_path / "vectors.hdf5")
    assert not (tmp_path / "vectors.hdf5").exists()


# The folder of unfinished work, without a model.


def test_two_processes_cannot_write_the_same_output_at_once(tmp_path):
    with (
        unfinished_folder(tmp_path / "out.hdf5", {}),
        pytest.raises(FileExistsError, match=r"Another process is writing .*out\.hdf5"),
        unfinished_folder(tmp_path / "out.hdf5", {}),
    ):
        pass


def test_a_folder_with_unrelated_files_is_kept(tmp_path):
    folder = tmp_path / "out.hdf5.unfinished"
    folder.mkdir()
    (folder / ".job.json.1234.part").write_text("{")  # of a job that was killed at its start
    with unfinished_folder(tmp_path / "out.hdf5", {}) as new:
        assert list(new.iterdir()) == []
    assert not folder.exists()
    folder.mkdir()
    (folder / "thesis.tex").write_text("years")

    message = r"files that are not unfinished work: thesis\.tex"
    with (
        pytest.raises(FileExistsError, match=message),
        unfinished_folder(folder.with_suffix(""), {}),
    ):
        pass
    assert (folder / "thesis.tex").exists()
