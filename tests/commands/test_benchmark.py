"""`elmo-tf benchmark`: the speed of a model on this machine."""

import json
import time

import pytest
import tensorflow as tf

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


@pytest.mark.slow
def test_new_words_take_the_time_of_the_token_encoder():
    speed = measure_speed("small-en", num_turns=1, tokens_per_turn=400)["float32"]
    encode = tf.function(load_bilm("small-en").encode_tokens, [tf.TensorSpec((None,), tf.string)])
    rates = []
    for turn in range(3):
        words = tf.constant([f"{'x' * (number % 8)}{turn}{number}" for number in range(2000)])
        start = time.perf_counter()
        encode(words).numpy()
        rates.append(2000 / (time.perf_counter() - start))
    assert speed["words_per_second"] > 0.4 * max(rates)  # with the LSTMs 0.13
