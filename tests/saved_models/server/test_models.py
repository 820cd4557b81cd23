"""Finding, exporting, loading and unloading the versions of a model."""

import json
import shutil
import tempfile
import time

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.saved_models import Client, serve
from elmo_tf.saved_models.exporting.export import versions_in
from elmo_tf.saved_models.server.models import Model, Status
from serving_requests import asking, outputs_over_rest, predict, send, serving


class Version:
    def __init__(self, number):
        self.number, self.is_closed = number, False

    def close(self):
        assert not self.is_closed
        self.is_closed = True


class Loader:
    """Loads versions and records them; raises an error for broken ones."""

    def __init__(self):
        self.loaded = []
        self.num_tries = 0

    def __call__(self, number, path):
        self.num_tries += 1
        if (path / "saved_model.pb").read_text() == "broken":
            raise OSError(f"{path} is broken")
        self.loaded.append(Version(number))
        return self.loaded[-1]

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
    statuses = model.statuses()
    return {status.version: Status.State.Name(status.state) for status in statuses}


def number_of(model, number=None):
    with model.version(number) as version:
        return version.number


def test_the_version_with_the_highest_number_is_served(model_of):
    model = model_of("9", "00010", "2")
    assert number_of(model) == number_of(model, 10) == 10
    assert states(model) == {10: "AVAILABLE"}
    with pytest.raises(tf.errors.NotFoundError, match="elmo has version 10, not 9"):
        number_of(model, 9)


def test_an_old_version_is_unloaded_after_its_last_request(tmp_path, model_of):
    model = model_of(1)
    put(tmp_path, 2)
    with model.version() as old:
        model.load()
        assert number_of(model) == 2
        assert not old.is_closed
    assert old.is_closed


def test_a_broken_version_leaves_the_old_one_until_it_is_changed(tmp_path, model_of, loader):
    model = model_of(2)
    put(tmp_path, 3, "broken")
    with pytest.raises(OSError, match="is broken"):
        model.load()
    model.load()
    assert loader.num_tries == 2
    assert number_of(model) == 2
    assert states(model) == {3: "END", 2: "AVAILABLE"}
    assert "is broken" in model.statuses()[0].status.error_message
    put(tmp_path, 3, "whole")
    model.load()
    assert number_of(model) == 3
    assert states(model) == {3: "AVAILABLE"}


def test_a_deleted_version_is_replaced_by_the_newest_one_and_the_last_one_serves_on(
    tmp_path, model_of, loader
):
    model = model_of(1, 2)
    assert loader.open_numbers() == [2]
    for deleted, newest in ((2, 1), (1, 1)):
        shutil.rmtree(tmp_path / str(deleted))
        model.load()
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


def test_a_server_swaps_versions_under_load_without_a_failed_request(model_directory, tmp_path):
    """A broken version does not replace a loaded one, and its error is reported."""
    shutil.copytree(model_directory / "1", tmp_path / "1")
    with serving(tmp_path, poll_seconds=0.05) as (server, channel):

        def scale():
            answer = predict(channel, {"strings": tf.make_tensor_proto(["a"])})
            return tf.make_ndarray(answer.outputs["elmo"])[0, 0, 0]

        def scale_over_rest():
            return outputs_over_rest(server, ["a"])["elmo"][0, 0, 0]

        def statuses():
            _, _, text = send(server, "GET", "/v1/models/elmo")
            return json.loads(text)["model_version_status"]

        def wait_for(condition):
            end = time.monotonic() + 20
            while not condition():
                assert time.monotonic() < end
                time.sleep(0.01)

        with asking(scale, 2), asking(scale_over_rest, 2):
            (tmp_path / "2").mkdir()
            (tmp_path / "2" / "saved_model.pb").write_bytes(b"broken")
            wait_for(lambda: len(statuses()) == 2)
            broken, loaded = statuses()
            assert (broken["version"], broken["state"]) == ("2", "END")
            assert "saved_model.pb" in broken["status"]["error_message"]
            assert (loaded["version"], loaded["state"]) == ("1", "AVAILABLE")
            assert scale() == scale_over_rest() == 10
            shutil.copytree(model_directory / "2", tmp_path / ".3")
            (tmp_path / ".3").rename(tmp_path / "3")
            wait_for(lambda: scale() == 100)
            assert scale_over_rest() == 100
            status = {"error_code": "OK", "error_message": ""}
            assert statuses() == [{"version": "3", "state": "AVAILABLE", "status": status}]


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


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("http://127.0.0.1:9/x.zip", r"Cannot download http://127.0.0.1:9/x.zip"),
        (
            "small_en",
            r"serve small_en: neither a checkpoint.*Did you mean the built-in model 'small-en'",
        ),
        (
            "empty",
            r"empty: neither a checkpoint nor a .* versions, such as .*empty/1/saved_model.pb",
        ),
    ],
)
def test_the_error_names_what_cannot_be_served(monkeypatch, tmp_path, source, message):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
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
