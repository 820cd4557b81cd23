"""Reads TF Serving's configuration files, which are protobuf messages in text format.

The package tensorflow-serving-api lacks the messages for batching and monitoring: they are declared
here, with TF Serving's names and types.
"""

import os
from pathlib import Path

from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    text_format,
    wrappers_pb2,
)
from google.protobuf.message import Message
from tensorflow_serving.config import model_server_config_pb2

METRICS_PATH = "/monitoring/prometheus/metrics"  # if a monitoring.config names none

_PACKAGE = "tensorflow.serving"
_FIELD = descriptor_pb2.FieldDescriptorProto
_INT64_VALUE = ".google.protobuf.Int64Value"
_BOOL_VALUE = ".google.protobuf.BoolValue"
_STRING_VALUE = ".google.protobuf.StringValue"

# Name, type and label of the fields of each message. Text format uses the field names, so that the
# field numbers do not matter.
_MESSAGES = {
    "BatchingParameters": (
        ("max_batch_size", _INT64_VALUE),
        ("batch_timeout_micros", _INT64_VALUE),
        ("max_enqueued_batches", _INT64_VALUE),
        ("num_batch_threads", _INT64_VALUE),
        ("thread_pool_name", _STRING_VALUE),
        ("allowed_batch_sizes", _FIELD.TYPE_INT64, _FIELD.LABEL_REPEATED),
        ("pad_variable_length_inputs", _FIELD.TYPE_BOOL),
        ("enable_large_batch_splitting", _BOOL_VALUE),
        ("max_execution_batch_size", _INT64_VALUE),
    ),
    "PrometheusConfig": (
        ("enable", _FIELD.TYPE_BOOL),
        ("path", _FIELD.TYPE_STRING),
    ),
    "MonitoringConfig": (("prometheus_config", f".{_PACKAGE}.PrometheusConfig"),),
}


def _message_pool() -> descriptor_pool.DescriptorPool:
    """Declares the messages in a separate pool, to avoid conflicts with other declarations."""
    file = descriptor_pb2.FileDescriptorProto(
        name="elmo_tf/serving_config.proto",
        package=_PACKAGE,
        syntax="proto3",
        dependency=[wrappers_pb2.DESCRIPTOR.name],
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, (field_name, field_type, *label) in enumerate(fields, 1):
            field = message.field.add(name=field_name, number=number)
            field.label = label[0] if label else _FIELD.LABEL_OPTIONAL
            if isinstance(field_type, str):
                field.type_name = field_type
                field.type = _FIELD.TYPE_MESSAGE
            else:
                field.type = field_type
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(wrappers_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return pool


_POOL = _message_pool()

ModelServerConfig = model_server_config_pb2.ModelServerConfig
BatchingParameters = message_factory.GetMessageClass(
    _POOL.FindMessageTypeByName(f"{_PACKAGE}.BatchingParameters")
)
MonitoringConfig = message_factory.GetMessageClass(
    _POOL.FindMessageTypeByName(f"{_PACKAGE}.MonitoringConfig")
)


def read_models_config(path: str | os.PathLike) -> ModelServerConfig:
    """Reads `models.config`: the models, versions and labels of a server.

    Raises:
        ValueError: the file cannot be parsed; the message names file and line.
    """
    return _read(path, ModelServerConfig())


def read_batching_parameters(path: str | os.PathLike) -> Message:
    """Reads `batching_parameters.txt`: how a server batches requests.

    Returns:
        A `BatchingParameters`. `HasField` is false for omitted fields; numbers have a `.value`.

    Raises:
        ValueError: the file cannot be parsed; the message names file and line.
    """
    return _read(path, BatchingParameters())


def read_monitoring_config(path: str | os.PathLike) -> Message:
    """Reads `monitoring.config`: whether a server exports Prometheus metrics, and at which path.

    Raises:
        ValueError: the file cannot be parsed, or the path does not begin with a slash.
    """
    config = _read(path, MonitoringConfig())
    metrics_path = config.prometheus_config.path
    if metrics_path and not metrics_path.startswith("/"):
        raise ValueError(
            f"{os.fspath(path)}: the `path` of the metrics must begin with a slash, but is "
            f"{metrics_path!r}."
        )
    return config


def _read(path: str | os.PathLike, message: Message) -> Message:
    try:
        text = Path(path).read_text(encoding="utf-8")
        return text_format.Parse(text, message)
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ValueError(f"{os.fspath(path)}, line {line}: the text is not UTF-8.") from None
    except text_format.ParseError as error:
        # The error text begins with line and column, if they are known.
        line = f", line {error.GetLine()}" if error.GetLine() else ""
        reason = str(error).removeprefix(f"{error.GetLine()}:{error.GetColumn()} : ")
        raise ValueError(
            f"{os.fspath(path)}{line}: cannot parse a {message.DESCRIPTOR.full_name}: {reason}"
        ) from None
