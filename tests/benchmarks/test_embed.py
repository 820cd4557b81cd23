import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "embed.py"
LINES = [f"word{i % 7} stands between word{i % 5} and word{i % 11} ." for i in range(60)]


@pytest.mark.slow
def test_each_contender_prints_its_speed_and_memory(tmp_path):
    (tmp_path / "text.txt").write_text("\n".join(LINES))
    options = "--presets tiny --rounds 2 --sentences 10 --precisions float32 bfloat16"
    result = subprocess.run(
        [sys.executable, BENCHMARK, "--corpus", tmp_path / "*.txt", *options.split()],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "PEER_PYTHON": sys.executable},
    )

    assert result.returncode == 0, result.stderr
    assert "PEER_PYTHON names no peer" in result.stderr
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert [one["contender"] for one in found] == ["float32", "bfloat16"]
    for one in found:
        assert one["tokens"] == sum(len(line.split()) for line in LINES[:20])
        assert one["tokens_per_second"] > 0
        assert 100 < one["peak_memory_mib"] < 10_000
        assert "ratio_to_peer" not in one
