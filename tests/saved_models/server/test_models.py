"""Finding, exporting, loading and unloading the versions of a model."""

import shutil
import tempfile
import time
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.saved_models import Client, serve
from elmo_tf.saved_models.server import server
from elmo_tf.saved_models.server.models import Model, State
from elmo_tf.saved_models.versions import versions_in
from reference import tf1_training
from serving_requests import asking, outputs_over_rest


class Loader:
    """Loads versions and records them; raises an error for broken ones."""

    def __init__(self):
        self.loaded = []
        self.num_tries = 0

    def __call__(self, number, path):
        self.num_tries += 1
        if (path / "saved_model.pb").read_text() == "broken":
            raise OSError(f"{path} is broken")

        def close():
            assert not version.is_closed
            version.is_closed = True

        version = SimpleNamespace(number=number, is_closed=False, close=close)
        self.loaded.append(version)
        return version

    def open_numbers(self):
        return [version.number for version in self.loaded if not version.is_closed]


@pytest.fixture
def loader():
    return Loader()


@pytest.fixture
def model_of(tmp_path, loader):
    """Loads a model with these versions in `tmp_path`."""

    def new(*names):
        for name in names:
            put(tmp_path, name)
        model = Model("elmo", tmp_path, loader)
        model.load()
        return model

    return new


def put(directory, name, content=""):
    (directory / str(name)).mkdir(exist_ok=True)
    (directory / str(name) / "saved_model.pb").write_text(content)


def states(model):
    return {number: State.Name(version.state) for number, version in model.states().items()}


def number_of(model, number=None):
    with model.version(number) as version:
        return version.number


def test_the_version_with_the_highest_number_is_the_newest(model_of):
    model = model_of("9", "00010", "2")
    assert number_of(model) == number_of(model, 10) == 10
    assert states(model) == {10: "AVAILABLE", 9: "START", 2: "START"}


def test_an_old_version_is_unloaded_after_its_last_request(tmp_path, model_of):
    model = model_of(1)
    put(tmp_path, 2)
    with model.version() as old:
        model.refresh()
        assert number_of(model) == 2
        assert states(model)[1] == "UNLOADING"
        assert not old.is_closed
    assert old.is_closed
    assert states(model)[1] == "END"


def test_a_broken_version_leaves_the_old_one_until_it_is_changed(
    tmp_path, model_of, loader, caplog
):
    model = model_of(2)
    put(tmp_path, 1, "broken")
    for number in (1, 5):
        message = rf"Servable not found for request: Specific\(elmo, {number}\)"
        with pytest.raises(tf.errors.NotFoundError, match=message):
            number_of(model, number)
    put(tmp_path, 3, "broken")
    for _ in range(3):
        model.refresh()
    assert loader.num_tries == 3
    assert number_of(model) == 2
    assert states(model) == {3: "END", 2: "AVAILABLE", 1: "END"}
    assert "Cannot load version 3 of elmo: " in caplog.text
    assert "is broken" in str(model.states()[3].error)
    put(tmp_path, 3, "whole")
    model.refresh()
    assert number_of(model) == 3


def test_versions_are_loaded_on_request_and_unloaded_when_the_newest_changes(
    tmp_path, model_of, loader
):
    model = model_of(1, 2)
    assert loader.open_numbers() == [2]
    assert number_of(model, 1) == 1
    model.refresh()
    assert loader.open_numbers() == [2, 1]
    put(tmp_path, 3)
    model.refresh()
    assert loader.open_numbers() == [3]
    for deleted, newest in ((3, 2), (2, 1), (1, 1)):  # the last one serves on
        shutil.rmtree(tmp_path / str(deleted))
        model.refresh()
        assert number_of(model) == newest
        assert loader.open_numbers() == [newest]


def test_close_unloads_after_running_requests_and_refuses_new_ones(model_of):
    model = model_of(1)
    with model.version() as running:
        model.close()
        assert not running.is_closed
        with pytest.raises(tf.errors.UnavailableError, match="The server is shutting down"):
            number_of(model)
    assert running.is_closed


def test_no_request_fails_while_versions_change(tmp_path, model_of, loader):
    model = model_of(0)

    def ask():
        with model.version() as version:
            if version.is_closed:
                raise RuntimeError("closed while in use")

    with asking(ask):
        for number in range(1, 31):
            put(tmp_path, number)
            model.refresh()
            shutil.rmtree(tmp_path / str(number - 1))
    assert loader.open_numbers() == [30]


def test_a_server_swaps_versions_under_load_without_a_failed_request(model_directory, tmp_path):
    """A broken version does not replace a loaded one, and its error is reported."""
    shutil.copytree(model_directory / "1", tmp_path / "1")
    with (
        serve(tmp_path, port=0, rest_port=0, poll_seconds=0.05) as server,
        Client(f"localhost:{server.port}", retries=0) as client,
    ):

        def scale():
            return client.predict(["a"])["elmo"][0, 0, 0]

        def scale_over_rest():
            return outputs_over_rest(server, ["a"])["elmo"][0, 0, 0]

        def wait_for(condition):
            end = time.monotonic() + 20
            while not condition():
                assert time.monotonic() < end
                time.sleep(0.01)

        with asking(scale, 2), asking(scale_over_rest, 2):
            (tmp_path / "2").mkdir()
            (tmp_path / "2" / "saved_model.pb").write_bytes(b"broken")
            wait_for(lambda: client.status().get(2) == "END")
            assert scale() == scale_over_rest() == 10
            shutil.copytree(model_directory / "2", tmp_path / ".3")
            (tmp_path / ".3").rename(tmp_path / "3")
            wait_for(lambda: scale() == 100)
            assert scale_over_rest() == 100
            assert client.status() == {3: "AVAILABLE", 2: "END", 1: "END"}


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
    (tmp_path / "1" / "assets").mkdir()
    (tmp_path / "1" / "assets" / "options.json").touch()
    with pytest.raises(OSError, match=message):
        serve(source, port=0, rest_port=None)


def test_versions_are_numbered_folders_with_a_model(tmp_path):
    names = ("1", "007", "12", "x", "-3", "\N{FULLWIDTH DIGIT ONE}", "5a", str(2**63))
    for name in (*names, str(2**63 - 1)):
        (tmp_path / name).mkdir()
        if name != "12":
            (tmp_path / name / "saved_model.pb").touch()

    folders = {1: "1", 7: "007", 2**63 - 1: str(2**63 - 1)}
    assert versions_in(tmp_path) == {number: tmp_path / name for number, name in folders.items()}
    assert versions_in(tmp_path / "nowhere") == {}
