"""`elmo-tf benchmark`: the speed of a model on this machine."""

import json

import pytest

from elmo_tf import cli, load_bilm


def test_speeds_are_measured_and_compared_with_plain_products(trained, capsys):
    call = ["benchmark", str(trained), "--turns", "1", "--tokens-per-turn", "400"]
    assert cli.main([*call, "--format", "json"]) == 0
    results = json.loads(capsys.readouterr().out)

    speed = results["precisions"]["float32"]
    assert min(speed.values()) > 0
    lstm = load_bilm(trained).config.lstm
    inputs, outputs = 2 * lstm.projection_dim * 4 * lstm.dim, lstm.dim * lstm.projection_dim
    operations = 2 * 2 * lstm.num_layers * (inputs + outputs)
    expected = speed["tokens_per_second"] * operations / (speed["product_gflops"] * 1e9)
    assert speed["share"] == pytest.approx(expected)
