import shutil
import tempfile

import numpy as np
import pytest

from elmo_tf.saved_models import Client, serve
from elmo_tf.saved_models.server import server
from reference import tf1_training

SENTENCES = ["the cat sat", "", "한국어 a"]


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The parent of new temporary folders."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_a_served_checkpoint_is_exported_to_a_temporary_folder(
    temporary, checkpoint_directory, bilm
):
    with (
        serve(checkpoint_directory, port=0, rest_port=None) as running,
        Client(f"localhost:{running.port}") as client,
    ):
        answer = client.predict(SENTENCES, ("lstm_outputs1", "lstm_outputs2"))
        assert len(list(temporary.glob("elmo_tf-*/1/saved_model.pb"))) == 1

    layers = bilm(SENTENCES)["layers"]
    for layer in (1, 2):
        np.testing.assert_allclose(answer[f"lstm_outputs{layer}"], layers[:, layer], 1e-5, 1e-5)
    assert list(temporary.glob("elmo_tf-*")) == []


def test_an_unreadable_checkpoint_leaves_no_temporary_files(temporary, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "options.json").write_text("{}")

    with pytest.raises(FileNotFoundError, match=r"no \*weights.hdf5 or .* or model.hdf5 in .*run"):
        serve(tmp_path / "run", port=0, rest_port=None)
    assert list(temporary.glob("elmo_tf-*")) == []


def test_a_pair_of_files_a_tf1_prefix_and_a_parent_folder_are_checkpoints(
    tmp_path, checkpoint_directory, monkeypatch
):
    exported = []
    monkeypatch.setattr(server, "export", lambda bilm, *_, **kwargs: exported.append(bilm))
    options = tf1_training.options()
    trained = tf1_training.write(tmp_path / "run", options, tf1_training.weights(options))
    pair = checkpoint_directory / "options.json", checkpoint_directory / "weights.hdf5"
    shutil.copytree(checkpoint_directory, tmp_path / "unpacked" / "elmo")
    for source in (pair, trained / tf1_training.PREFIX, tmp_path / "unpacked"):
        with server._exported_versions(source):
            pass
    assert len(exported) == 3


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("http://127.0.0.1:9/x.zip", r"Cannot download http://127.0.0.1:9/x.zip"),
        ("small_en", r"serve small_en: no such .*Did you mean the built-in model 'small-en'"),
        ("empty", r"empty: it holds no version. Expected a folder with .*empty/1/saved_model.pb"),
        ("1", r"1: it is a single version.*parent folder"),
    ],
)
def test_the_error_names_what_cannot_be_served(monkeypatch, tmp_path, source, message):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for name in ("empty", "1"):
        (tmp_path / name).mkdir()
    (tmp_path / "1" / "saved_model.pb").touch()
    with pytest.raises(OSError, match=message):
        serve(source, port=0, rest_port=None)
