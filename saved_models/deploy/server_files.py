"""Writes the files for serving an exported model with TF Serving.

The folder `templates` contains their text, to which the server's configuration is added.
"""

import os
from importlib import resources
from pathlib import Path
from string import Template
from textwrap import fill, indent
from typing import Any

from google.protobuf import text_format
from google.protobuf.message import DecodeError, Message
from tensorflow.core.framework import types_pb2
from tensorflow.core.protobuf import saved_model_pb2

from elmo_tf.files import atomic_directory, refuse_directory
from elmo_tf.saved_models.config_protos import (
    METRICS_PATH,
    BatchingParameters,
    ModelServerConfig,
    MonitoringConfig,
)
from elmo_tf.saved_models.deploy.server_options import ServerOptions
from elmo_tf.saved_models.folders import versions_in
from elmo_tf.saved_models.operations import needed_operations

FOLDER = "serving"  # next to the versions: TF Serving ignores folders whose names are not numbers
_FILES = (
    *("models.config", "batching_parameters.txt", "monitoring.config"),
    *("compose.yaml", "kubernetes.yaml"),
)

_POLL_SECONDS = 60
_BATCH_TIMEOUT_MICROS = 5000
_QUEUED_BATCHES_PER_THREAD = 4
_MIB = 2**20


def write_server_files(
    directory: str | os.PathLike, name: str = "elmo", overwrite: bool = False, **options: Any
) -> str:
    """Writes `directory/serving/`, the files for serving an exported model with TF Serving.

    These are the server's configuration `models.config`, `batching_parameters.txt` and
    `monitoring.config`, and `compose.yaml` and `kubernetes.yaml`, which start the server.

    Args:
        directory: contains the versions of an exported model.
        name: the model's name in requests.
        overwrite: whether to replace files of an earlier call.
        options: see `ServerOptions`.

    Returns:
        The path of the folder.

    Raises:
        FileNotFoundError: the directory contains no exported model.
        FileExistsError: the folder exists and `overwrite` is false, or it contains other files.
        ValueError: an option is not allowed, or a version does not exist.
    """
    options = ServerOptions(name=name, **options)
    folder = Path(directory, FOLDER)
    refuse_directory(folder, overwrite, _FILES)
    versions = versions_in(Path(directory))
    if not versions:
        raise FileNotFoundError(
            f"There is no exported model in {os.fspath(directory)}: expected a numbered folder "
            "with saved_model.pb, as written by elmo-tf export."
        )
    loaded = [versions[number] for number in options.loaded(versions)]
    try:
        texts = _texts(options, Path(directory), loaded)
    except DecodeError as error:
        raise ValueError(
            f"A version in {os.fspath(directory)} is damaged: its saved_model.pb cannot be read "
            f"({error}). Export it again."
        ) from None
    with atomic_directory(folder, overwrite, _FILES) as part:
        for file, text in texts.items():
            (part / file).write_text(text, encoding="utf-8")
    return os.fspath(folder)


def _texts(options: ServerOptions, directory: Path, loaded: list[Path]) -> dict[str, str]:
    values = {
        **vars(options),
        "resource": options.name.lower().replace("_", "-"),
        "host": f"[{options.host}]" if ":" in options.host else options.host,
        "metrics_path": METRICS_PATH,
        "poll_seconds": _POLL_SECONDS,
        "user": f"{directory.stat().st_uid}:{directory.stat().st_gid}",
        "notes": _notes(loaded),
        **_memory(directory, loaded),
    }
    monitoring = MonitoringConfig(prometheus_config={"enable": True, "path": METRICS_PATH})
    messages = {
        "models.config": _models_config(options),
        "batching_parameters.txt": _batching_parameters(options),
        "monitoring.config": monitoring,
    }
    texts = {
        file: _filled(file, values, message=text_format.MessageToString(message).rstrip())
        for file, message in messages.items()
    }
    arguments = "\n".join(f'- "{argument}"' for argument in _arguments(options))
    texts["compose.yaml"] = _filled("compose.yaml", values, arguments=indent(arguments, 6 * " "))
    texts["kubernetes.yaml"] = _filled(
        "kubernetes.yaml",
        values,
        arguments=indent(arguments, 12 * " "),
        **{
            file.partition(".")[0] + "_text": indent(text, " " * 4).rstrip()
            for file, text in texts.items()
            if file in messages
        },
    )
    return texts


def _models_config(options: ServerOptions) -> Message:
    config = ModelServerConfig()
    model = config.model_config_list.config.add(
        name=options.name,
        base_path=options.base_path,
        model_platform="tensorflow",
        version_labels=options.labels,
    )
    if options.versions == "all":
        model.model_version_policy.all.SetInParent()
    elif options.named_versions:
        model.model_version_policy.specific.versions.extend(options.named_versions)
    else:
        model.model_version_policy.latest.num_versions = options.latest
    return config


def _batching_parameters(options: ServerOptions) -> Message:
    parameters = BatchingParameters(pad_variable_length_inputs=True)
    parameters.max_batch_size.value = options.max_batch_size
    parameters.batch_timeout_micros.value = _BATCH_TIMEOUT_MICROS
    parameters.max_enqueued_batches.value = _QUEUED_BATCHES_PER_THREAD * options.cores
    parameters.num_batch_threads.value = options.cores
    size = 1
    while size < options.max_batch_size:
        parameters.allowed_batch_sizes.append(size)
        size *= 2
    parameters.allowed_batch_sizes.append(options.max_batch_size)
    return parameters


def _arguments(options: ServerOptions) -> list[str]:
    """Returns the arguments of the server."""
    # As in threads.py: the two directions of a biLM keep two cores busy.
    intra_op = 1 if options.cores <= 2 else options.cores
    arguments = [
        "--port=8500",
        "--rest_api_port=8501",
        "--model_config_file=/config/models.config",
        f"--model_config_file_poll_wait_seconds={_POLL_SECONDS}",
        "--enable_batching=true",
        "--batching_parameters_file=/config/batching_parameters.txt",
        "--monitoring_config_file=/config/monitoring.config",
        f"--tensorflow_intra_op_parallelism={intra_op}",
        f"--tensorflow_inter_op_parallelism={options.cores}",
    ]
    if options.labels:
        arguments.append("--allow_version_labels_for_unavailable_models=true")
    return arguments


def _memory(directory: Path, loaded: list[Path]) -> dict[str, int]:
    """Estimates memory and storage in MiB; the templates explain how."""
    weights = sum(_size(version / "variables") for version in loaded)
    memory = 2 * weights + 1024
    return {
        "weights": weights,
        "memory": memory,
        "memory_limit": 2 * memory,
        "storage": max(1024, 2 * _size(directory)),
    }


def _size(folder: Path) -> int:
    """Returns the total size of all files in a folder, in MiB, rounded up."""
    num_bytes = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    return -(-num_bytes // _MIB)


def _notes(loaded: list[Path]) -> str:
    """Returns comments about the server and processor that the versions need."""
    notes = []
    if operations := sorted({name for version in loaded for name in needed_operations(version)}):
        notes.append(
            f"The model needs operations that are not in TensorFlow itself: "
            f"{', '.join(operations)}. The server must be built with them."
        )
    if any(_multiplies_in_bfloat16(version) for version in loaded):
        notes.append(
            "The model multiplies in bfloat16, which is fast on processors with avx512_bf16 or "
            "amx_bf16, and slow on all others. Its weights are float32, on disk and in memory."
        )
    return "".join(
        "#\n" + fill(note, 100, initial_indent="# ", subsequent_indent="# ") + "\n"
        for note in notes
    )


def _multiplies_in_bfloat16(version: Path) -> bool:
    content = saved_model_pb2.SavedModel.FromString((version / "saved_model.pb").read_bytes())
    return any(
        value.type == types_pb2.DT_BFLOAT16
        for graph in content.meta_graphs
        for function in graph.graph_def.library.function
        for node in function.node_def
        if "MatMul" in node.op
        for value in node.attr.values()
    )


def _filled(file: str, values: dict[str, Any], **more: str) -> str:
    template = resources.files(__package__).joinpath("templates", file)
    return Template(template.read_text(encoding="utf-8")).substitute(values, **more)
