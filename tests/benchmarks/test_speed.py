"""The benchmark scripts of speed, on a small text."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from elmo_tf import Vocabulary

pytestmark = pytest.mark.slow

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def benchmark(tmp_path):
    """Runs a script with options; returns its stderr and the objects that it printed."""
    lines = [f"word{i % 7} stands between word{i % 5} and word{i % 11} ." for i in range(400)]
    (tmp_path / "text.txt").write_text("\n".join(lines))
    Vocabulary.build(lines).save(tmp_path / "vocab.txt")

    def run(script, options, **environment):
        command = [sys.executable, BENCHMARKS / script, *options.split()]
        environment = {"TF_CPP_MIN_LOG_LEVEL": "3", "PEER_PYTHON": "", **environment}
        result = subprocess.run(
            [*command, "--corpus", tmp_path / "t*.txt"],
            capture_output=True,
            text=True,
            timeout=240,
            env={**os.environ, **environment},
        )
        assert result.returncode == 0, result.stderr
        return result.stderr, list(map(json.loads, result.stdout.splitlines()))

    return run


@pytest.mark.parametrize("work", ["embed", "train"])
def test_each_contender_prints_its_speed_and_memory(benchmark, work, tmp_path):
    options = f"{work} --shapes tiny --rounds 2 --sentences 10 --vocab {tmp_path}/vocab.txt"
    options += " --steps 2 --batch-size 4 --unroll 6 --num-sampled 10"
    messages, results = benchmark("speed.py", options, PEER_PYTHON=sys.executable)

    assert "PEER_PYTHON names no peer" in messages
    assert [result["contender"] for result in results] == ["float32", "bfloat16"]
    for result in results:
        assert len(result["all"]) == 2
        assert min(result["all"]) > 0
        assert 100 < result["peak_memory_mib"] < 10_000
        assert "ratio_to_peer" not in result


def test_each_server_prints_its_speed_and_memory_and_has_no_wrong_answers(benchmark):
    _, results = benchmark("serve.py", "--preset tiny --clients 2 --rounds 1 --seconds 2")
    assert [result["server"] for result in results] == ["batching", "no-batching"]
    for result in results:
        assert result["right"] > 0
        assert (result["wrong"], result["failed"]) == (0, 0)
        assert 100 < result["memory_mib"] < 10_000


def test_reading_is_measured_for_each_number_of_workers(benchmark):
    _, results = benchmark("reading.py", "--workers 1 4 --batch-size 8 --seconds 1")
    assert results[0]["counted_tokens_per_second"] > 0
    assert [result["workers"] for result in results[1:]] == [1, 4]
    for result in results[1:]:
        tokens = 8 * 20 * result["windows_per_second"]
        assert result["tokens_per_second"] == pytest.approx(tokens, rel=0.1)
