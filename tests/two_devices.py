"""Trains small task models on one and on two devices; prints their losses as JSON."""

import json
import os
import sys

import keras
import tensorflow as tf

import elmo_tf
from task_models import label_lists, new_model, no_dropout, some_inputs

# In the last batch of two, the second device has no sentence.
SENTENCES = ["the cat sat on the mat", "ein", "Zürich cat 서울"]


def losses(kind, directory, strategy):
    with strategy.scope():
        keras.utils.set_random_seed(0)
        model = new_model(kind, elmo_tf.load_bilm(directory), **no_dropout(kind))
        model.compile(keras.optimizers.SGD(0.1))
    x, y = some_inputs(kind, SENTENCES), label_lists(model, [0, 1, 3])
    arguments = x, y, 2
    strings = tf.data.Dataset.from_tensor_slices((x, tf.ragged.constant(y)))
    strings = strings.ragged_batch(2)
    runs = [arguments, (strings,), (strings.map(model.preprocess).cache(),)]
    if strategy.num_replicas_in_sync == 1:
        runs = [arguments] * 3
    found = [model.fit(*run, shuffle=False, verbose=0).history["loss"][0] for run in runs]
    both = model.fit(*arguments, validation_data=(x, y), shuffle=False, verbose=0).history
    return [*found, *both["loss"], *both["val_loss"]]


if __name__ == "__main__":
    directory, *kinds = sys.argv[1:]
    if os.environ.get("QUICK"):
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    two = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    one = tf.distribute.get_strategy()
    print(json.dumps({k: [losses(k, directory, each) for each in (one, two)] for k in kinds}))
