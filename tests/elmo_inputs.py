"""Inputs of an `Elmo`, and mixing weights that differ between layers."""

import numpy as np
import tensorflow as tf

SENTENCES = ["the cat sat", "a", "", "one two three four five"]
TOKENS = tf.ragged.constant([sentence.split() for sentence in SENTENCES]).to_tensor("")
MASK = np.array([[i < n for i in range(5)] for n in (3, 1, 0, 5)])
WIDTH = 12


def set_mix(elmo, index=0):
    """Sets mixing weights that differ between layers; returns the weights and the scale."""
    weights = np.array([0.3, -1.0, 0.8])[: elmo.mixes[index].layer_weights.shape[0]] + index
    elmo.mixes[index].layer_weights.assign(weights * (index + 1))
    elmo.mixes[index].scaling.assign(1.7)
    return weights * (index + 1), 1.7
