"""Loading and unloading the versions of a model."""

import shutil
import time
from contextlib import ExitStack
from types import SimpleNamespace

import pytest
import tensorflow as tf

from elmo_tf.saved_models import Client, serve
from elmo_tf.saved_models.server.models import Model, State
from serving_requests import asking


class Loader:
    """Loads versions and records them; raises an error for broken ones."""

    def __init__(self):
        self.loaded = []
        self.num_tries = 0

    def __call__(self, number, path):
        self.num_tries += 1
        if (path / "saved_model.pb").read_text() == "broken":
            raise OSError(f"{path} is broken")
        version = SimpleNamespace(number=number, is_closed=False)
        version.close = lambda: setattr(version, "is_closed", True)
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
    with serve(tmp_path, port=0, rest_port=0, poll_seconds=0.05) as server, ExitStack() as stack:
        addresses = f"localhost:{server.port}", f"http://localhost:{server.rest_port}"
        clients = [stack.enter_context(Client(address, retries=0)) for address in addresses]

        def scale(client):
            return client.predict(["a"])["elmo"][0, 0, 0]

        def wait_for(condition):
            end = time.monotonic() + 20
            while not condition():
                assert time.monotonic() < end
                time.sleep(0.01)

        for client in clients:
            stack.enter_context(asking(lambda client=client: client.predict(["a"]), 2))
        (tmp_path / "2").mkdir()
        (tmp_path / "2" / "saved_model.pb").write_bytes(b"broken")
        wait_for(lambda: clients[0].status().get(2) == "END")
        assert {scale(client) for client in clients} == {10}
        shutil.copytree(model_directory / "2", tmp_path / ".3")
        (tmp_path / ".3").rename(tmp_path / "3")
        wait_for(lambda: scale(clients[0]) == 100)
        assert scale(clients[1]) == 100
        assert clients[0].status() == {3: "AVAILABLE", 2: "END", 1: "END"}
