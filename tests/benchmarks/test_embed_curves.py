import pytest


@pytest.mark.slow
def test_all_curves_are_measured(benchmark):
    options = "--preset tiny --rounds 1 --tokens 300 --curves batch length"
    result, points = benchmark("embed_curves.py", options)

    assert result.returncode == 0, result.stderr
    sizes = [point["batch_tokens"] for point in points if point["curve"] == "batch"]
    assert sizes == [256, 1024, 4096, 16_384]
    assert len({point["sentence_tokens"] for point in points if point["curve"] == "length"}) == 7
    assert all(point["tokens_per_second"] > 0 for point in points)
