"""The private names of TensorFlow and Keras that elmo_tf needs, one short function each.

tests/test_compat.py fails with the name of a function when a new version of these packages changes
what the function relies on.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.framework.ops import gradient_registry


def release_reductions() -> None:
    """Frees the graphs of earlier trainings that TensorFlow 2.19 to 2.21 never frees.

    Keras' optimizers sum gradients over replicas through `tf.custom_gradient`, whose registered
    function needlessly refers to its results, and so to the graph: 40 MB for a Keras model of four
    LSTMs (TensorFlow's issue 97697). The results are replaced by numbers, which serve as well.
    """
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
