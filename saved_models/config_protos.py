"""Text files that configure a model server ─► messages, by TF Serving's definitions.

The wheel tensorflow-serving-api has the message of `models.config`, but not those of batching and
monitoring: these are declared here, under the names and types that TF Serving gives them.
"""

import itertools
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

_PACKAGE = "tensorflow.serving"
_FILE = "elmo_tf/serving_config.proto"

_FIELD = descriptor_pb2.FieldDescriptorProto
_INT64_VALUE = ".google.protobuf.Int64Value"
_BOOL_VALUE = ".google.protobuf.BoolValue"
_STRING_VALUE = ".google.protobuf.StringValue"

# Per message: the name, the type and the repetition of its fields, which are numbered from 1. In
# text, which is all that is read and written here, a field goes by its name.
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


def _declared() -> descriptor_pool.DescriptorPool:
    """A pool of its own, where nothing clashes with another wheel's copy of these messages."""
    file = descriptor_pb2.FileDescriptorProto(
        name=_FILE,
        package=_PACKAGE,
        syntax="proto3",
        dependency=[wrappers_pb2.DESCRIPTOR.name],
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, (field, kind, *label) in enumerate(fields, 1):
            declared = message.field.add(name=field, number=number)
            declared.label = label[0] if label else _FIELD.LABEL_OPTIONAL
            if isinstance(kind, str):
                declared.type_name = kind
                declared.type = _FIELD.TYPE_MESSAGE
            else:
                declared.type = kind
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(wrappers_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return pool


_POOL = _declared()

ModelServerConfig = model_server_config_pb2.ModelServerConfig
BatchingParameters = message_factory.GetMessageClass(
    _POOL.FindMessageTypeByName(f"{_PACKAGE}.BatchingParameters")
)
MonitoringConfig = message_factory.GetMessageClass(
    _POOL.FindMessageTypeByName(f"{_PACKAGE}.MonitoringConfig")
)

# TF Serving's own, for a file that names none.
DEFAULT_MAX_BATCH_SIZE = 1000


def read_models_config(path: str | os.PathLike) -> ModelServerConfig:
    """Reads `models.config`: which models and versions a server loads, and their labels.

    Raises:
        ValueError: the file is not a text of that message; file and line are named.
        OSError: it cannot be read.
    """
    return _read(path, ModelServerConfig())


def read_batching_parameters(path: str | os.PathLike) -> Message:
    """Reads `batching_parameters.txt`: how a server puts requests together.

    Returns:
        A `BatchingParameters`. `HasField` tells what the file leaves to the server; numbers stand
        in their `.value`.

    Raises:
        ValueError: the file is not a text of that message; file and line are named. Or it asks for
            what TF Serving refuses: a size or count below 1, a timeout below 0, allowed sizes that
            do not rise to the largest batch.
        OSError: it cannot be read.
    """
    parameters = _read(path, BatchingParameters())
    _check_counts(path, parameters)
    _check_allowed_sizes(path, parameters)
    return parameters


def read_monitoring_config(path: str | os.PathLike) -> Message:
    """Reads `monitoring.config`: whether and where a server tells Prometheus its metrics.

    Returns:
        A `MonitoringConfig`.

    Raises:
        ValueError: the file is not a text of that message; file and line are named. Or the path of
            the metrics does not begin with a slash.
        OSError: it cannot be read.
    """
    config = _read(path, MonitoringConfig())
    metrics = config.prometheus_config.path
    if metrics and not metrics.startswith("/"):
        raise ValueError(
            f"{os.fspath(path)}: the `path` of the metrics must begin with a slash, but is "
            f"{metrics!r}."
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
        # Its own text begins with line and column, where it knows them.
        line = f", line {error.GetLine()}" if error.GetLine() else ""
        reason = str(error).removeprefix(f"{error.GetLine()}:{error.GetColumn()} : ")
        raise ValueError(
            f"{os.fspath(path)}{line}: this is not a text of {message.DESCRIPTOR.full_name}. "
            f"{reason}"
        ) from None


def _check_counts(path: str | os.PathLike, parameters: Message) -> None:
    least = {
        "max_batch_size": 1,
        "batch_timeout_micros": 0,
        "max_enqueued_batches": 1,
        "num_batch_threads": 1,
        "max_execution_batch_size": 1,
    }
    for name, lowest in least.items():
        value = getattr(parameters, name).value
        if parameters.HasField(name) and value < lowest:
            raise ValueError(
                f"{os.fspath(path)}: `{name}` must be at least {lowest}, but is {value}."
            )


def _check_allowed_sizes(path: str | os.PathLike, parameters: Message) -> None:
    allowed = list(parameters.allowed_batch_sizes)
    if not allowed:
        return
    if allowed[0] < 1 or any(size >= larger for size, larger in itertools.pairwise(allowed)):
        raise ValueError(
            f"{os.fspath(path)}: `allowed_batch_sizes` must rise from at least 1, but are "
            f"{allowed}."
        )
    largest = (
        parameters.max_batch_size.value
        if parameters.HasField("max_batch_size")
        else DEFAULT_MAX_BATCH_SIZE
    )
    if parameters.enable_large_batch_splitting.value and parameters.HasField(
        "max_execution_batch_size"
    ):
        largest = parameters.max_execution_batch_size.value
    if allowed[-1] != largest:
        raise ValueError(
            f"{os.fspath(path)}: the last of `allowed_batch_sizes` must be the size of the "
            f"largest batch, {largest}, but is {allowed[-1]}."
        )
