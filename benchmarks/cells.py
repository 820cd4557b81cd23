"""Measures the speed of the cells of `CellRNN` next to `ProjectedLSTM` without projection.

    python benchmarks/cells.py

Prints a JSON line per cell. Speeds are multiply-adds of the matrix products per second, relative to
`ProjectedLSTM`: medians over rounds in which all cells alternate.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable

import keras
import tensorflow as tf

from elmo_tf.layers import ProjectedLSTM
from elmo_tf.layers.cell_rnn import CellRNN
from elmo_tf.layers.cells import CELLS


def main() -> None:
    """Prints the relative speed of each cell, without and with gradients."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default, help in (
        ("batch", 32, "sentences"),
        ("tokens", 40, "tokens of a sentence"),
        ("features", 200, "width of the inputs"),
        ("units", 100, "width of the state"),
        ("rounds", 15, "rounds"),
        ("calls", 10, "calls of a round"),
    ):
        parser.add_argument(
            f"--{name}", type=int, default=default, metavar="N", help=f"{help} (default: {default})"
        )
    arguments = parser.parse_args()
    inputs = tf.random.normal((arguments.batch, arguments.tokens, arguments.features))
    layers = {"ProjectedLSTM": ProjectedLSTM(arguments.units)}
    layers |= {name: CellRNN(arguments.units, name) for name in CELLS}
    for training in (False, True):
        steps = {name: _step(layer, inputs, training) for name, layer in layers.items()}
        rounds: dict[str, list[float]] = {name: [] for name in layers}
        for _ in range(arguments.rounds):
            for name, step in steps.items():
                start = time.perf_counter()
                for _ in range(arguments.calls):
                    step().numpy()
                rounds[name].append(time.perf_counter() - start)
        base = _multiply_adds(layers["ProjectedLSTM"])
        for name, layer in layers.items():
            ratios = [
                _multiply_adds(layer) / base * theirs / own
                for own, theirs in zip(rounds[name], rounds["ProjectedLSTM"], strict=True)
            ]
            result = {"relative_speed": round(statistics.median(ratios), 2)}
            print(json.dumps({"cell": name, "training": training, **result}), flush=True)


def _step(layer: keras.layers.Layer, inputs: tf.Tensor, training: bool) -> Callable:
    if not layer.built:
        layer.build(inputs.shape)

    @tf.function
    def step() -> tf.Tensor:
        if not training:
            return tf.reduce_sum(layer(inputs))
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            total = tf.reduce_sum(layer(inputs, training=True))
        gradients = tape.gradient(total, [inputs, *layer.trainable_weights])
        return tf.add_n([tf.reduce_sum(gradient) for gradient in gradients])

    step()
    return step


def _multiply_adds(layer: keras.layers.Layer) -> int:
    """Multiply-adds of the matrix products per token."""
    return sum(int(tf.size(weight)) for weight in layer.trainable_weights if weight.ndim == 2)


if __name__ == "__main__":
    main()
