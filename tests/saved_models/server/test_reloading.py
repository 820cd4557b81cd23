"""Configurations and versions that change while a server runs."""

import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import tensorflow as tf
from tensorflow_serving.apis import get_model_status_pb2, model_management_pb2

from elmo_tf.saved_models.server.catalogue import Catalogue, config_of
from serving_requests import model_spec, predict_request, states


def reload_request(*configs):
    request = model_management_pb2.ReloadConfigRequest()
    request.config.model_config_list.SetInParent()
    for config in configs:
        request.config.model_config_list.config.add(**config)
    return request


@pytest.fixture
def changing(model_directory):
    """A new catalogue with version 2 of `elmo`, which a test may change."""
    catalogue = Catalogue(config_of(model_directory, "elmo"))
    catalogue.load()
    yield catalogue
    catalogue.close()


def scale_of(catalogue, **spec):
    response = catalogue.predict(predict_request(outputs=["elmo"], **spec))
    return tf.make_ndarray(response.outputs["elmo"])[0, 0, 0]


def test_a_new_configuration_replaces_the_old_one(changing, model_directory):
    labels = {"stable": 1, "new": 2}
    changing.reload(
        reload_request(
            {
                "name": "elmo",
                "base_path": str(model_directory),
                "model_version_policy": {"all": {}},
                "version_labels": labels,
            },
            {
                "name": "other",
                "base_path": str(model_directory),
                "model_version_policy": {"specific": {"versions": [1]}},
            },
        )
    )
    assert changing.names == ["elmo", "other"]
    assert states(changing) == [(2, "AVAILABLE"), (1, "AVAILABLE")]
    assert states(changing, name="other") == [(1, "AVAILABLE")]
    request = predict_request(outputs=["elmo"])
    request.model_spec.version_label = "stable"
    assert changing.predict(request).model_spec.version.value == 1
    assert (scale_of(changing), scale_of(changing, name="other")) == (100, 10)


def test_a_check_for_versions_waits_for_a_reload(changing, model_directory, monkeypatch):
    load, checks = changing._load, []

    def load_during_a_check(number, path):
        checks.append(threading.Thread(target=changing.refresh))
        checks[-1].start()
        checks[-1].join(0.3)
        return load(number, path)

    monkeypatch.setattr(changing, "_load", load_during_a_check)
    policies = {"elmo": {"all": {}}, "other": {"specific": {"versions": [2]}}}
    changing.reload(
        reload_request(
            *(
                {"name": name, "base_path": str(model_directory), "model_version_policy": policy}
                for name, policy in policies.items()
            )
        )
    )
    for check in checks:
        check.join()
    assert len(checks) == 1
    assert states(changing) == [(2, "AVAILABLE"), (1, "AVAILABLE")]
    loads = changing._metrics.as_text().decode()
    assert f'model_path="{model_directory}/1",status="success"}} 1.0' in loads


def test_a_model_missing_from_a_new_configuration_is_unloaded(changing, model_directory):
    changing.reload(reload_request({"name": "other", "base_path": str(model_directory)}))
    assert scale_of(changing, name="other") == 100
    with pytest.raises(tf.errors.NotFoundError, match=r"for request: Latest\(elmo\)"):
        scale_of(changing)


def test_a_model_may_move_to_another_folder(changing, model_directory, tmp_path):
    shutil.copytree(model_directory / "1", tmp_path / "5")
    changing.reload(reload_request({"name": "elmo", "base_path": str(tmp_path)}))
    assert scale_of(changing) == 10
    assert states(changing) == [(5, "AVAILABLE")]


@pytest.mark.parametrize(
    ("configs", "error", "message"),
    [
        (
            [{"name": "elmo", "base_path": "/no/such"}],
            tf.errors.InvalidArgumentError,
            "Cannot serve /no/such: no such folder",
        ),
        (
            [{"name": "elmo"}],
            tf.errors.InvalidArgumentError,
            "Each model must have a name and a base_path, but one has 'elmo' and ''",
        ),
        (
            [{"name": "a", "base_path": "{}"}, {"name": "a", "base_path": "{}"}],
            tf.errors.InvalidArgumentError,
            "Two models are called 'a'",
        ),
        (
            [{"name": "a", "base_path": "{}", "version_labels": {"stable": 5}}],
            tf.errors.FailedPreconditionError,
            "assign label to version 5 of model a, which is not currently available",
        ),
    ],
)
def test_an_invalid_configuration_leaves_the_old_one_active(
    changing, model_directory, configs, error, message
):
    configs = [
        {**one, "base_path": one.get("base_path", "").format(model_directory)} for one in configs
    ]
    with pytest.raises(error, match=message):
        changing.reload(reload_request(*configs))
    assert changing.names == ["elmo"]
    assert scale_of(changing) == 100


def test_an_equivalent_path_does_not_reload_the_model(changing, model_directory, tmp_path):
    spellings = (f"{model_directory}/", f"{model_directory.parent}//{model_directory.name}")
    metrics = changing._metrics
    for spelling in spellings:
        changing.reload(reload_request({"name": "elmo", "base_path": spelling}))
    assert 'status="success"} 1.0' in metrics.as_text().decode()


def test_no_request_fails_while_the_configuration_changes(changing, model_directory, tmp_path):
    shutil.copytree(model_directory / "1", tmp_path / "1")
    stop = threading.Event()

    def ask():
        count = 0
        while not stop.is_set():
            assert scale_of(changing) in (10, 100)
            count += 1
        return count

    with ThreadPoolExecutor(4) as pool:
        asking = [pool.submit(ask) for _ in range(4)]
        for number in range(6):
            base_path = str(tmp_path if number % 2 else model_directory)
            changing.reload(reload_request({"name": "elmo", "base_path": base_path}))
        stop.set()
        assert all(one.result(20) for one in asking)


def test_a_configuration_of_another_kind_is_refused(changing):
    with pytest.raises(tf.errors.InvalidArgumentError, match="Only ModelConfigList is currently"):
        changing.reload(model_management_pb2.ReloadConfigRequest())


def test_the_status_of_a_broken_version_has_its_error(changing, model_directory, tmp_path):
    shutil.copytree(model_directory / "1", tmp_path / "1")
    changing.reload(reload_request({"name": "elmo", "base_path": str(tmp_path)}))
    (tmp_path / "2").mkdir()
    (tmp_path / "2" / "saved_model.pb").write_bytes(b"broken")
    changing.refresh()
    request = get_model_status_pb2.GetModelStatusRequest(model_spec=model_spec())
    newest, older = changing.status(request).model_version_status
    assert (newest.version, older.version) == (2, 1)
    assert newest.status.error_code
    assert "saved_model.pb" in newest.status.error_message
    assert scale_of(changing) == 10


def test_the_server_polls_for_new_versions(model_directory, tmp_path):
    shutil.copytree(model_directory / "1", tmp_path / "1")
    catalogue = Catalogue(config_of(tmp_path, "elmo"))
    catalogue.load()
    catalogue.watch(0.05)
    shutil.copytree(model_directory / "2", tmp_path / ".2")
    (tmp_path / ".2").rename(tmp_path / "2")
    end = time.monotonic() + 20
    while scale_of(catalogue) == 10:
        assert time.monotonic() < end
    assert scale_of(catalogue) == 100
    catalogue.close()
