"""Prometheus metrics of a server, under TF Serving's names."""

import functools
from collections.abc import Sequence

import prometheus_client

_SERVING = ":tensorflow:serving:"
_BATCHING = f"{_SERVING}batching_session:"
_LOADING = ":tensorflow:cc:saved_model:"
_MICROSECONDS = [10 * 1.8**step for step in range(32)]  # TF Serving's buckets: up to 14 minutes
_ROWS = [2.0**step for step in range(13)]


class Metrics:
    """The metrics of one server. Thread-safe."""

    def __init__(self):
        self._registry = prometheus_client.CollectorRegistry()
        # Gauges that are only increased: to the names of counters the library appends `_total`.
        counter = functools.partial(prometheus_client.Gauge, registry=self._registry)
        histogram = functools.partial(
            prometheus_client.Histogram, registry=self._registry, buckets=_MICROSECONDS
        )
        self._requests = counter(f"{_SERVING}request_count", "Requests.", ["model_name", "status"])
        self._latency = histogram(
            f"{_SERVING}request_latency",
            "Microseconds from the arrival of a request to its response.",
            ["model_name", "API", "entrypoint"],
        )
        self._loads = counter(
            f"{_LOADING}load_attempt_count", "Attempts to load a version.", ["model_path", "status"]
        )
        self._load_latency = counter(
            f"{_LOADING}load_latency", "Microseconds spent loading.", ["model_path"]
        )
        self._queuing = histogram(
            f"{_BATCHING}queuing_latency",
            "Microseconds that a request waits for its batch.",
            ["signature_name"],
        )
        self._batches = histogram(
            f"{_BATCHING}processed_batch_size",
            "Rows of a batch.",
            ["signature_name"],
            buckets=_ROWS,
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
