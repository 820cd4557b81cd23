"""The files for TF Serving in examples/serving are valid and agree with each other."""

from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    text_format,
    wrappers_pb2,
)

FOLDER = Path(__file__).parents[2] / "examples" / "serving"
FIELD = descriptor_pb2.FieldDescriptorProto
INT64, STRING = ".google.protobuf.Int64Value", ".google.protobuf.StringValue"
# The fields of TF Serving's messages, which tensorflow-serving-api lacks. Text format uses
# names: the numbers do not matter.
MESSAGES = {
    "BatchingParameters": {
        **dict.fromkeys(("max_batch_size", "batch_timeout_micros", "max_enqueued_batches"), INT64),
        "num_batch_threads": INT64,
        "thread_pool_name": STRING,
        "allowed_batch_sizes": FIELD.TYPE_INT64,
        "pad_variable_length_inputs": FIELD.TYPE_BOOL,
    },
    "PrometheusConfig": {"enable": FIELD.TYPE_BOOL, "path": FIELD.TYPE_STRING},
    "MonitoringConfig": {"prometheus_config": ".tensorflow.serving.PrometheusConfig"},
}


@pytest.fixture(scope="module")
def parsed():
    """Parses a file of the folder as one of `MESSAGES`."""
    file = descriptor_pb2.FileDescriptorProto(
        name="serving.proto",
        package="tensorflow.serving",
        syntax="proto3",
        dependency=[wrappers_pb2.DESCRIPTOR.name],
    )
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, (field_name, kind) in enumerate(fields.items(), 1):
            is_repeated = field_name == "allowed_batch_sizes"
            label = FIELD.LABEL_REPEATED if is_repeated else FIELD.LABEL_OPTIONAL
            field = message.field.add(name=field_name, number=number, label=label)
            if isinstance(kind, str):
                field.type_name, kind = kind, FIELD.TYPE_MESSAGE
            field.type = kind
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(wrappers_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())

    def parse(name, file):
        descriptor = pool.FindMessageTypeByName(f"tensorflow.serving.{name}")
        message = message_factory.GetMessageClass(descriptor)()
        return text_format.Parse((FOLDER / file).read_text(encoding="utf-8"), message)

    return parse


def test_batching_parameters(parsed):
    parameters = parsed("BatchingParameters", "batching_parameters.txt")
    assert parameters.max_batch_size.value == max(parameters.allowed_batch_sizes)
    assert parameters.pad_variable_length_inputs


def test_kubernetes_and_compose_start_the_server_alike(parsed):
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

    metrics = parsed("MonitoringConfig", "monitoring.config").prometheus_config
    annotations = service["metadata"]["annotations"]
    assert metrics.enable
    assert annotations["prometheus.io/path"] == metrics.path
    assert annotations["prometheus.io/port"] == options["rest_api_port"]
