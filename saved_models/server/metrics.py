"""Prometheus metrics of a server, under TF Serving's names."""

from collections.abc import Sequence

import prometheus_client

_MICROSECONDS = [10 * 1.8**step for step in range(32)]  # TF Serving's buckets: up to 14 minutes
_ROWS = [2.0**step for step in range(13)]


class Metrics:
    """The metrics of one server. Thread-safe."""

    def __init__(self):
        self._registry = prometheus_client.CollectorRegistry()
        self._requests = self._counter("serving:request_count", "Requests.", "model_name", "status")
        self._latency = self._histogram(
            "request_latency",
            "Microseconds from the arrival of a request to its response.",
            ["model_name", "API", "entrypoint"],
        )
        self._loads = self._counter(
            "cc:saved_model:load_attempt_count",
            "Attempts to load a version.",
            "model_path",
            "status",
        )
        self._load_latency = self._counter(
            "cc:saved_model:load_latency", "Microseconds spent loading.", "model_path"
        )
        self._queuing = self._histogram(
            "batching_session:queuing_latency",
            "Microseconds that a request waits for its batch.",
            ["signature_name"],
        )
        self._batches = self._histogram(
            "batching_session:processed_batch_size", "Rows of a batch.", ["signature_name"], _ROWS
        )

    def observe_prediction(
        self, model_name: str, status: str, entrypoint: str, seconds: float
    ) -> None:
        """Counts a prediction, and records its latency if it was successful.

        `model_name` is "" for unknown models, `status` such as `"OK"`, `entrypoint` `"GRPC"` or
        `"REST"`.
        """
        self._requests.labels(model_name, status).inc()
        if status == "OK":
            self._latency.labels(model_name, "Predict", entrypoint).observe(1e6 * seconds)

    def count_load(self, path: str, is_loaded: bool, seconds: float) -> None:
        """Counts an attempt to load a version."""
        self._loads.labels(path, "success" if is_loaded else "fail").inc()
        self._load_latency.labels(path).inc(1e6 * seconds)

    def observe_batch(self, signature_name: str, num_rows: int, waits: Sequence[float]) -> None:
        """Records a batch and the seconds that each of its requests waited."""
        self._batches.labels(signature_name).observe(num_rows)
        for seconds in waits:
            self._queuing.labels(signature_name).observe(1e6 * seconds)

    def as_text(self) -> bytes:
        """Returns all metrics in Prometheus's text format."""
        return prometheus_client.generate_latest(self._registry)

    def _counter(self, name: str, help: str, *labels: str) -> prometheus_client.Gauge:
        """A gauge that is only increased: to the names of counters the library appends `_total`."""
        name = f":tensorflow:{name}"
        return prometheus_client.Gauge(name, help, labels, registry=self._registry)

    def _histogram(
        self, name: str, help: str, labels: list[str], buckets: Sequence[float] = _MICROSECONDS
    ) -> prometheus_client.Histogram:
        name = f":tensorflow:serving:{name}"
        return prometheus_client.Histogram(
            name, help, labels, buckets=buckets, registry=self._registry
        )
