"""The files in examples/serving and examples/pretraining are valid and agree with each other."""

import json
import re
from pathlib import Path

import kubernetes_validate
import yaml

FOLDER = Path(__file__).parents[2] / "examples" / "serving"
# The fields of TF Serving's messages.
BATCHING = {
    *("max_batch_size", "batch_timeout_micros", "max_enqueued_batches", "num_batch_threads"),
    *("value", "allowed_batch_sizes", "pad_variable_length_inputs"),
}
MONITORING = {"prometheus_config", "enable", "path"}


def fields(file, known):
    """The values of each field of a message in text format; all names must be known."""
    text = re.sub("#.*", "", (FOLDER / file).read_text(encoding="utf-8"))
    assert set(re.findall(r"(\w+)\s*[:{]", text)) == known
    values = {}
    for name, value in re.findall(r"(\w+)(?: \{ value)?: (\S+)", text):
        values.setdefault(name, []).append(json.loads(value))
    return values


def test_batching_parameters():
    parameters = fields("batching_parameters.txt", BATCHING)
    assert parameters["max_batch_size"] == [max(parameters["allowed_batch_sizes"])]
    assert parameters["pad_variable_length_inputs"] == [True]


def test_kubernetes_and_compose_start_the_server_alike():
    claim, deployment, service = yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text())
    for manifest in (claim, deployment, service):
        kubernetes_validate.validate(manifest, "1.31", strict=True)
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    (compose,) = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"].values()
    assert container["args"] == compose["command"]
    assert (container["image"], container["command"]) == (compose["image"], compose["entrypoint"])
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == set(volumes)
    assert volumes["model"]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert mounted == {mount.split(":")[1] for mount in compose["volumes"]} | set(compose["tmpfs"])
    options = dict(argument.removeprefix("--").split("=") for argument in compose["command"])
    for option in ("batching_parameters_file", "monitoring_config_file"):
        assert FOLDER.joinpath(options[option].removeprefix("/config/")).is_file()
    assert options["model_base_path"] in mounted

    metrics = fields("monitoring.config", MONITORING)
    annotations = service["metadata"]["annotations"]
    assert metrics["enable"] == [True]
    assert metrics["path"] == [annotations["prometheus.io/path"]]
    assert annotations["prometheus.io/port"] == options["rest_api_port"]


def test_kubernetes_job_of_pretraining_is_valid():
    path = FOLDER.parent / "pretraining" / "kubernetes.yaml"
    for manifest in yaml.safe_load_all(path.read_text("utf-8")):
        kubernetes_validate.validate(manifest, "1.31", strict=True)
