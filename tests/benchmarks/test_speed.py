import sys

import pytest

from elmo_tf import Vocabulary


@pytest.mark.slow
@pytest.mark.parametrize("work", ["embed", "train"])
def test_each_contender_prints_its_speed_and_memory(benchmark, work, lines, tmp_path):
    Vocabulary.build(lines).save(tmp_path / "vocab.txt")
    options = f"{work} --shapes tiny --rounds 2 --sentences 10 --vocab {tmp_path}/vocab.txt"
    options += " --steps 2 --batch-size 4 --unroll 6 --num-sampled 10"
    result, found = benchmark("speed.py", options, PEER_PYTHON=sys.executable)

    assert result.returncode == 0, result.stderr
    assert "PEER_PYTHON names no peer" in result.stderr
    assert [one["contender"] for one in found] == ["float32", "bfloat16"]
    for one in found:
        assert len(one["all"]) == 2
        assert min(one["all"]) <= one["tokens_per_second"] <= max(one["all"])
        assert 100 < one["peak_memory_mib"] < 10_000
        assert "ratio_to_peer" not in one
