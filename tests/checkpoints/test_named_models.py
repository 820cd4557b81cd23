import shutil
from pathlib import Path

import numpy as np
import pytest

from elmo_tf import load_bilm
from elmo_tf.checkpoints import downloads
from elmo_tf.checkpoints.load import has_softmax, load_language_model, load_vocabulary

SENTENCES = ["the cat sat", "", "한국어"]
MEDIUM = "elmo_2x2048_256_2048cnn_1xhighway"
SMALL = "elmo_2x1024_128_2048cnn_1xhighway"


@pytest.fixture
def published(website, monkeypatch, checkpoint_directory):
    """A function that serves a small checkpoint under a published name; returns its folder."""
    folder, address = website
    monkeypatch.setattr(downloads, "_ADDRESS", address)

    def put(name):
        target = folder / name.removeprefix("elmo_")
        target.mkdir()
        for file in ("options.json", "weights.hdf5"):
            shutil.copy(checkpoint_directory / file, target / f"{name}_{file}")
        return target

    return put


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """The folder of elmo_tf in an empty Keras cache."""
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "elmo_tf"


def test_a_published_model_is_downloaded_once(published, cache, bilm):
    folder = published(MEDIUM)

    first = load_bilm("medium")(SENTENCES)["layers"]
    shutil.rmtree(folder)
    again = load_bilm("medium")(SENTENCES)["layers"]

    np.testing.assert_array_equal(first, bilm(SENTENCES)["layers"])
    np.testing.assert_array_equal(again, first)
    assert sorted(file.name for file in (cache / "medium").iterdir()) == [
        f"{MEDIUM}_options.json",
        f"{MEDIUM}_weights.hdf5",
    ]


def test_the_offline_error_names_the_files_and_their_target_folder(monkeypatch, cache):
    monkeypatch.setattr(downloads, "_ADDRESS", "http://127.0.0.1:9/elmo")
    wanted = (
        rf"Cannot download http.*{MEDIUM}_options.json: .* without a network, "
        rf"download http://127.0.0.1:9/elmo/{MEDIUM[5:]}/{MEDIUM}_options.json and http.*"
        rf"{MEDIUM}_weights.hdf5 elsewhere, and copy to {cache}/medium without"
    )

    with pytest.raises(OSError, match=wanted):
        load_bilm("medium")


def test_weights_with_an_invalid_checksum_are_refused_but_not_deleted(published, cache):
    published(SMALL)

    with pytest.raises(
        ValueError, match=rf"{SMALL}_weights.hdf5 is not the published file: .*747b"
    ):
        load_bilm("small")
    assert (cache / "small" / f"{SMALL}_weights.hdf5").exists()


def test_a_folder_takes_precedence_over_a_model_name(
    tmp_path, monkeypatch, checkpoint_directory, bilm
):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(checkpoint_directory, tmp_path / "original")

    np.testing.assert_array_equal(
        load_bilm("original")(SENTENCES)["layers"], bilm(SENTENCES)["layers"]
    )


BUILT_IN = r"There is no checkpoint .*\. Did you mean the built-in model 'small-en'\?"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("small_en", BUILT_IN),
        ("Small-EN", BUILT_IN),
        ("./small-en", BUILT_IN),
        (Path("small-en"), BUILT_IN),
        (("small-en", "small-en"), BUILT_IN),
        ("orignal", r"Did you mean the published model 'original'\?"),
        ("/nowhere/run", r"There is no checkpoint /nowhere/run\.$"),
    ],
    ids=str,
)
def test_a_path_or_a_misspelled_name_gets_a_suggestion(path, message):
    with pytest.raises(FileNotFoundError, match=message):
        load_bilm(path)


def test_an_html_page_in_place_of_a_file_is_not_cached(published, cache, bilm):
    folder = published(MEDIUM)
    for name, kind in (("options.json", "JSON"), ("weights.hdf5", "HDF5")):
        file = folder / f"{MEDIUM}_{name}"
        content = file.read_bytes()
        file.write_text("<html>Please log in</html>")
        with pytest.raises(OSError, match=rf"Cannot download .*{name}: the response is not {kind}"):
            load_bilm("medium")
        file.write_bytes(content)
    assert load_bilm("medium").config == bilm.config


def test_the_error_names_a_cache_that_cannot_be_written(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "file" / "home"))

    with pytest.raises(OSError, match=rf"Cannot write to {tmp_path}/file/home.*: .* KERAS_HOME"):
        load_bilm("medium")


def test_missing_built_in_model_files_raise_an_error(monkeypatch):
    monkeypatch.setattr(downloads, "_SHIPPED", {"small-en": "none"})

    with pytest.raises(
        FileNotFoundError, match=r"files of small-en are missing in .*none: .*Reinstall"
    ):
        load_bilm("small-en")


@pytest.mark.parametrize("name", ["original", "5.5B", "manylangs-de"])
def test_published_models_have_no_softmax_and_no_vocabulary(name, cache):
    assert not has_softmax(name)
    with pytest.raises(FileNotFoundError, match=rf"model {name} has no softmax.*--from"):
        load_language_model(name)
    assert load_vocabulary(name) is None
