"""Third-party programs and a C program run an exported model."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from elmo_tf import char_ids

pytestmark = pytest.mark.more

LIBRARY = Path(tf.__file__).parent
PROGRAM = Path(__file__).resolve().parents[3] / "examples" / "embed.c"


def run(*command, **options):
    """Runs a command; returns its output."""
    return subprocess.check_output(list(map(str, command)), text=True, timeout=240, **options)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")
def test_a_c_program_runs_the_model(exported_bilm, tmp_path, bilm):
    tokens = [["the", "cat", "한국어"]]
    ids = char_ids(tokens, 14).numpy()
    libraries = [f"-l:{file.name}" for file in sorted(LIBRARY.glob("libtensorflow_*.so.2"))]
    folders = [f"-I{LIBRARY}/include", f"-L{LIBRARY}", f"-Wl,-rpath,{LIBRARY}"]
    run("gcc", PROGRAM, *folders, *libraries, "-o", tmp_path / "embed")
    content = saved_model_pb2.SavedModel()
    content.ParseFromString((Path(exported_bilm) / "saved_model.pb").read_bytes())
    signature = content.meta_graphs[0].signature_def["char_ids"]
    asked = signature.inputs["char_ids"].name.split(":")[0]
    numbers = f"{ids.shape[1]} {ids.shape[2]} {' '.join(map(str, ids.ravel()))}"

    outputs = signature.outputs["elmo"].name.split(":")
    found = run(tmp_path / "embed", exported_bilm, asked, *outputs, input=numbers)

    expected = bilm(tokens)["layers"].numpy().mean(axis=1)
    vectors = np.array(found.split(), np.float32).reshape(expected.shape)
    np.testing.assert_allclose(vectors, expected, atol=1e-5)


HUB_CODE = """
import sys
import numpy as np
import tensorflow as tf
import tensorflow_hub as hub
import tf_keras

path, sentences = sys.argv[1], sys.argv[2:]
loaded = hub.load(path)
np.save("loaded.npy", loaded(tf.constant(sentences))["elmo"])
layer = hub.KerasLayer(path, output_key="default", trainable=True)
inputs = tf_keras.Input((), dtype=tf.string)
model = tf_keras.Model(inputs, tf_keras.layers.Dense(1)(layer(inputs)))
np.save("layer.npy", layer(tf.constant(sentences)))
before = [weight.numpy() for weight in layer.trainable_weights]
model.compile(tf_keras.optimizers.Adam(0.01), "mse")
losses = model.fit(tf.constant(sentences), tf.constant([[1.0], [-1.0]]), epochs=5, verbose=0)
losses = losses.history["loss"]
assert losses[-1] < losses[0], losses
for weight, old in zip(layer.trainable_weights, before, strict=True):
    assert np.any(weight.numpy() != old), weight.name
print(len(before))
"""


def test_tensorflow_hub_trains_the_model_in_legacy_keras(exported_elmo, elmo, bilm, tmp_path):
    sentences = ["the cat", "한국어 x y"]

    environment = {**os.environ, "TF_USE_LEGACY_KERAS": "1"}
    command = sys.executable, "-c", HUB_CODE, exported_elmo, *sentences
    num_weights = run(*command, cwd=tmp_path, env=environment)

    assert int(num_weights) == len(bilm.weights) - 1 + 2  # all but the initial state
    expected = elmo(sentences).numpy()
    np.testing.assert_allclose(np.load(tmp_path / "loaded.npy"), expected, atol=1e-5)
    means = expected.sum(axis=1) / [[2], [3]]
    np.testing.assert_allclose(np.load(tmp_path / "layer.npy"), means, atol=1e-5)
