"""Checkpoints on the Hugging Face Hub, whose library is replaced by a folder."""

import shutil

import huggingface_hub
import huggingface_hub.constants
import pytest
from huggingface_hub.utils import filter_repo_objects

from elmo_tf import load_bilm, load_language_model, save_bilm
from elmo_tf.models.copies import model_digest

NAME = "owner/elmo-xx"


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """The folder of a repository, and the calls of the library, which copies its files."""
    folder, calls = tmp_path / "repository", []
    folder.mkdir()

    def snapshot_download(name, revision, allow_patterns):
        calls.append((name, revision))
        cached = tmp_path / "cache" / name
        cached.mkdir(parents=True, exist_ok=True)
        names = (path.name for path in folder.iterdir())
        for file in filter_repo_objects(names, allow_patterns=allow_patterns):
            shutil.copy(folder / file, cached)
        return str(cached)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    return folder, calls


@pytest.mark.parametrize("format", ["hdf5", "safetensors"])
def test_a_repository_is_loaded_in_one_of_its_revisions(format, repository, bilm, tmp_path):
    folder, calls = repository
    save_bilm(bilm, folder, format=format)
    (folder / "pytorch_model.bin").write_bytes(b"not downloaded")

    for name in (NAME, f"{NAME}@v1"):
        assert model_digest(load_bilm(f"hf://{name}")) == model_digest(bilm)

    assert calls == [(NAME, None), (NAME, "v1")]
    names = {path.name for path in (tmp_path / "cache" / NAME).iterdir()}
    assert names == {"options.json", f"weights.{format}"}


def test_a_repository_with_a_lexicon_is_loaded(repository, manylangs):
    shutil.copytree(manylangs, repository[0], dirs_exist_ok=True)
    found = model_digest(load_bilm(f"hf://{NAME}"))  # the digest includes the lexicon
    assert found == model_digest(load_bilm(manylangs))


def test_repositories_that_cannot_be_loaded_raise_an_error(repository, monkeypatch):
    for load in (load_bilm, load_language_model):
        with pytest.raises(FileNotFoundError, match=r"There is no .*options.json in .*elmo-xx"):
            load(f"hf://{NAME}")
    monkeypatch.undo()
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    for name, reason in ((NAME, "LocalEntryNotFoundError"), ("a--b..c", "HFValidationError")):
        with pytest.raises(FileNotFoundError, match=f"Cannot download hf://{name}: {reason}"):
            load_bilm(f"hf://{name}")
