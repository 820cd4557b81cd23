"""`elmo-tf serve` in a process of its own."""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path


class Running:
    """A server's process.

    Attributes:
        port: of gRPC.
        rest_port: of REST.
    """

    def __init__(self, process):
        self._process = process
        line = process.stdout.readline()
        assert line, process.stderr.read()
        ports = json.loads(line)
        self.port, self.rest_port = ports["port"], ports["rest_port"]

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def memory(self):
        """MiB that it holds now."""
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def terminate(self):
        self._process.terminate()

    def result(self, timeout=60):
        """Its exit status, when it has ended."""
        return self._process.wait(timeout)


@contextlib.contextmanager
def running(directory, *options):
    command = [sys.executable, "-m", "elmo_tf.cli", "serve", str(directory)]
    with subprocess.Popen(
        [*command, "--port=0", "--rest-port=0", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    ) as process:
        try:
            yield Running(process)
        finally:
            process.kill()
