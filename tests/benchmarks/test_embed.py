import sys

import pytest


@pytest.mark.slow
def test_each_contender_prints_its_speed_and_memory(benchmark):
    options = "--presets tiny --rounds 2 --sentences 10 --precisions float32 bfloat16"
    result, found = benchmark("embed.py", options, PEER_PYTHON=sys.executable)

    assert result.returncode == 0, result.stderr
    assert "PEER_PYTHON names no peer" in result.stderr
    assert [one["contender"] for one in found] == ["float32", "bfloat16"]
    for one in found:
        assert len(one["all"]) == 2
        assert min(one["all"]) <= one["tokens_per_second"] <= max(one["all"])
        assert 100 < one["peak_memory_mib"] < 10_000
        assert "ratio_to_peer" not in one
