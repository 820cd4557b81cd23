import pytest


@pytest.mark.slow
def test_each_server_prints_its_speed_and_has_no_wrong_answers(benchmark):
    options = "--preset tiny --clients 2 --rounds 1 --requests 60"
    result, found = benchmark("serve.py", options)

    assert result.returncode == 0, result.stderr
    assert [one["server"] for one in found] == ["batching", "no-batching"]
    for one in found:
        assert (one["clients"], one["sent"], one["answered"]) == (2, 60, 60)
        assert (one["wrong"], one["failed"]) == (0, 0)
        assert one["requests_per_second"] > 0
        assert one["p50_ms"] <= one["p90_ms"] <= one["p99_ms"]


@pytest.mark.slow
def test_a_soak_test_prints_the_memory(benchmark):
    result, found = benchmark("serve.py", "--preset tiny --clients 2 --soak 0.05")

    assert result.returncode == 0, result.stderr
    (one,) = found
    assert one["minute"] == 1
    assert 100 < one["memory_mib"] < 10_000
    assert (one["wrong"], one["failed"]) == (0, 0)
    assert one["answered"] > 0
