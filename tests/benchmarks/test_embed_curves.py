import pytest


@pytest.mark.slow
def test_all_curves_are_measured(benchmark):
    options = "--preset tiny --rounds 1 --tokens 300 --curves batch length stages"
    result, points = benchmark("embed_curves.py", options)

    assert result.returncode == 0, result.stderr
    sizes = [point["batch_tokens"] for point in points if point["curve"] == "batch"]
    assert sizes == [256, 1024, 4096, 16_384]
    assert len({point["sentence_tokens"] for point in points if point["curve"] == "length"}) == 7
    (stages,) = (point for point in points if point["curve"] == "stages")
    assert set(stages["seconds"]) == {"encoder", "LSTMs and the rest"}
    assert all(seconds > 0 for seconds in stages["seconds"].values())
    assert stages["lstm_gflop_per_second"] > 0
    # The LSTMs are not faster than a product of two large matrices.
    assert stages["matmul_gflop_per_second"] > stages["lstm_gflop_per_second"]
    for point in points:
        assert point.get("tokens_per_second", 1) > 0
