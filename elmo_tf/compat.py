"""The private names of TensorFlow and Keras that elmo_tf needs, imported in one function each.

tests/test_compat.py and the exports of Keras in tests/saved_models/exporting/test_runtimes.py fail
when a new version of these packages changes what they rely on.
"""

import sys
from collections.abc import Callable
from typing import Any


def release_reductions() -> None:
    """Frees the graphs of earlier trainings that TensorFlow 2.19 to 2.21 never frees.

    Keras' optimizers sum gradients over replicas through `tf.custom_gradient`, whose registered
    function needlessly refers to its results, and so to the graph: 40 MB for a Keras model of four
    LSTMs (TensorFlow's issue 97697). The results are replaced by numbers, which serve as well.
    """
    import tensorflow as tf
    from tensorflow.python.framework.ops import gradient_registry

    for name, entry in list(gradient_registry._registry.items()):
        if not name.startswith("CustomGradient-"):
            continue
        function = _closure(entry["type"]).get("tape_grad_fn")
        result = None if function is None else _closure(function.cell_contents).get("result")
        if result is None:
            continue
        tensors = tf.nest.flatten(result.cell_contents)
        if all(isinstance(tensor, tf.Tensor) for tensor in tensors):
            result.cell_contents = [0.0] * len(tensors)


def _closure(function: Callable) -> dict[str, Any]:
    """The variables that a function closes over."""
    return dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))


def is_in_keras_export() -> bool:
    """Whether Keras's `Model.export` traces a graph for ONNX, LiteRT or OpenVINO.

    Keras does not tell its layers; the modules of the callers do. It also traces the `BiLM` of an
    `Elmo`, over strings, for signatures that are then not used.
    """
    exports = [f"keras.src.export.{name}" for name in ("onnx", "litert", "openvino")]
    frame = sys._getframe()
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module in exports or module == "keras.src.backend.tensorflow.layer":
            return module in exports
        frame = frame.f_back
    return False
