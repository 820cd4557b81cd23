"""Files for the standard TF Serving, written beside an exported model."""

import os
import shutil
import subprocess
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from elmo_tf.saved_models import serve
from elmo_tf.saved_models.config_protos import (
    read_batching_parameters,
    read_models_config,
    read_monitoring_config,
)
from elmo_tf.saved_models.deploy.server_files import write_server_files
from elmo_tf.saved_models.folders import versions_in

READ_BY_THE_SERVER = ["batching_parameters.txt", "models.config", "monitoring.config"]
FILES = [*READ_BY_THE_SERVER, "compose.yaml", "kubernetes.yaml"]
LABELS_FLAG = "--allow_version_labels_for_unavailable_models=true"


@pytest.fixture
def directory(tmp_path, model_directory):
    """Versions 1 and 2 of a small model, in a folder that a test may change."""
    return Path(shutil.copytree(model_directory, tmp_path / "exported"))


def written(directory, *arguments, **options):
    return Path(write_server_files(directory, *arguments, **options))


def model_of(folder):
    (model,) = read_models_config(folder / "models.config").model_config_list.config
    return model


def service_of(folder):
    (service,) = yaml.safe_load((folder / "compose.yaml").read_text())["services"].values()
    return service


def manifests_of(folder):
    documents = yaml.safe_load_all((folder / "kubernetes.yaml").read_text())
    return {document["kind"]: document for document in documents}


def container_of(folder):
    (container,) = manifests_of(folder)["Deployment"]["spec"]["template"]["spec"]["containers"]
    return container


def test_the_folder_of_files_is_not_a_version(directory):
    folder = written(directory)

    assert folder == directory / "serving"
    assert sorted(os.listdir(folder)) == sorted(FILES)
    assert sorted(versions_in(directory)) == [1, 2]


def test_the_newest_version_is_loaded_from_the_mounted_folder(directory):
    folder = written(directory)

    model = model_of(folder)
    assert (model.name, model.base_path) == ("elmo", "/models/elmo")
    assert model.model_platform == "tensorflow"
    assert model.model_version_policy.latest.num_versions == 1
    mounts = {mount["target"]: mount for mount in service_of(folder)["volumes"]}
    assert (folder / mounts["/models/elmo"]["source"]).resolve() == directory
    assert (folder / mounts["/config"]["source"]).resolve() == folder
    assert all(mount["read_only"] for mount in mounts.values())
    assert {mount["mountPath"] for mount in container_of(folder)["volumeMounts"]} >= {*mounts}


@pytest.mark.parametrize(
    ("options", "policy"),
    [
        ({"latest": 3}, "latest { num_versions: 3 }"),
        ({"labels": {"old": 1}}, "specific { versions: 1 }"),
        ({"versions": [2], "labels": {"old": 1}}, "specific { versions: 1 versions: 2 }"),
        ({"versions": "all", "labels": {"old": 1}}, "all { }"),
    ],
)
def test_the_requested_versions_become_a_policy(directory, options, policy):
    model = model_of(written(directory, **options))
    assert " ".join(str(model.model_version_policy).split()) == policy
    assert dict(model.version_labels) == options.get("labels", {})


def test_labels_add_the_flag_for_unavailable_models(directory):
    folder = written(directory)
    assert LABELS_FLAG not in service_of(folder)["command"]

    folder = written(directory, overwrite=True, labels={"stable": 1, "canary": 2})
    assert dict(model_of(folder).version_labels) == {"stable": 1, "canary": 2}
    assert LABELS_FLAG in service_of(folder)["command"]
    assert LABELS_FLAG in container_of(folder)["args"]


def test_batching_parameters_follow_batch_size_and_cores(directory):
    parameters = read_batching_parameters(
        written(directory, cores=3, max_batch_size=48) / "batching_parameters.txt"
    )

    assert parameters.max_batch_size.value == 48
    assert list(parameters.allowed_batch_sizes) == [1, 2, 4, 8, 16, 32, 48]
    assert parameters.num_batch_threads.value == 3
    assert 3 < parameters.max_enqueued_batches.value < 100
    assert 0 < parameters.batch_timeout_micros.value < 100_000
    assert parameters.pad_variable_length_inputs


def test_prometheus_annotations_match_the_metrics_path(directory):
    folder = written(directory)

    config = read_monitoring_config(folder / "monitoring.config").prometheus_config
    assert config.enable
    annotations = manifests_of(folder)["Service"]["metadata"]["annotations"]
    assert annotations["prometheus.io/path"] == config.path == "/monitoring/prometheus/metrics"
    assert annotations["prometheus.io/port"] == "8501"


def test_compose_and_kubernetes_pass_the_same_arguments(directory):
    folder = written(directory, cores=2)

    command = service_of(folder)["command"]
    assert container_of(folder)["args"] == command
    options = dict(argument.removeprefix("--").split("=") for argument in command)
    named = [value for value in options.values() if value.startswith("/config/")]
    assert sorted(Path(value).name for value in named) == sorted(READ_BY_THE_SERVER)
    assert all((folder / Path(value).name).is_file() for value in named)
    assert options["enable_batching"] == "true"
    assert options["tensorflow_intra_op_parallelism"] == "1"
    assert options["tensorflow_inter_op_parallelism"] == "2"
    assert (
        "--tensorflow_intra_op_parallelism=5"
        in service_of(written(directory, cores=5, overwrite=True))["command"]
    )


def test_compose_restricts_the_server(directory):
    service = service_of(written(directory, image="registry:5000/serving:1.2", port=9500))

    assert service["image"] == "registry:5000/serving:1.2"
    assert service["ports"] == ["127.0.0.1:9500:8500", "127.0.0.1:8501:8501"]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["user"] == f"{os.stat(directory).st_uid}:{os.stat(directory).st_gid}"
    service = service_of(written(directory, host="::1", overwrite=True))
    assert service["ports"] == ["[::1]:8500:8500", "[::1]:8501:8501"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="the image has bash, this machine has not")
def test_the_health_check_fails_without_the_model(directory):
    program, *arguments = service_of(written(directory))["healthcheck"]["test"]
    assert program == "CMD"

    def check(port, name="elmo"):
        call = [
            part.replace("8501", str(port)).replace("models/elmo", f"models/{name}")
            for part in arguments
        ]
        return subprocess.run(call, capture_output=True, timeout=20, check=False).returncode

    with serve(directory, port=0, rest_port=0) as server:
        assert check(server.rest_port) == 0
        assert check(server.rest_port, "other") != 0
    assert check(server.rest_port) != 0


@pytest.mark.parametrize(
    "options", [{}, {"name": "elmo_Small-2", "labels": {"stable": 1}, "base_path": "/m"}]
)
def test_the_manifests_are_valid_for_kubernetes(directory, options):
    manifests = manifests_of(written(directory, **options))

    assert sorted(manifests) == ["ConfigMap", "Deployment", "PersistentVolumeClaim", "Service"]
    for manifest in manifests.values():
        kubernetes_validate.validate(manifest, kubernetes_validate.latest_version(), strict=True)


def test_the_manifests_refer_to_each_other(directory):
    folder = written(directory, "elmo_Small")

    manifests = manifests_of(folder)
    config = manifests["ConfigMap"]
    assert config["data"] == {file: (folder / file).read_text() for file in READ_BY_THE_SERVER}
    pod = manifests["Deployment"]["spec"]["template"]
    volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
    assert volumes["config"]["configMap"]["name"] == config["metadata"]["name"]
    claim = manifests["PersistentVolumeClaim"]["metadata"]["name"]
    assert volumes["model"]["persistentVolumeClaim"]["claimName"] == claim
    container = container_of(folder)
    assert {mount["name"] for mount in container["volumeMounts"]} == {*volumes}
    service = manifests["Service"]["spec"]
    labels = pod["metadata"]["labels"]
    assert manifests["Deployment"]["spec"]["selector"]["matchLabels"] == labels
    assert service["selector"] == labels
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert {port["targetPort"]: port["port"] for port in service["ports"]} == ports
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"] == {"path": "/v1/models/elmo_Small", "port": "rest"}


def test_memory_follows_the_size_of_the_loaded_weights(directory):
    for version, size in (("1", 200), ("2", 300)):  # MiB, rounded up
        with open(directory / version / "variables" / "more", "wb") as file:
            file.truncate(size * 2**20 - 500_000)

    resources = container_of(written(directory))["resources"]
    assert resources["requests"]["memory"] == f"{2 * 300 + 1024}Mi"
    assert resources["limits"]["memory"] == f"{2 * (2 * 300 + 1024)}Mi"
    folder = written(directory, versions="all", overwrite=True)
    assert container_of(folder)["resources"]["requests"]["memory"] == f"{2 * 500 + 1024}Mi"
    assert service_of(folder)["deploy"]["resources"]["reservations"]["memory"] == "2024M"


def test_files_are_replaced_only_with_overwrite(directory):
    written(directory)
    with pytest.raises(FileExistsError, match=r"serving exists\. .*--overwrite"):
        write_server_files(directory, "other")
    assert model_of(directory / "serving").name == "elmo"

    assert model_of(written(directory, "other", overwrite=True)).name == "other"

    (directory / "serving" / "prometheus.yml").touch()
    with pytest.raises(FileExistsError, match=r"contains other files: prometheus\.yml"):
        write_server_files(directory, overwrite=True)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"name": "a b"}, "`name` must be at most 40 letters"),
        ({"base_path": "models/elmo"}, "`base_path` must be an absolute path"),
        ({"image": "serving 2"}, "`image` must be the name of an image"),
        ({"labels": {"a/b": 1}}, "A label must be letters, .*not 'a/b'"),
        ({"versions": [2, 4], "labels": {"a": 5}}, r"is no version 4, 5\. Found: 1, 2\."),
        ({"versions": "2"}, "`versions` must be 'all' or numbers, not '2'"),
        ({"versions": 2}, "`versions` must be 'all' or numbers, not 2"),
        ({"host": "localhost"}, "`host` must be an address of this machine, .*not 'localhost'"),
        ({"latest": 0}, "`latest` must be at least 1, not 0"),
        ({"latest": 2, "labels": {"a": 1}}, "`latest` excludes `versions` and `labels`"),
        ({"port": 65536}, "`port` must be a port, from 1 to 65535"),
        ({"port": 8501}, "`port` and `rest_port` must differ, but are both 8501"),
    ],
)
def test_invalid_options_are_refused_and_write_no_files(directory, options, reason):
    with pytest.raises(ValueError, match=reason):
        write_server_files(directory, **options)
    assert not (directory / "serving").exists()


def test_a_missing_or_damaged_model_is_refused(tmp_path, directory):
    with pytest.raises(FileNotFoundError, match=r"There is no exported model in .*nowhere"):
        write_server_files(tmp_path / "nowhere")
    (directory / "2" / "saved_model.pb").write_bytes(b"\xff" * 100)
    with pytest.raises(ValueError, match=r"is damaged: its saved_model\.pb cannot be read"):
        write_server_files(directory)
    assert not (directory / "serving").exists()


def test_the_command_replaces_files_only_with_overwrite(directory, command):
    call = "server-files", directory, "--label", "stable=1", "--label", "new=2", "--cores", 3

    status, out, err = command(*call)
    assert status == 0, err
    assert out == f"{directory / 'serving'}\n"
    assert dict(model_of(directory / "serving").version_labels) == {"stable": 1, "new": 2}
    status, _, err = command(*call)
    assert status == 2
    assert "exists. Choose another path or add --overwrite" in err
    status, _, err = command(*call[:2], "--overwrite", "--all-versions", "--max-batch-size", 5)
    assert status == 0, err
    assert model_of(directory / "serving").model_version_policy.HasField("all")
    parameters = read_batching_parameters(directory / "serving" / "batching_parameters.txt")
    assert list(parameters.allowed_batch_sizes) == [1, 2, 4, 5]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--label", "stable"), "must be LABEL=VERSION, such as stable=1, not 'stable'"),
        (("--label", "stable=x"), "must be an integer of at least 0, not 'x'"),
        (("--label", "a=1", "--label", "a=2"), "--label names a label twice"),
        (("--latest", 2, "--all-versions"), "not allowed with"),
    ],
)
def test_an_invalid_call_of_the_command_has_status_2(directory, command, arguments, reason):
    status, _, err = command("server-files", directory, *arguments)

    assert status == 2
    assert reason in err
