"""Loading and unloading the versions of a model."""

import contextlib
import shutil
import threading

import pytest
import tensorflow as tf
from tensorflow_serving.apis import model_pb2
from tensorflow_serving.config import model_server_config_pb2

from elmo_tf.saved_models.server.models import Model, State


class Loaded:
    """A loaded version."""

    def __init__(self, number):
        self.number = number
        self.is_closed = False

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
        self.loaded.append(Loaded(number))
        return self.loaded[-1]

    def open_numbers(self):
        return [one.number for one in self.loaded if not one.is_closed]


@pytest.fixture
def loader():
    return Loader()


def put(directory, name, content=""):
    (directory / str(name)).mkdir(exist_ok=True)
    (directory / str(name) / "saved_model.pb").write_text(content)


def model_of(directory, loader, policy=None, labels=()):
    model = Model(config_of(directory, policy, labels), loader)
    model.load()
    return model


def config_of(directory, policy=None, labels=()):
    return model_server_config_pb2.ModelConfig(
        name="elmo",
        base_path=str(directory),
        model_version_policy=policy,
        version_labels=dict(labels),
    )


def states(model):
    return {number: State.Name(one.state) for number, one in model.states().items()}


def number_of(model, **spec):
    with model.version(spec_of(**spec)) as version:
        return version.number


def spec_of(**spec):
    return model_pb2.ModelSpec(name="elmo", **spec)


def test_the_version_with_the_highest_number_is_the_newest(tmp_path, loader):
    for name in ("9", "00010", "2"):
        put(tmp_path, name)
    model = model_of(tmp_path, loader)
    assert number_of(model) == 10
    assert number_of(model, version={"value": 10}) == 10
    assert states(model) == {10: "AVAILABLE", 9: "START", 2: "START"}


def test_an_old_version_is_unloaded_after_its_last_request(tmp_path, loader):
    put(tmp_path, 1)
    model = model_of(tmp_path, loader)
    put(tmp_path, 2)
    with model.version(spec_of()) as old:
        model.refresh()
        assert number_of(model) == 2
        assert states(model)[1] == "UNLOADING"
        assert not old.is_closed
    assert old.is_closed
    assert states(model)[1] == "END"


def test_a_broken_new_version_leaves_the_old_one_loaded(tmp_path, loader, caplog):
    put(tmp_path, 1)
    model = model_of(tmp_path, loader)
    put(tmp_path, 2, "broken")
    model.refresh()
    assert number_of(model) == 1
    assert states(model) == {2: "END", 1: "AVAILABLE"}
    assert "Cannot load version 2 of elmo: " in caplog.text
    assert "is broken" in str(model.states()[2].error)


def test_a_broken_version_is_loaded_again_after_a_change(tmp_path, loader):
    put(tmp_path, 1)
    model = model_of(tmp_path, loader)
    put(tmp_path, 2, "broken")
    for _ in range(3):
        model.refresh()
    assert loader.num_tries == 2
    put(tmp_path, 2, "whole")
    model.refresh()
    assert number_of(model) == 2


def test_a_broken_requested_version_is_not_found(tmp_path, loader):
    put(tmp_path, 1, "broken")
    put(tmp_path, 2)
    model = model_of(tmp_path, loader)
    with pytest.raises(tf.errors.NotFoundError, match=r"for request: Specific\(elmo, 1\)"):
        number_of(model, version={"value": 1})
    assert number_of(model) == 2


def test_a_deleted_version_is_unloaded_if_another_exists(tmp_path, loader):
    put(tmp_path, 1)
    put(tmp_path, 2)
    model = model_of(tmp_path, loader)
    shutil.rmtree(tmp_path / "2")
    model.refresh()
    assert number_of(model) == 1
    assert loader.open_numbers() == [1]


def test_the_last_version_stays_loaded_if_its_folder_is_deleted(tmp_path, loader):
    put(tmp_path, 1)
    model = model_of(tmp_path, loader)
    shutil.rmtree(tmp_path / "1")
    model.refresh()
    assert number_of(model) == 1


def test_without_a_policy_a_requested_version_is_loaded_until_a_change(tmp_path, loader):
    put(tmp_path, 1)
    put(tmp_path, 2)
    model = model_of(tmp_path, loader)
    assert loader.open_numbers() == [2]
    assert number_of(model, version={"value": 1}) == 1
    assert loader.open_numbers() == [2, 1]
    model.refresh()
    assert loader.open_numbers() == [2, 1]
    put(tmp_path, 3)
    model.refresh()
    assert loader.open_numbers() == [3]


@pytest.mark.parametrize(
    ("policy", "numbers"),
    [
        ({"latest": {}}, [3]),
        ({"latest": {"num_versions": 2}}, [3, 2]),
        ({"all": {}}, [3, 2, 1]),
        ({"specific": {"versions": [1, 3]}}, [3, 1]),
    ],
)
def test_the_policy_selects_the_loaded_versions(tmp_path, loader, policy, numbers):
    for number in (1, 2, 3):
        put(tmp_path, number)
    model = model_of(tmp_path, loader, policy)
    assert loader.open_numbers() == numbers
    assert list(states(model)) == numbers
    for other in {1, 2, 3} - set(numbers):
        message = rf"Servable not found for request: Specific\(elmo, {other}\)"
        with pytest.raises(tf.errors.NotFoundError, match=message):
            number_of(model, version={"value": other})


def test_a_label_selects_a_version(tmp_path, loader):
    for number in (1, 2):
        put(tmp_path, number)
    model = model_of(tmp_path, loader, {"all": {}}, {"stable": 1, "new": 2})
    assert number_of(model, version_label="stable") == 1
    model.refresh(config_of(tmp_path, {"all": {}}, {"stable": 2}))
    assert number_of(model, version_label="stable") == 2
    with pytest.raises(tf.errors.InvalidArgumentError, match="servable version label: new"):
        number_of(model, version_label="new")


def test_a_missing_version_of_the_policy_is_an_error(tmp_path, loader):
    put(tmp_path, 1)
    put(tmp_path, 3)
    with pytest.raises(FileNotFoundError, match=r"has no version 2, 7 of elmo; it has 1, 3\."):
        model_of(tmp_path, loader, {"specific": {"versions": [7, 3, 2]}})


def test_unused_prepared_versions_are_unloaded(tmp_path, loader):
    for number in (1, 2):
        put(tmp_path, number)
    model = model_of(tmp_path, loader, {"latest": {}})
    message = "assign label to version 5 of model elmo, which is not currently available"
    with pytest.raises(tf.errors.FailedPreconditionError, match=message):
        model.prepare(config_of(tmp_path, {"specific": {"versions": [1]}}, {"stable": 5}))
    assert loader.open_numbers() == [2, 1]
    model.refresh()
    assert loader.open_numbers() == [2]
    assert number_of(model) == 2


def test_close_unloads_after_running_requests_and_refuses_new_ones(tmp_path, loader):
    put(tmp_path, 1)
    model = model_of(tmp_path, loader)
    with model.version(spec_of()) as running:
        model.close()
        assert not running.is_closed
        with pytest.raises(tf.errors.UnavailableError, match="The server is shutting down"):
            number_of(model)
    assert running.is_closed


def test_no_request_fails_while_versions_change(tmp_path, loader):
    put(tmp_path, 0)
    model = model_of(tmp_path, loader)
    stop = threading.Event()
    failures, counts = [], []

    def ask():
        count = 0
        while not stop.is_set():
            try:
                with model.version(spec_of()) as version:
                    if version.is_closed:
                        raise RuntimeError("closed while in use")
            except Exception as error:
                failures.append(error)
            count += 1
        counts.append(count)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    with contextlib.ExitStack() as stack:
        stack.callback(stop.set)
        for thread in threads:
            thread.start()
        for number in range(1, 31):
            put(tmp_path, number)
            model.refresh()
            shutil.rmtree(tmp_path / str(number - 1))
    for thread in threads:
        thread.join()
    assert not failures
    assert min(counts) > 0
    assert loader.open_numbers() == [30]
