"""TF Serving's REST interface: paths and JSON ◄─► the catalogue.

    GET  /v1/models/{model}[/versions/{version}]            → the states of its versions
    GET  /v1/models/{model}[/versions/{version}]/metadata   → its signatures
    POST /v1/models/{model}[/versions/{version}]:predict
         {"signature_name": …, "instances": [one per row]}  → {"predictions": [one per row]}
         {"signature_name": …, "inputs": tensors}           → {"outputs": tensors}

/labels/{label} may replace /versions/{version} in the last two.
"""

import contextlib
import re
import time
import urllib.parse
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from google.protobuf import json_format
from google.protobuf.message import Message
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_pb2,
    predict_pb2,
)

from elmo_tf.saved_models.server import rest_json
from elmo_tf.saved_models.server.catalogue import Catalogue
from elmo_tf.saved_models.server.errors import invalid, shortened, status_code
from elmo_tf.saved_models.server.metrics import Metrics

_MODEL = r"/v1/models/([^/:]+)(?:/versions/(\d{1,18})|/labels/([^/:]+))?"
_PATHS = {
    "GET": re.compile(_MODEL + "(/metadata)?", re.IGNORECASE),
    "POST": re.compile(_MODEL + "(:predict)", re.IGNORECASE),
}


def answer(
    catalogue: Catalogue, metrics: Metrics, method: str, path: str, body: bytes
) -> dict[str, Any]:
    """Answers one request: `"GET"` or `"POST"`, a path without a query, a JSON body.

    Raises:
        tf.errors.OpError: the request is rejected or fails.
    """
    found = _PATHS[method].fullmatch(path)
    if found is None:
        raise invalid(
            f"Malformed request: {method} {shortened(path)}. This server knows GET "
            "/v1/models/NAME, GET /v1/models/NAME/metadata and POST /v1/models/NAME:predict, with "
            "/versions/NUMBER or /labels/LABEL after NAME for a version other than the newest."
        )
    name, version, label, action = found.groups()
    spec = model_pb2.ModelSpec(name=urllib.parse.unquote(name))
    if version is not None:
        spec.version.value = int(version)
    elif label is not None:
        spec.version_label = urllib.parse.unquote(label)
    if method == "POST":
        with _measured(catalogue, metrics, spec.name):
            return _predict(catalogue, spec, body)
    if action:
        return _metadata(catalogue, spec)
    return _as_dict(catalogue.status(get_model_status_pb2.GetModelStatusRequest(model_spec=spec)))


@contextlib.contextmanager
def _measured(catalogue: Catalogue, metrics: Metrics, name: str) -> Iterator[None]:
    name = name if name in catalogue.names else ""
    start_time, status = time.monotonic(), "INTERNAL"
    try:
        yield
        status = "OK"
        metrics.observe_latency(name, "Predict", "REST", time.monotonic() - start_time)
    except tf.errors.OpError as error:
        status = status_code(error).name
        raise
    finally:
        metrics.count_request(name, status)


def _predict(catalogue: Catalogue, spec: model_pb2.ModelSpec, body: bytes) -> dict[str, Any]:
    document = rest_json.parse(body)
    spec.signature_name = document.get("signature_name", "")
    request = predict_pb2.PredictRequest(model_spec=spec)

    def add_inputs(infos):
        for name, tensor in rest_json.input_tensors(document, infos, catalogue.limits).items():
            request.inputs[name].CopyFrom(tensor)

    response = catalogue.predict(request, add_inputs=add_inputs)
    outputs = {name: tf.make_ndarray(response.outputs[name]) for name in sorted(response.outputs)}
    if "instances" in document:
        return {"predictions": rest_json.rows(outputs)}
    return {"outputs": rest_json.columns(outputs)}


def _metadata(catalogue: Catalogue, spec: model_pb2.ModelSpec) -> dict[str, Any]:
    response = catalogue.metadata(
        get_model_metadata_pb2.GetModelMetadataRequest(
            model_spec=spec, metadata_field=["signature_def"]
        )
    )
    signatures = get_model_metadata_pb2.SignatureDefMap()
    response.metadata["signature_def"].Unpack(signatures)
    return {
        "model_spec": _as_dict(response.model_spec),
        "metadata": {"signature_def": _as_dict(signatures)},
    }


def _as_dict(message: Message) -> dict[str, Any]:
    return json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
