"""Runs a benchmark script on a small text."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def lines():
    return [f"word{i % 7} stands between word{i % 5} and word{i % 11} ." for i in range(400)]


@pytest.fixture
def benchmark(tmp_path, lines):
    """Runs a script with options; returns the finished process and the objects that it printed."""
    (tmp_path / "text.txt").write_text("\n".join(lines))

    def run(script, options, **environment):
        result = subprocess.run(
            [
                sys.executable,
                BENCHMARKS / script,
                *options.split(),
                "--corpus",
                tmp_path / "t*.txt",
            ],
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "PEER_PYTHON": "", **environment},
        )
        return result, [json.loads(line) for line in result.stdout.splitlines()]

    return run
