"""The replicas of a run: one device, several devices of a machine, or several machines."""

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf
from absl import logging

# Raised by collective operations when another process has stopped.
_LOST_WORKER_ERRORS = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.FailedPreconditionError,
    tf.errors.InternalError,
    tf.errors.UnknownError,
)


class Cluster:
    """All replicas that train one model together, in one or several processes (workers).

    Each replica trains on its own batch rows of the same text stream, so the order of the text does
    not depend on the number of replicas.

    Args:
        strategy: TensorFlow's distribution strategy.
        worker: int >= 0. Index of this process; 0 is the chief, which writes the shared files.
        addresses: the address of each process if there are several.
    """

    def __init__(
        self, strategy: tf.distribute.Strategy, worker: int = 0, addresses: Sequence[str] = ()
    ):
        self.strategy = strategy
        self.worker = worker
        self.is_chief = worker == 0
        self._addresses = addresses
        self.num_workers = max(1, len(addresses))
        self.num_replicas = strategy.num_replicas_in_sync

    def rows(self, num_rows: int) -> slice:
        """The slice of all `num_rows` batch rows that this process trains on."""
        share = num_rows // self.num_workers
        return slice(self.worker * share, (self.worker + 1) * share)

    def shard(self, window: tf.Tensor) -> Any:
        """Distributes this process's rows of a tensor (direction, row, …) over its replicas."""
        if self.num_replicas == 1:
            return window
        num_parts = self.num_replicas // self.num_workers
        share = window.shape[1] // num_parts

        def take(context: tf.distribute.experimental.ValueContext) -> tf.Tensor:
            first = context.replica_id_in_sync_group % num_parts * share
            return window[:, first : first + share]

        return self.strategy.experimental_distribute_values_from_function(take)

    def local(self, value: Any) -> tuple:
        """The values of a distributed value on the replicas of this process."""
        return self.strategy.experimental_local_results(value)

    def gather(self, value: float) -> list[float]:
        """The values of all processes, by worker. All processes must call it together."""
        if self.num_workers == 1:
            return [value]
        mine = [0.0] * self.num_workers
        mine[self.worker] = value
        with self.reporting_lost_workers():
            return self.local(self._sum(tf.constant(mine, tf.float64)))[0].numpy().tolist()

    @contextlib.contextmanager
    def reporting_lost_workers(self) -> Iterator[None]:
        """Turns TensorFlow's errors after the loss of a worker into a `ConnectionError`."""
        try:
            yield
        except _LOST_WORKER_ERRORS as error:
            if self.num_workers == 1:
                raise
            message = error.message or repr(error)
            lines = message.splitlines()  # one with the cause; the others are places in the code
            cause = next((line for line in lines if "aborted" in line), lines[0])[:300]
            others = set(range(self.num_workers)) - {self.worker}
            lost = others & {int(index) for index in re.findall(r"/task:(\d+)", message)} or others
            names = [f"worker {index} ({self._addresses[index]})" for index in sorted(lost)]
            lost_workers = f"W{names[0][1:]}" if len(names) == 1 else f"One of {', '.join(names)}"
            raise ConnectionError(
                f"{lost_workers} has stopped, or cannot be reached. Restart all workers with "
                "--resume (resume=True): they resume from the last complete save. "
                f"TensorFlow says: {cause}"
            ) from None

    @tf.function(autograph=False)
    def _sum(self, value: tf.Tensor) -> Any:
        """The sum over all processes."""
        replicas_per_worker = self.num_replicas // self.num_workers

        def add(value: tf.Tensor) -> tf.Tensor:
            context = tf.distribute.get_replica_context()
            is_first = context.replica_id_in_sync_group % replicas_per_worker == 0
            value = tf.where(is_first, value, tf.zeros_like(value))
            return context.all_reduce(tf.distribute.ReduceOp.SUM, value)

        return self.strategy.run(add, args=(value,))


def cluster_from_environment(batch_size: int) -> Cluster:
    """The replicas that TF_CONFIG and the devices of this machine define.

    If TF_CONFIG names several workers, these train together. Otherwise all GPUs of this machine do,
    or without GPUs all of its logical CPU devices. With several workers, call it before TensorFlow
    computes anything. `batch_size` are the batch rows of all replicas together.
    """
    worker, addresses = _workers()
    if addresses:
        logging.info("Worker %d of %d is waiting for the others.", worker, len(addresses))
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
    else:
        devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
        strategy = tf.distribute.get_strategy()
        if len(devices) > 1:
            strategy = tf.distribute.MirroredStrategy([device.name for device in devices])
    cluster = Cluster(strategy, worker, addresses)
    if batch_size % cluster.num_replicas:
        raise ValueError(
            f"`batch_size` must be a multiple of the number of replicas, {cluster.num_replicas}. "
            f"Received: {batch_size}"
        )
    if cluster.num_replicas > 1:
        logging.info(
            "%d replicas in %d processes train on %d batch rows each.",
            *(cluster.num_replicas, cluster.num_workers, batch_size // cluster.num_replicas),
        )
    return cluster


def _workers() -> tuple[int, list[str]]:
    """The index of this worker and the addresses of all, if there are several; the chief first."""
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    try:
        cluster = resolver.cluster_spec().as_dict()
        chiefs, workers = cluster.get("chief", []), cluster.get("worker", [])
        if len(addresses := [*chiefs, *workers]) <= 1:
            return 0, []
        others = cluster.keys() - {"chief", "worker"}
        index = resolver.task_id + (len(chiefs) if resolver.task_type == "worker" else 0)
        if others or resolver.task_type not in cluster or not 0 <= index < len(addresses):
            raise ValueError("its tasks must be of the types chief and worker, in its cluster")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(
            'TF_CONFIG must look like {"cluster": {"worker": ["host1:port", "host2:port"]}, '
            f'"task": {{"type": "worker", "index": 0}}}}. Received: {os.environ["TF_CONFIG"]!r} '
            f"({error})"
        ) from None
    return index, addresses
