import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from elmo_tf import Vocabulary

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "train.py"
LINES = [f"word{i % 7} stands between word{i % 5} and word{i % 11} ." for i in range(400)]


@pytest.fixture
def command(tmp_path):
    (tmp_path / "text.txt").write_text("\n".join(LINES))
    Vocabulary.build(LINES).save(tmp_path / "vocab.txt")
    options = "--presets tiny --rounds 2 --steps 2 --batch-size 4 --unroll 6 --num-sampled 10"
    files = ["--corpus", str(tmp_path / "*.txt"), "--vocab", str(tmp_path / "vocab.txt")]
    return [sys.executable, str(BENCHMARK), *files, *options.split()]


def run(command, **environment):
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "PEER_PYTHON": "", **environment},
    )


@pytest.mark.slow
def test_each_contender_prints_its_speed_and_memory(command):
    result = run([*command, "--precisions", "float32", "mixed_bfloat16"])

    assert result.returncode == 0, result.stderr
    assert "PEER_PYTHON is not set" in result.stderr
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(one["shape"], one["contender"]) for one in found] == [
        ("tiny", "float32"),
        ("tiny", "mixed_bfloat16"),
    ]
    for one in found:
        speed = 4 * 6 / one["seconds_per_step"]
        assert one["tokens_per_second"] == pytest.approx(speed, rel=0.05)
        assert 100 < one["peak_memory_mib"] < 10_000
        assert "ratio_to_peer" not in one


@pytest.mark.slow
def test_a_peer_that_cannot_run_ends_the_benchmark_with_its_error(command):
    result = run([*command, "--precisions", "float32"], PEER_PYTHON=sys.executable)

    assert result.returncode != 0
    assert "A contender has stopped" in result.stderr
    assert "simple_elmo" in result.stderr
