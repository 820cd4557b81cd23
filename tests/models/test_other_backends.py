"""A biLM over ids on Keras's other backends, which a new process selects."""

import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest

import elmo_tf

pytestmark = pytest.mark.more

LENGTHS = np.array([4, 1, 0])
CODE = """
import sys

import keras
import numpy as np

import elmo_tf

for path in sys.argv[1:]:
    bilm = elmo_tf.load_bilm(path)
    ids, lengths, layers = np.load(f"{path}/expected.npz").values()
    for inputs in ([ids], [ids, lengths], [keras.ops.array(ids), keras.ops.array(lengths)]):
        actual = keras.ops.convert_to_numpy(bilm(*inputs)["layers"])
        np.testing.assert_allclose(actual, layers, atol=1e-5)
    elmo = elmo_tf.Elmo(bilm, trainable_bilm=True)
    inputs = keras.Input(ids.shape[1:], dtype="int32"), keras.Input((), dtype="int32")
    model = keras.Model(inputs, elmo(inputs[0], lengths=inputs[1]))
    vectors = model.predict([ids, lengths], verbose=0)
    np.testing.assert_allclose(vectors, layers.mean(axis=1), atol=1e-5)
    before = bilm.token_encoder.get_weights()
    model.compile("sgd", "mse")
    assert model.jit_compile == (keras.config.backend() == "jax")
    model.fit([ids, lengths], vectors + 1, verbose=0)
    assert not any(map(np.array_equal, before, bilm.token_encoder.get_weights()))


def error_of(function, *arguments, **keywords):
    try:
        function(*arguments, **keywords)
    except ValueError as error:
        return str(error)


assert "Ids must be between 0 and" in error_of(bilm, ids + 300)
assert "`lengths` must be between 0 and" in error_of(bilm, ids, lengths + 9)
for error in (
    error_of(bilm, ["The cat"]),
    error_of(elmo, keras.Input((), dtype="string")),
    error_of(elmo_tf.load_bilm, path, stateful=True),
    error_of(elmo_tf.Embedder, bilm),
    error_of(elmo_tf.saved_models.export, bilm, "exported"),
    error_of(elmo_tf.load_language_model, "small-en"),
):
    assert "requires Keras's TensorFlow backend" in error and "\\n" not in error
"""


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_layers_and_training(backend, fresh_bilm, word_bilm, tmp_path):
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    bilm, paths = fresh_bilm(), [str(tmp_path / name) for name in ("characters", "words")]
    char_ids = bilm.char_ids([["The", "cat", "naïve", "at"], ["a" * 60], []]).to_tensor()
    token_ids = np.array([[4, 5, 3, 4], [5, 0, 0, 0], [0, 0, 0, 0]])
    for path, model, ids in zip(paths, (bilm, word_bilm), (char_ids, token_ids), strict=True):
        elmo_tf.save_bilm(model, path)
        layers = model(ids, LENGTHS)["layers"]
        np.savez(f"{path}/expected.npz", ids=ids, lengths=LENGTHS, layers=layers)
    environment = {**os.environ, "KERAS_BACKEND": backend}
    subprocess.run([sys.executable, "-c", CODE, *paths], env=environment, check=True)
