"""The replicas of a run: one device, several of one machine, or those of several machines."""

import contextlib
import json
import os
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from absl import logging

# What a collective operation raises when another process is gone.
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
    """All replicas that train one model together.

    Each works on its own rows of the same stream of text, so that the text comes in the same order
    whatever their number.

    Args:
        strategy: of TensorFlow.
        num_workers: int >= 1. Processes.
        worker: int. Which of them this one is; 0 is the chief, who writes what all share.

    Attributes:
        num_replicas: int >= 1, of all workers together.
    """

    def __init__(self, strategy: tf.distribute.Strategy, num_workers: int = 1, worker: int = 0):
        self.strategy = strategy
        self.num_workers = num_workers
        self.worker = worker
        self.num_replicas = strategy.num_replicas_in_sync

    @property
    def is_chief(self) -> bool:
        """Whether this process writes what all share."""
        return self.worker == 0

    def rows(self, num_rows: int) -> slice:
        """The rows of this process's replicas, of those of all."""
        share = num_rows // self.num_workers
        return slice(self.worker * share, (self.worker + 1) * share)

    def shard(self, window: tf.Tensor) -> Any:
        """Each replica's rows of a tensor (direction, row, …) of all."""
        if self.num_replicas == 1:
            return window
        share = window.shape[1] // self.num_replicas

        def take(context: tf.distribute.experimental.ValueContext) -> tf.Tensor:
            first = context.replica_id_in_sync_group * share
            return window[:, first : first + share]

        return self.strategy.experimental_distribute_values_from_function(take)

    def local(self, value: Any) -> tuple:
        """What each replica of this process holds of a value."""
        return self.strategy.experimental_local_results(value)

    def any(self, flag: bool) -> bool:
        """Whether the flag is up in any process; all of them must ask at the same time."""
        return any(self.gather(float(flag)))

    def gather(self, number: float) -> list[float]:
        """The numbers of all processes, by worker; all of them must ask at the same time."""
        if self.num_workers == 1:
            return [number]
        mine = [0.0] * self.num_workers
        mine[self.worker] = number * self.num_workers / self.num_replicas
        with self.reporting_lost_workers():
            return self.local(self._sum(tf.constant(mine, tf.float64)))[0].numpy().tolist()

    @contextlib.contextmanager
    def reporting_lost_workers(self) -> Iterator[None]:
        """Turns what TensorFlow raises when another worker is gone into one plain error."""
        try:
            yield
        except _LOST_WORKER_ERRORS as error:
            if self.num_workers == 1:
                raise
            reason = _cause(error.message or repr(error))
            raise ConnectionError(
                "Another worker has stopped, or cannot be reached. Start all workers again, with "
                "--resume (resume=True), and they go on from the last complete save. "
                f"TensorFlow says: {reason}"
            ) from None

    @tf.function(autograph=False)
    def _sum(self, value: tf.Tensor) -> Any:
        def add(value: tf.Tensor) -> tf.Tensor:
            context = tf.distribute.get_replica_context()
            # Only what is computed here lies on a replica's device.
            return context.all_reduce(tf.distribute.ReduceOp.SUM, tf.identity(value))

        return self.strategy.run(add, args=(value,))


def _cause(message: str) -> str:
    """The line of TensorFlow's message that tells the cause; above it stands where in the code."""
    lines = message.splitlines()
    return next((line for line in lines if "aborted" in line), lines[0])[:300]


def cluster_from_environment(batch_size: int) -> Cluster:
    """The replicas that TF_CONFIG and the devices of this machine ask for.

    Several workers in TF_CONFIG train together; without it, all GPUs of this machine do, or all of
    its logical CPU devices if there are several. Must be called before TensorFlow computes anything
    if there are several workers.

    Args:
        batch_size: int. Lanes of all replicas together.

    Raises:
        ValueError: TF_CONFIG is wrong, or the rows cannot be dealt out evenly.
    """
    num_workers, worker = _workers(os.environ.get("TF_CONFIG", ""))
    if num_workers > 1:
        logging.info("Worker %d of %d waits for the others.", worker, num_workers)
        cluster = Cluster(tf.distribute.MultiWorkerMirroredStrategy(), num_workers, worker)
    else:
        gpus, cpus = (tf.config.list_logical_devices(kind) for kind in ("GPU", "CPU"))
        devices = gpus or cpus
        several = len(devices) > 1
        names = [device.name for device in devices]
        strategy = tf.distribute.MirroredStrategy(names) if several else None
        cluster = Cluster(strategy or tf.distribute.get_strategy())
    if batch_size % cluster.num_replicas:
        raise ValueError(
            f"`batch_size` must be a multiple of the number of replicas, {cluster.num_replicas}: "
            f"each takes as many rows. Received: {batch_size}"
        )
    if cluster.num_replicas > 1:
        logging.info(
            "%d replicas in %d processes train on %d rows each.",
            cluster.num_replicas,
            num_workers,
            batch_size // cluster.num_replicas,
        )
    return cluster


def _workers(tf_config: str) -> tuple[int, int]:
    """The number of workers, and which one this is; the chief comes first."""
    if not tf_config.strip():
        return 1, 0
    try:
        content = json.loads(tf_config)
        cluster = content.get("cluster", {})
        counts = {kind: len(cluster[kind]) for kind in cluster}
        chiefs, workers = counts.pop("chief", 0), counts.pop("worker", 0)
        if chiefs + workers <= 1:
            return 1, 0
        kind, index = content["task"]["type"], int(content["task"]["index"])
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(
            'TF_CONFIG must look like {"cluster": {"worker": ["host1:port", "host2:port"]}, '
            f'"task": {{"type": "worker", "index": 0}}}}. Received: {tf_config!r} ({error!r})'
        ) from None
    if counts or kind not in ("chief", "worker"):
        raise ValueError(
            f"TF_CONFIG may name tasks of the types chief and worker alone. Received: {tf_config!r}"
        )
    index += chiefs if kind == "worker" else 0
    if not 0 <= index < chiefs + workers:
        raise ValueError(f"The task's index in TF_CONFIG is beyond its cluster: {tf_config!r}")
    return chiefs + workers, index
