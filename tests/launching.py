"""Runs of `pretrain` in new processes, with several devices or several workers."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time

_CODE = """
import json, os, sys
import tensorflow as tf
if os.environ.get("QUICK"):  # for the same numbers as in the process of the tests
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
devices = int(sys.argv[1])
if devices > 1:
    cpu = tf.config.list_physical_devices("CPU")[0]
    logical = [tf.config.LogicalDeviceConfiguration()] * devices
    tf.config.set_logical_device_configuration(cpu, logical)
from elmo_tf.trainers import PretrainConfig, pretrain
pretrain(PretrainConfig(**json.loads(sys.argv[2])))
"""


def start(settings, workdir, num_devices=1, tf_config=None, **changes):
    arguments = json.dumps({**settings, "workdir": workdir, **changes}, default=str)
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    environment.pop("TF_CONFIG", None)
    if tf_config is not None:
        environment["TF_CONFIG"] = json.dumps(tf_config)
    return subprocess.Popen(
        [sys.executable, "-c", _CODE, str(num_devices), arguments],
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def start_workers(settings, workdir, count=2, **changes):
    """Starts workers that share a work directory, or have one each if `workdir` is a list."""
    workdirs = workdir if isinstance(workdir, list) else [workdir] * count
    addresses = [f"127.0.0.1:{port}" for port in _free_ports(count)]
    cluster = {"worker": addresses}
    tasks = [{"type": "worker", "index": index} for index in range(count)]
    return [
        start(settings, own, tf_config={"cluster": cluster, "task": task}, **changes)
        for own, task in zip(workdirs, tasks, strict=True)
    ]


def wait_for_steps(workdir, count, *workers):
    """Waits until the log has that many lines."""
    deadline = time.monotonic() + 120
    log = workdir / "log.jsonl"
    while not log.exists() or log.read_text().count("\n") < count:
        for worker in workers:
            assert worker.poll() is None, worker.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def finish(*workers):
    for worker in workers:
        _, errors = worker.communicate(timeout=300)
        assert worker.returncode == 0, errors


def errors_of(*workers):
    """What workers that fail write to stderr."""
    errors = [worker.communicate(timeout=180)[1] for worker in workers]
    assert all(worker.returncode != 0 for worker in workers)
    return errors


def _free_ports(count):
    with contextlib.ExitStack() as stack:
        servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
        return [stack.enter_context(server).getsockname()[1] for server in servers]
