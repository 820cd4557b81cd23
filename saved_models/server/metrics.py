"""What a server counts, for Prometheus, under the names that TF Serving gives it."""

from collections.abc import Iterator, Sequence

import prometheus_client
from prometheus_client.core import Metric

_MICROSECONDS = [10 * 1.8**step for step in range(32)]  # as TF Serving's buckets: up to 14 minutes
_ROWS = [2.0**step for step in range(13)]


class Metrics:
    """Counts of one server. Threads may share it."""

    def __init__(self):
        self._registry = prometheus_client.CollectorRegistry()
        self._requests = self._counter(
            ":tensorflow:serving:request_count", "Requests.", ["model_name", "status"]
        )
        self._latency = self._histogram(
            ":tensorflow:serving:request_latency",
            "Microseconds from a request's arrival to its answer.",
            ["model_name", "API", "entrypoint"],
            _MICROSECONDS,
        )
        self._loads = self._counter(
            ":tensorflow:cc:saved_model:load_attempt_count",
            "Versions that were loaded, or could not be.",
            ["model_path", "status"],
        )
        self._load_latency = self._counter(
            ":tensorflow:cc:saved_model:load_latency",
            "Microseconds that loading took.",
            ["model_path"],
        )
        self._queuing = self._histogram(
            ":tensorflow:serving:batching_session:queuing_latency",
            "Microseconds that a request waited for its batch.",
            ["signature_name"],
            _MICROSECONDS,
        )
        self._batches = self._histogram(
            ":tensorflow:serving:batching_session:processed_batch_size",
            "Rows of a batch.",
            ["signature_name"],
            _ROWS,
        )

    def count_request(self, model_name: str, status: str) -> None:
        """One more request: `model_name` as it is served, `status` such as `"OK"`."""
        self._requests.labels(model_name, status).inc()

    def observe_latency(self, model_name: str, api: str, entrypoint: str, seconds: float) -> None:
        """The time of a request that was answered."""
        self._latency.labels(model_name, api, entrypoint).observe(1e6 * seconds)

    def count_load(self, path: str, is_loaded: bool, seconds: float) -> None:
        """One more version that was loaded, or could not be."""
        self._loads.labels(path, "success" if is_loaded else "fail").inc()
        self._load_latency.labels(path).inc(1e6 * seconds)

    def observe_batch(self, signature_name: str, num_rows: int, waits: Sequence[float]) -> None:
        """One more batch, and the seconds that each of its requests waited."""
        self._batches.labels(signature_name).observe(num_rows)
        for seconds in waits:
            self._queuing.labels(signature_name).observe(1e6 * seconds)

    def as_text(self) -> bytes:
        """All of it in Prometheus's text format."""
        return prometheus_client.generate_latest(self._registry)

    def _counter(self, name: str, help: str, labels: list[str]) -> prometheus_client.Counter:
        counter = prometheus_client.Counter(name, help, labels, registry=None)
        self._registry.register(_WithoutSuffix(counter, name))
        return counter

    def _histogram(
        self, name: str, help: str, labels: list[str], buckets: list[float]
    ) -> prometheus_client.Histogram:
        return prometheus_client.Histogram(
            name, help, labels, buckets=buckets, registry=self._registry
        )


class _WithoutSuffix:
    """A counter by its plain name, as TF Serving shows it; the library would add `_total`."""

    def __init__(self, counter: prometheus_client.Counter, name: str):
        self._counter = counter
        self._name = name

    def collect(self) -> Iterator[Metric]:
        for counted in self._counter.collect():
            metric = Metric(self._name, counted.documentation, "unknown")
            for sample in counted.samples:
                if sample.name.endswith("_total"):
                    metric.add_sample(self._name, sample.labels, sample.value)
            yield metric
