"""`elmo-tf benchmark`: the speed of a model on this machine."""

import json
import shutil

import pytest

from elmo_tf import cli, load_bilm
from elmo_tf.evaluation.speed import measure_speed


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


def test_a_protein_model_is_measured_without_a_warning_of_its_own_text(trained, tmp_path, caplog):
    model = shutil.copytree(trained, tmp_path / "proteins")
    (model / "vocab.txt").write_text("\n".join(["<S>", "</S>", "<UNK>", *"ACDEFGHIKLMNPQ"]))

    measure_speed(model, 1, 20)

    assert "do not occur in the vocabulary" not in caplog.text
