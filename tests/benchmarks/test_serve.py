import pytest


@pytest.mark.slow
def test_each_server_prints_its_speed_and_memory_and_has_no_wrong_answers(benchmark):
    options = "--preset tiny --clients 2 --rounds 1 --seconds 2"
    result, found = benchmark("serve.py", options)

    assert result.returncode == 0, result.stderr
    assert [one["server"] for one in found] == ["batching", "no-batching"]
    for one in found:
        assert one["clients"] == 2
        assert one["right"] > 0
        assert (one["wrong"], one["failed"]) == (0, 0)
        assert one["requests_per_second"] > 0
        assert one["p50_ms"] <= one["p99_ms"]
        assert 100 < one["memory_mib"] < 10_000
