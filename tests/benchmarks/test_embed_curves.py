import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "embed_curves.py"
LINES = [f"word{i % 7} stands between word{i % 5} and word{i % 11} ." for i in range(60)]


@pytest.mark.slow
def test_each_curve_has_its_points(tmp_path):
    (tmp_path / "text.txt").write_text("\n".join(LINES))
    options = "--preset tiny --rounds 1 --tokens 300 --curves batch length stages"
    result = subprocess.run(
        [sys.executable, BENCHMARK, "--corpus", tmp_path / "*.txt", *options.split()],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )

    assert result.returncode == 0, result.stderr
    points = [json.loads(line) for line in result.stdout.splitlines()]
    sizes = [point["batch_tokens"] for point in points if point["curve"] == "batch"]
    assert sizes == [256, 1024, 4096, 16_384]
    assert len({point["sentence_tokens"] for point in points if point["curve"] == "length"}) == 7
    (stages,) = (point for point in points if point["curve"] == "stages")
    assert set(stages["seconds"]) == {"token encoder", "LSTMs", "all else"}
    assert all(seconds > 0 for seconds in stages["seconds"].values())
    assert stages["lstm_gflop_per_second"] > 0
    # A product of two large matrices is no slower than what the LSTMs make of it.
    assert stages["matmul_gflop_per_second"] > stages["lstm_gflop_per_second"]
    for point in points:
        assert point.get("tokens_per_second", 1) > 0
