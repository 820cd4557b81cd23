"""Trains with elmo_tf on given windows; a worker of `train.py`."""

import argparse

import numpy as np
import tensorflow as tf
from worker import run_steps

from elmo_tf.config import BiLMConfig
from elmo_tf.models.language_model import LanguageModel
from elmo_tf.precision import dtype_policy
from elmo_tf.text.vocabulary import Vocabulary
from elmo_tf.trainers.optimizers import Adagrad
from elmo_tf.trainers.steps import TrainStep


def main() -> None:
    """Builds the model and runs steps."""
    parser = argparse.ArgumentParser()
    parser.add_argument("windows")
    parser.add_argument("vocabulary")
    parser.add_argument("preset")
    parser.add_argument("num_sampled", type=int)
    parser.add_argument("precision")
    arguments = parser.parse_args()
    with np.load(arguments.windows) as file:
        inputs, targets = tf.constant(file["inputs"]), tf.constant(file["targets"])

    vocabulary = Vocabulary.load(arguments.vocabulary)
    with dtype_policy(arguments.precision):
        model = LanguageModel.create(
            BiLMConfig.preset(arguments.preset), vocabulary, arguments.num_sampled
        )
    num_rows = inputs.shape[2]
    train_step = TrainStep(model, Adagrad(), num_rows, dropout=0.1, clip_norm=10.0, seed=0)

    run_steps(lambda index: float(train_step(inputs[index], targets[index])["loss"]), len(inputs))


if __name__ == "__main__":
    main()
