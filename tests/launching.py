"""Runs of `pretrain` in new processes, with several devices or several workers."""

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


def start(settings, workdir, num_devices=1, tf_config=None, prefix=(), **changes):
    arguments = {**settings, "workdir": workdir, **changes}
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    environment.pop("TF_CONFIG", None)
    if tf_config is not None:
        environment["TF_CONFIG"] = json.dumps(tf_config)
    arguments = json.dumps(arguments, default=str)
    return subprocess.Popen(
        [*prefix, sys.executable, "-c", _CODE, str(num_devices), arguments],
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def start_workers(settings, workdir, count=2, **changes):
    """Starts workers that share a work directory, or have one each if `workdir` is a list."""
    workdirs = workdir if isinstance(workdir, list) else [workdir] * count
    addresses = [f"127.0.0.1:{port}" for port in _free_ports(count)]
    return [
        start(
            settings,
            workdirs[index],
            tf_config={
                "cluster": {"worker": addresses},
                "task": {"type": "worker", "index": index},
            },
            **changes,
        )
        for index in range(count)
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


def _free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
