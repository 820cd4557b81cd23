"""The served model. Its newest version is loaded in a session, and swapped for a newer one.

Like TF Serving, this uses TF1-style sessions, so that models that fail there fail here, too.
"""

import contextlib
import copy
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent import futures
from pathlib import Path

import numpy as np
import prometheus_client
import tensorflow as tf
from absl import logging
from google.protobuf import wrappers_pb2
from grpc import StatusCode
from tensorflow.core.framework import tensor_pb2
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis.get_model_metadata_pb2 import GetModelMetadataResponse, SignatureDefMap
from tensorflow_serving.apis.get_model_status_pb2 import GetModelStatusResponse
from tensorflow_serving.apis.model_pb2 import ModelSpec
from tensorflow_serving.apis.predict_pb2 import PredictRequest, PredictResponse

from elmo_tf.processors import num_cores
from elmo_tf.saved_models.exporting.export import read_warmup, versions_in
from elmo_tf.saved_models.messages import LENGTHS, TEXT
from elmo_tf.saved_models.server.batching import (
    Batcher,
    Call,
    Limits,
    invalid,
    not_found,
    status_of,
)
from elmo_tf.saved_models.server.raw_text import BASE, RawText

_MICROSECONDS = [10 * 1.8**step for step in range(32)]  # TF Serving's buckets: up to 14 minutes
_POLL_SECONDS = 1.0  # between checks for new versions
_NO_LIMITS = Limits(2**31 - 1, 2**62)  # for warm-up requests
# TF Serving writes values into the field of their type, where clients in other languages expect
# them. Strings are there anyway.
_VALUE_FIELDS = {tf.int32: "int_val", tf.int64: "int64_val"}


class ServedModel:
    """The newest of the versions in a directory, with the name and the limits of requests.

    An old version is closed after its successor is loaded and its last request is answered. The
    attribute `registry` has the Prometheus metrics, with TF Serving's names. Thread-safe.
    """

    def __init__(self, name: str, directory: Path, limits: Limits):
        self.name = name
        self.limits = limits
        self.registry = registry = prometheus_client.CollectorRegistry()
        # A gauge that is only increased: to the name of a counter the library appends `_total`.
        metric, labels = ":tensorflow:serving:request_count", ["model_name", "status"]
        self._requests = prometheus_client.Gauge(metric, "Predictions.", labels, registry=registry)
        metric, labels = ":tensorflow:serving:request_latency", ["model_name", "API", "entrypoint"]
        self._latency = prometheus_client.Histogram(
            *(metric, "Microseconds.", labels), registry=registry, buckets=_MICROSECONDS
        )
        self._directory = directory
        self._current: LoadedVersion | None = None
        self._lock = threading.Lock()  # guards it, and the numbers of users of versions
        # The number and the last change of a newest version that cannot be loaded.
        self._failed: tuple[int, float] | None = None
        self._stopped = threading.Event()
        self._watch: threading.Thread | None = None

    def load(self) -> None:
        """Loads the newest version, unless it is loaded or failed before with the same files.

        If TensorFlow cannot load it, the loaded version serves on.
        """
        found = versions_in(self._directory)
        number = max(found, default=None)
        if number is None or (self._current is not None and self._current.number == number):
            return
        changed = max(file.stat().st_mtime for file in found[number].rglob("*"))
        if self._failed == (number, changed):
            return
        start_time = time.monotonic()
        self._failed = number, changed
        loaded = LoadedVersion(number, found[number], self.limits)
        self._failed = None
        logging.info("Loaded %s in %.1f s.", found[number], time.monotonic() - start_time)
        self._replace(loaded)

    def watch(self) -> None:
        """Starts a thread that checks for new versions."""

        def check() -> None:
            while not self._stopped.wait(_POLL_SECONDS):
                try:
                    self.load()
                except Exception as error:
                    logging.error("Cannot load a new version of %s: %s", self.name, error)

        self._watch = threading.Thread(target=check, name="versions", daemon=True)
        self._watch.start()

    @contextlib.contextmanager
    def version(self, spec: ModelSpec) -> Iterator["LoadedVersion"]:
        """Yields the newest version; it stays loaded within the block.

        A request that names another model or version is rejected.
        """
        if not spec.name:
            raise invalid("The request does not name a model.")
        if spec.name != self.name:
            raise not_found(f"There is no model {spec.name}, only {self.name}.")
        with self._lock:
            version = self._current
            if version is None:
                raise tf.errors.UnavailableError(None, None, "The server is shutting down.")
            if spec.WhichOneof("version_choice") and spec.version.value != version.number:
                message = f"Only the newest version of {self.name}, {version.number}, is served."
                raise not_found(message)
            version.num_users += 1
        try:
            yield version
        finally:
            self._release(version)

    @contextlib.contextmanager
    def counted(self, name: str, entrypoint: str) -> Iterator[None]:
        """Counts the prediction in the block, and records its latency if it succeeds.

        `name` is the model in the request, `entrypoint` is `"GRPC"` or `"REST"`.
        """
        start_time, code = time.monotonic(), StatusCode.OK
        # Unknown names share one label: otherwise clients could fill the memory.
        name = name if name == self.name else ""
        try:
            yield
            seconds = time.monotonic() - start_time
            self._latency.labels(name, "Predict", entrypoint).observe(1e6 * seconds)
        except Exception as error:
            code, _ = status_of(error)
            raise
        finally:
            self._requests.labels(name, code.name).inc()

    def metadata(self, spec: ModelSpec) -> GetModelMetadataResponse:
        """Answers `PredictionService.GetModelMetadata`."""
        with self.version(spec) as version:
            spec = {"name": self.name, "version": {"value": version.number}}
            response = GetModelMetadataResponse(model_spec=spec)
            signatures = SignatureDefMap(signature_def=version.signatures)
            response.metadata["signature_def"].Pack(signatures)
        return response

    def status(self, spec: ModelSpec) -> GetModelStatusResponse:
        """Answers `ModelService.GetModelStatus`."""
        # Set even to its defaults, so that `status` is present in the answer.
        status = {"error_code": 0, "error_message": ""}
        with self.version(spec) as version:
            found = {"version": version.number, "state": "AVAILABLE", "status": status}
        return GetModelStatusResponse(model_version_status=[found])

    def close(self) -> None:
        """Closes the version after its last request. Later requests are rejected."""
        self._stopped.set()
        if self._watch is not None:
            self._watch.join()
        self._replace(None)

    def _replace(self, new: "LoadedVersion | None") -> None:
        with self._lock:
            old, self._current = self._current, new
        if old is not None:
            self._release(old)

    def _release(self, version: "LoadedVersion") -> None:
        with self._lock:
            version.num_users -= 1
            if version.num_users:
                return
        version.close()
        logging.info("Unloaded %s, version %d.", self.name, version.number)


class LoadedVersion:
    """A version of a model. Loading it runs its warm-up requests, and fails if they fail."""

    def __init__(self, number: int, path: Path, limits: Limits):
        self.number = number
        self.num_users = 1  # running requests, and being the newest version
        self._limits = _NO_LIMITS
        # On two cores, splitting short operations costs more than it saves.
        config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=int(num_cores() <= 2))
        self._session = tf.compat.v1.Session(graph=tf.Graph(), config=config)
        self._batcher = Batcher(self.run, limits.max_batch_size)
        try:
            with self._session.graph.as_default():
                meta_graph = tf.compat.v1.saved_model.load(
                    self._session, [tf.saved_model.SERVING], os.fspath(path)
                )
            # Copies, so that the graph of `meta_graph` can be freed. That of initialization has no
            # method name.
            self.signatures = {
                name: copy.deepcopy(signature)
                for name, signature in meta_graph.signature_def.items()
                if signature.method_name
            }
            self._raw_text = RawText.of_version(path, self.signatures)
            if self._raw_text is not None:
                self.signatures[TEXT] = self._raw_text.signature
            for request in read_warmup(path):
                self.answer(request)
            self._limits = limits
        except BaseException:
            self.close()
            raise

    def answer(
        self, request: PredictRequest, arrays: futures.Future | None = None
    ) -> PredictResponse:
        """Answers `PredictionService.Predict`. The version in the request is ignored.

        `arrays` gets the outputs; the caller cancels it when the client does not wait any more.
        """
        spec = request.model_spec
        name, signature = self.signature(spec.signature_name)
        given, wanted = set(request.inputs), set(signature.inputs)
        if given != wanted:
            raise invalid(f"Expected the inputs {sorted(wanted)}, but got {sorted(given)}.")
        inputs = {a: array_of(a, proto, self._limits) for a, proto in request.inputs.items()}
        outputs = self.predict(name, inputs, request.output_filter, arrays)
        version = {"value": self.number}
        return PredictResponse(
            model_spec={"name": spec.name, "signature_name": name, "version": version},
            outputs={alias: proto_of(array) for alias, array in outputs.items()},
        )

    def signature(self, name: str) -> tuple[str, meta_graph_pb2.SignatureDef]:
        """Returns a signature and its name; `""` is the default signature."""
        name = name or "serving_default"
        if name not in self.signatures:
            names = ", ".join(sorted(self.signatures))
            message = f"The model has no signature {name!r}. Signatures: {names}"
            raise tf.errors.FailedPreconditionError(None, None, message)
        return name, self.signatures[name]

    def predict(
        self,
        name: str,
        inputs: Mapping[str, np.ndarray],
        output_filter: Sequence[str] = (),
        arrays: futures.Future | None = None,
    ) -> dict[str, np.ndarray]:
        """Returns the outputs of a signature, given all its inputs; see `answer`."""
        signature = self.signatures[name]
        for alias, info in signature.inputs.items():  # a session would convert other types
            expected, received = tf.as_dtype(info.dtype), tf.as_dtype(inputs[alias].dtype)
            if received != expected:
                raise invalid(f"{alias} must be {expected.name}, but is {received.name}.")
            shape = tf.TensorShape(info.tensor_shape)
            if not shape.is_compatible_with(found := inputs[alias].shape):
                raise invalid(f"{alias} must have the shape {shape}, but has {found}.")
        aliases = list(dict.fromkeys(map(str, output_filter))) or sorted(signature.outputs)
        for alias in set(aliases) - set(signature.outputs):
            names = ", ".join(sorted(signature.outputs))
            raise invalid(f"The signature {name} has no output {alias}. Outputs: {names}")
        # Before a tokenizer reads them.
        num_tokens = self._limits.check_tokens(inputs, is_raw=name == TEXT)
        if name == TEXT and self._raw_text is not None:
            inputs, found = self._raw_text.tokenized(inputs["strings"])
            wanted = [alias for alias in aliases if alias not in found] or [LENGTHS]
            outputs = found | self.predict(BASE, inputs, wanted, arrays)
            return {alias: outputs[alias] for alias in aliases}
        call = Call(name, signature, inputs, aliases, num_tokens, arrays or futures.Future())
        return dict(zip(aliases, self._batcher.run(call), strict=True))

    def run(self, call: Call) -> list[np.ndarray]:
        """Computes the outputs of a call, which has been checked."""
        signature = call.signature
        feeds = {signature.inputs[alias].name: array for alias, array in call.inputs.items()}
        return self._session.run([signature.outputs[alias].name for alias in call.aliases], feeds)

    def close(self) -> None:
        """Closes the session. No requests may be running."""
        self._batcher.close()
        self._session.close()


def array_of(alias: str, proto: tensor_pb2.TensorProto, limits: Limits) -> np.ndarray:
    """Decodes a tensor of a request."""
    shape = [dim.size for dim in proto.tensor_shape.dim]
    if not proto.tensor_shape.unknown_rank and min(shape, default=0) >= 0:
        # KeyError: a type without values. OverflowError: a number outside the range of its type.
        with contextlib.suppress(KeyError, OverflowError, TypeError, ValueError):
            limits.check_size(alias, proto.dtype, shape, proto.string_val)
            if proto.dtype == tf.string.as_datatype_enum and not proto.string_val:
                return np.full(shape, b"", object)  # `make_ndarray` would return `str`
            return tf.make_ndarray(proto)
    raise invalid(f"{alias} is not a valid tensor.")


def proto_of(array: np.ndarray) -> tensor_pb2.TensorProto:
    """Encodes an output, with the values in the field of their type."""
    dtype = tf.as_dtype(array.dtype)
    if dtype != tf.float32 and dtype not in _VALUE_FIELDS:
        return tf.make_tensor_proto(array, dtype)
    proto = tensor_pb2.TensorProto(
        dtype=dtype.as_datatype_enum, tensor_shape=tf.TensorShape(array.shape).as_proto()
    )
    if dtype in _VALUE_FIELDS:
        getattr(proto, _VALUE_FIELDS[dtype]).extend(array.ravel().tolist())
    elif array.size:
        # In protobuf's binary format: converting to Python floats takes as long as the biLM. A
        # packed field is written like one of bytes; `float_val` is field 5.
        content = np.ascontiguousarray(array, "<f4").tobytes()
        field = wrappers_pb2.BytesValue(value=content).SerializeToString()
        proto.MergeFromString(bytes([5 << 3 | 2]) + field[1:])
    return proto
