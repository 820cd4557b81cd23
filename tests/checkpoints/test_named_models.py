import dataclasses
import shutil
import zipfile
from pathlib import Path

import pytest

from elmo_tf import load_bilm
from elmo_tf.checkpoints import named_models
from elmo_tf.checkpoints.load import load_language_model, open_checkpoint
from elmo_tf.checkpoints.named_models import MODELS
from elmo_tf.models.copies import model_digest


@pytest.fixture
def published(serve_named, checkpoint_directory):
    """A function that serves a small checkpoint as a published model; returns its files."""

    def put(name):
        files = serve_named(name)
        for file, source in zip(files, ("options.json", "weights.hdf5"), strict=True):
            shutil.copy(checkpoint_directory / source, file)
        return files

    return put


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """The folder of elmo_tf in an empty Keras cache."""
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "elmo_tf"


@pytest.mark.parametrize("name", ["medium", "pubmed"])
def test_a_published_model_is_downloaded_once(published, cache, bilm, name):
    files = published(name)

    assert model_digest(load_bilm(name)) == model_digest(bilm)
    for file in files:
        file.unlink()
    assert model_digest(load_bilm(name)) == model_digest(bilm)
    with open_checkpoint(name) as checkpoint:
        assert checkpoint.vocabulary() is None
    names = {file.name for file in files}
    assert {file.name for file in (cache / name).iterdir()} == names


@pytest.mark.parametrize("name", ["medium", "seqvec", "manylangs-de"])
def test_the_offline_error_names_the_files_and_their_target_folder(monkeypatch, cache, name):
    files = [f"http://127.0.0.1:9/{Path(file).name}" for file in MODELS[name].addresses]
    model = dataclasses.replace(MODELS[name], addresses=tuple(files))
    monkeypatch.setitem(MODELS, name, model)
    wanted = (
        rf"Cannot download {files[0]} to .* without a network, download {' and '.join(files)} "
        rf"elsewhere, and copy to {cache}/{name} without"
    )

    with pytest.raises(OSError, match=wanted):
        load_bilm(name)


@pytest.mark.parametrize(("name", "checksum"), [("small", "747b"), ("seqvec", "cede")])
def test_a_file_with_another_checksum_than_the_published_is_downloaded_again_and_refused(
    published, cache, name, checksum
):
    published(name)
    cache.joinpath(name).mkdir(parents=True)
    (cache / name / "weights.hdf5").write_text("damaged")

    for _ in range(2):
        with pytest.raises(OSError, match=rf"Cannot download .*/{name}: .* expected .*{checksum}"):
            load_bilm(name)


def test_models_of_the_nlpl_repository_are_loaded_by_number(
    website, monkeypatch, cache, checkpoint_directory, bilm
):
    folder, address = website
    monkeypatch.setattr(named_models, "REPOSITORY", address)
    (folder / "20").mkdir()

    def nlpl(files):
        with zipfile.ZipFile(folder / "20" / "212.zip", "w") as packed:
            for name, content in files.items():
                packed.writestr(name, content)

    names = {"options.json": "options.json", "model.hdf5": "weights.hdf5"}
    files = {name: (checkpoint_directory / file).read_bytes() for name, file in names.items()}
    nlpl({**files, "vocab.txt": "<S>\n</S>\n<UNK>\nthe\n", "meta.json": "{}"})

    assert model_digest(load_bilm("nlpl-212")) == model_digest(bilm)
    with open_checkpoint("nlpl-212") as checkpoint:
        assert checkpoint.vocabulary().tokens[-1] == "the"
    assert [path.name for path in cache.iterdir()] == ["nlpl-212"]
    shutil.rmtree(cache)
    nlpl({"meta.json": "[]", "model.bin": "0"})
    message = r"212\.zip is not an ELMo model: .* meta.json, model.bin\."
    with pytest.raises(ValueError, match=message):
        load_bilm("nlpl-212")
    assert not list(cache.iterdir())


def test_a_folder_takes_precedence_over_a_model_name(
    tmp_path, monkeypatch, checkpoint_directory, bilm
):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(checkpoint_directory, tmp_path / "original")

    assert model_digest(load_bilm("original")) == model_digest(bilm)


@pytest.mark.parametrize("path", ["small_en", Path("small-en"), ("small-en", "small-en")])
def test_the_error_of_an_unknown_name_lists_the_names(path):
    with pytest.raises(FileNotFoundError, match=r"There is no checkpoint .*Models: small-en"):
        load_bilm(path)


def test_an_html_page_in_place_of_a_file_is_not_cached(published, cache, bilm):
    for file in published("medium"):
        content = file.read_bytes()
        file.write_text("<html>Please log in</html>")
        with pytest.raises(OSError, match=rf"download .*{file.name} to .*: the response is a web"):
            load_bilm("medium")
        file.write_bytes(content)
    assert load_bilm("medium").config == bilm.config


@pytest.mark.parametrize("name", ["original", "5.5B", "manylangs-de", "nlpl-212"])
def test_published_models_have_no_softmax(name, cache, checkpoint_directory):
    with pytest.raises(FileNotFoundError, match=rf"model {name} has no softmax.*--from"):
        load_language_model(name)
    with pytest.raises(FileNotFoundError, match=r"There is no .* in .*checkpoint"):
        load_language_model(checkpoint_directory)
