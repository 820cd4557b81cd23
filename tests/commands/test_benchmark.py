"""`elmo-tf benchmark`: the speed of a model on this machine."""

import json

import pytest

from elmo_tf import cli, load_bilm
from elmo_tf.evaluation.speed import measure_speed


def test_speeds_are_measured_and_compared_with_plain_products(trained, capsys, caplog):
    assert cli.main(["benchmark", str(trained), "--format", "json"]) == 0
    results = json.loads(capsys.readouterr().out)
    assert min(results["precisions"]["float32"].values()) > 0
    assert "not in the vocabulary" not in caplog.text

    speed = measure_speed(trained, num_turns=1, tokens_per_turn=400)["float32"]
    lstm = load_bilm(trained).config.lstm
    inputs, outputs = 2 * lstm.projection_dim * 4 * lstm.dim, lstm.dim * lstm.projection_dim
    operations = 2 * 2 * lstm.num_layers * (inputs + outputs)
    expected = speed["tokens_per_second"] * operations / (speed["product_gflops"] * 1e9)
    assert speed["share"] == pytest.approx(expected)
