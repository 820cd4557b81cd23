"""Trains with simple_elmo, the TensorFlow 1 peer, on given windows; a worker of `train.py`.

Runs in an interpreter that has `simple_elmo` and `tf-keras`, with TF_USE_LEGACY_KERAS=1. The step
is that of `simple_elmo.training.train` on one device, without summaries.
"""

import argparse
import json

import numpy as np
import tensorflow as tf
from simple_elmo.training import LanguageModel, clip_grads
from worker import run_steps

tf1 = tf.compat.v1


def main() -> None:
    """Builds the graph and runs steps."""
    parser = argparse.ArgumentParser()
    parser.add_argument("windows")
    parser.add_argument("options", help="JSON")
    arguments = parser.parse_args()
    options = json.loads(arguments.options)
    with np.load(arguments.windows) as file:
        char_ids, target_ids = file["char_ids"], file["target_ids"]

    tf1.disable_eager_execution()
    with tf1.variable_scope("lm"):
        model = LanguageModel(options, True)
    optimizer = tf1.train.AdagradOptimizer(
        learning_rate=options["learning_rate"], initial_accumulator_value=1.0
    )
    gradients = optimizer.compute_gradients(
        model.total_loss * options["unroll_steps"],
        aggregation_method=tf.AggregationMethod.EXPERIMENTAL_TREE,
    )
    gradients, _ = clip_grads(gradients, options, False, None)
    train = optimizer.apply_gradients(gradients)

    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        initial = tf.nest.flatten(model.init_lstm_state)
        final = tf.nest.flatten(model.final_lstm_state)
        states = [np.zeros(state.shape, np.float32) for state in initial]

        def step(index: int) -> float:
            feeds = {
                model.tokens_characters: char_ids[index, 0],
                model.tokens_characters_reverse: char_ids[index, 1],
                model.next_token_id: target_ids[index, 0],
                model.next_token_id_reverse: target_ids[index, 1],
                **dict(zip(initial, states, strict=True)),
            }
            _, loss, *states[:] = session.run([train, model.total_loss, *final], feeds)
            return float(loss)

        run_steps(step, len(char_ids))


if __name__ == "__main__":
    main()
