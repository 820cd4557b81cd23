"""Compares a written SavedModel with the live model: outputs, weights and gradients.

A difference is a `RuntimeError` that names it.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from elmo_tf.saved_models.exporting.signatures import Exported

# Of different lengths, with an empty sentence and a token that most models truncate.
EXAMPLES = (
    "The bank raised its rates .",
    "",
    "They sat on the bank of the river and talked until dark .",
    f"Zürich 서울 \N{GRINNING FACE} {'long' * 20} 3.14",
)
# Relative and absolute. In bfloat16, rounding depends on which operations TensorFlow fuses.
TOLERANCES = {"float64": 1e-5, "float32": 1e-5, "float16": 0.01, "bfloat16": 0.05}


def verify(path: str | os.PathLike, exported: Exported) -> None:
    """Compares all signatures of a SavedModel with the live model, and checks its weights."""
    inputs = {name: {"strings": tf.constant(EXAMPLES)} for name in exported.signatures}
    inputs["default"] = {"strings": tf.constant(EXAMPLES[:1])}  # the loops of one sentence
    inputs["tokens"] = token_inputs()
    if "char_ids" in inputs:
        inputs["char_ids"] = {"char_ids": exported.bilm.char_ids(inputs["tokens"]["tokens"])}
    tolerance = TOLERANCES[exported.bilm.compute_dtype]
    loaded, expected = compare_signatures(path, exported.signatures, inputs, tolerance)
    outputs = loaded(inputs["serving_default"]["strings"])
    compare("the loaded function", outputs, expected["serving_default"], tolerance)
    check_weights(path, exported.variables)
    _check_gradients(loaded, inputs["serving_default"]["strings"])


def compare_signatures(
    path: str | os.PathLike,
    signatures: Mapping[str, Any],
    inputs: Mapping[str, Mapping[str, tf.Tensor]],
    tolerance: float,
) -> tuple[Any, dict[str, dict[str, np.ndarray]]]:
    """Compares the outputs of a SavedModel, loaded in Python and in a session, for all `inputs`.

    Returns the model loaded in Python, and the outputs of the live model.
    """
    expected = {
        name: {key: value.numpy() for key, value in signatures[name](**arguments).items()}
        for name, arguments in inputs.items()
    }
    loaded = tf.saved_model.load(os.fspath(path))
    for name, arguments in inputs.items():
        outputs = loaded.signatures[name](**arguments)
        compare(f"signature {name}, loaded by Python", outputs, expected[name], tolerance)
    with tf.Graph().as_default() as graph, tf.compat.v1.Session(graph=graph) as session:
        meta_graph = tf.compat.v1.saved_model.load(
            session, [tf.saved_model.SERVING], os.fspath(path)
        )
        for name, arguments in inputs.items():
            signature = meta_graph.signature_def[name]
            feeds = {signature.inputs[key].name: value.numpy() for key, value in arguments.items()}
            fetches = {key: info.name for key, info in signature.outputs.items()}
            outputs = session.run(fetches, feeds)
            compare(f"signature {name}, loaded in a session", outputs, expected[name], tolerance)
    return loaded, expected


def check_weights(path: str | os.PathLike, variables: Iterable[tf.Variable]) -> None:
    """Checks that the files of a SavedModel contain each weight once."""
    files = tf.train.load_checkpoint(os.fspath(Path(path) / "variables" / "variables"))
    shapes = files.get_variable_to_shape_map()
    dtypes = files.get_variable_to_dtype_map()
    saved = sum(int(np.prod(shape)) for name, shape in shapes.items() if dtypes[name].is_floating)
    wanted = sum(int(np.prod(variable.shape)) for variable in variables)
    if saved != wanted:
        raise _wrong(f"its files contain {saved} weights instead of {wanted}.")


def token_inputs() -> dict[str, tf.Tensor]:
    """Returns `EXAMPLES` as inputs of the signature `tokens`."""
    tokens = [sentence.split() for sentence in EXAMPLES]
    padded = tf.ragged.constant(tokens, dtype=tf.string).to_tensor("")
    return {"tokens": padded, "sequence_len": tf.constant([len(row) for row in tokens])}


def compare(
    what: str, outputs: Mapping[str, Any], expected: Mapping[str, np.ndarray], tolerance: float
) -> None:
    """Raises `RuntimeError` if outputs of a written model, `what`, differ from the live ones."""
    if set(outputs) != set(expected):
        raise _wrong(f"{what} returns the outputs {sorted(outputs)} instead of {sorted(expected)}.")
    for key, wanted in expected.items():
        actual = np.asarray(outputs[key])
        if actual.shape == wanted.shape and wanted.dtype.kind == "f":
            is_equal = np.allclose(actual, wanted, tolerance, tolerance, equal_nan=True)
        else:
            is_equal = np.array_equal(actual, wanted)
        if not is_equal:
            raise _wrong(f"the output {key} of {what} differs from that of the live model.")


def _check_gradients(loaded: Any, strings: tf.Tensor) -> None:
    with tf.GradientTape() as tape:
        outputs = loaded(strings, training=True).values()
        total = tf.add_n([tf.reduce_sum(value) for value in outputs if value.dtype.is_floating])
    gradients = tape.gradient(total, loaded.trainable_variables)
    pairs = zip(loaded.trainable_variables, gradients, strict=True)
    missing = [variable.name for variable, gradient in pairs if gradient is None]
    if missing:
        raise _wrong(f"no gradient reaches {', '.join(missing)}.")


def _wrong(message: str) -> RuntimeError:
    return RuntimeError(f"The exported model is wrong: {message}")
