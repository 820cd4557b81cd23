"""`release_reductions`, which relies on private names of Keras."""

import gc
import weakref

import keras
import numpy as np
import tensorflow as tf

from elmo_tf import compat


def test_release_reductions_frees_the_graph_of_a_training():
    graphs = []

    class Graph(keras.layers.Layer):
        def call(self, inputs):
            graphs.append(weakref.ref(tf.compat.v1.get_default_graph()))
            return inputs

    def train():
        model = keras.Sequential([keras.Input((2,)), Graph(), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        model.train_on_batch(np.ones((3, 2)), np.ones((3, 1)))

    train()
    compat.release_reductions()
    keras.utils.clear_session()
    gc.collect()

    assert graphs
    assert [graph() for graph in graphs] == [None] * len(graphs)
