import sys

import pytest

from elmo_tf import Vocabulary


@pytest.fixture
def options(tmp_path, lines):
    Vocabulary.build(lines).save(tmp_path / "vocab.txt")
    sizes = "--presets tiny --rounds 2 --steps 2 --batch-size 4 --unroll 6 --num-sampled 10"
    return f"--vocab {tmp_path}/vocab.txt {sizes}"


@pytest.mark.slow
def test_each_contender_prints_its_speed_and_memory(benchmark, options):
    result, found = benchmark("train.py", f"{options} --precisions float32 mixed_bfloat16")

    assert result.returncode == 0, result.stderr
    assert "PEER_PYTHON is not set" in result.stderr
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
def test_a_failing_peer_ends_the_benchmark_with_its_error(benchmark, options):
    result, _ = benchmark("train.py", f"{options} --precisions float32", PEER_PYTHON=sys.executable)

    assert result.returncode != 0
    assert "A contender has stopped" in result.stderr
    assert "simple_elmo" in result.stderr
