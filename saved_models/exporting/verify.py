"""A written SavedModel against the live model: loaded twice, its weights counted, its gradients."""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from elmo_tf.saved_models.exporting.signatures import Exported
from elmo_tf.text.char_ids import char_ids

# Of unlike lengths, with nothing in one, and with a token longer than most models keep.
SENTENCES = (
    "The bank raised its rates .",
    "",
    "They sat on the bank of the river and talked until dark .",
    f"Zürich 서울 \N{GRINNING FACE} {'long' * 20} 3.14",
)
# Relative and absolute. In bfloat16 what TensorFlow fuses decides what is rounded.
TOLERANCES = {"float32": 1e-5, "bfloat16": 0.05}


def verify(path: str | os.PathLike, exported: Exported) -> None:
    """Compares a SavedModel with the model that it was written from.

    It is loaded as Python loads it, and in a session, as a server does; every signature must give
    what the live model gives. The files must hold each weight once, and every trainable weight must
    get a gradient.

    Args:
        path: the SavedModel.
        exported: the live model.

    Raises:
        RuntimeError: something differs; the message says what.
    """
    inputs = _inputs(exported)
    tolerance = TOLERANCES[exported.bilm.compute_dtype]
    loaded, expected = compare_signatures(path, exported.signatures, inputs, tolerance)
    outputs = loaded(inputs["serving_default"]["strings"])
    _compare("the loaded function", outputs, expected["serving_default"], tolerance)
    check_weights(path, exported.variables)
    _check_gradients(loaded, inputs["serving_default"]["strings"])


def compare_signatures(
    path: str | os.PathLike,
    signatures: Mapping[str, Any],
    inputs: Mapping[str, Mapping[str, tf.Tensor]],
    tolerance: float,
) -> tuple[Any, dict[str, dict[str, np.ndarray]]]:
    """Loads a SavedModel as Python does, and in a session, and asks all its signatures.

    Args:
        path: the SavedModel.
        signatures: of the live model.
        inputs: what each of them is asked.
        tolerance: relative and absolute.

    Returns:
        The loaded model, and what the live one answers.

    Raises:
        RuntimeError: an answer is another; the message says which.
    """
    expected = {
        name: {key: value.numpy() for key, value in signatures[name](**arguments).items()}
        for name, arguments in inputs.items()
    }
    loaded = tf.saved_model.load(os.fspath(path))
    for name, arguments in inputs.items():
        outputs = loaded.signatures[name](**arguments)
        _compare(f"signature {name}, loaded by Python", outputs, expected[name], tolerance)
    for name, outputs in _session_outputs(path, inputs):
        _compare(f"signature {name}, loaded in a session", outputs, expected[name], tolerance)
    return loaded, expected


def check_weights(path: str | os.PathLike, variables: Iterable[tf.Variable]) -> None:
    """Refuses files that do not hold each weight once.

    Raises:
        RuntimeError: they do not.
    """
    files = tf.train.load_checkpoint(os.fspath(Path(path) / "variables" / "variables"))
    shapes = files.get_variable_to_shape_map()
    dtypes = files.get_variable_to_dtype_map()
    saved = sum(int(np.prod(shape)) for name, shape in shapes.items() if dtypes[name].is_floating)
    wanted = sum(int(np.prod(variable.shape)) for variable in variables)
    if saved != wanted:
        raise RuntimeError(
            f"The exported model is wrong: its files hold {saved} numbers, its weights {wanted}."
        )


def _inputs(exported: Exported) -> dict[str, dict[str, tf.Tensor]]:
    strings = tf.constant(SENTENCES)
    tokens = [sentence.split() for sentence in SENTENCES]
    padded = tf.ragged.constant(tokens, dtype=tf.string).to_tensor("")
    lengths = tf.constant([len(sentence) for sentence in tokens])
    inputs = {name: {"strings": strings} for name in exported.signatures}
    inputs["tokens"] = {"tokens": padded, "sequence_len": lengths}
    if "char_ids" in inputs:
        max_chars = exported.bilm.config.char_cnn.max_chars
        inputs["char_ids"] = {"char_ids": char_ids(padded, max_chars)}
    return inputs


def _session_outputs(
    path: str | os.PathLike, inputs: Mapping[str, Mapping[str, tf.Tensor]]
) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    with tf.Graph().as_default() as graph, tf.compat.v1.Session(graph=graph) as session:
        meta_graph = tf.compat.v1.saved_model.load(
            session, [tf.saved_model.SERVING], os.fspath(path)
        )
        for name, arguments in inputs.items():
            signature = meta_graph.signature_def[name]
            feeds = {signature.inputs[key].name: value.numpy() for key, value in arguments.items()}
            fetches = {key: info.name for key, info in signature.outputs.items()}
            yield name, session.run(fetches, feeds)


def _compare(
    what: str,
    outputs: dict[str, Any],
    expected: dict[str, np.ndarray],
    tolerance: float = TOLERANCES["float32"],
) -> None:
    if set(outputs) != set(expected):
        raise RuntimeError(
            f"The exported model is wrong: {what} gives the outputs {sorted(outputs)}, not "
            f"{sorted(expected)}."
        )
    for key, wanted in expected.items():
        got = np.asarray(outputs[key])
        is_same = got.shape == wanted.shape
        if is_same and wanted.dtype.kind == "f":
            is_same = np.allclose(got, wanted, tolerance, tolerance, equal_nan=True)
        elif is_same:
            is_same = np.array_equal(got, wanted)
        if not is_same:
            raise RuntimeError(
                f"The exported model is wrong: the output {key} of {what} is not that of the live "
                "model."
            )


def _check_gradients(loaded: Any, strings: tf.Tensor) -> None:
    with tf.GradientTape() as tape:
        outputs = loaded(strings, training=True)
        total = tf.add_n(
            [tf.reduce_sum(value) for value in outputs.values() if value.dtype.is_floating]
        )
    gradients = tape.gradient(total, loaded.trainable_variables)
    missing = [
        variable.name
        for variable, gradient in zip(loaded.trainable_variables, gradients, strict=True)
        if gradient is None
    ]
    if missing:
        raise RuntimeError(
            f"The exported model is wrong: no gradient reaches {', '.join(missing)}."
        )
