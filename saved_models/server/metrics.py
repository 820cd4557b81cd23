"""Prometheus metrics of a server, under TF Serving's names."""

from collections.abc import Iterator, Sequence

import prometheus_client
from prometheus_client.core import Metric

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

    def _counter(self, name: str, help: str, *labels: str) -> prometheus_client.Counter:
        counter = prometheus_client.Counter(f":tensorflow:{name}", help, labels, registry=None)
        self._registry.register(_WithoutSuffix(counter, f":tensorflow:{name}"))
        return counter

    def _histogram(
        self, name: str, help: str, labels: list[str], buckets: Sequence[float] = _MICROSECONDS
    ) -> prometheus_client.Histogram:
        name = f":tensorflow:serving:{name}"
        return prometheus_client.Histogram(
            name, help, labels, buckets=buckets, registry=self._registry
        )


class _WithoutSuffix:
    """Exports a counter without the suffix `_total`, as TF Serving does."""

    def __init__(self, counter: prometheus_client.Counter, name: str):
        self._counter = counter
        self._name = name

    def collect(self) -> Iterator[Metric]:
        for counter in self._counter.collect():
            metric = Metric(self._name, counter.documentation, "unknown")
            for sample in counter.samples:
                if sample.name.endswith("_total"):
                    metric.add_sample(self._name, sample.labels, sample.value)
            yield metric
