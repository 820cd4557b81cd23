"""Custom gradients whose graphs are freed after use."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import record
from tensorflow.python.framework.ops import gradient_registry

_GRADIENT = "ElmoTFCustomGradient"


def custom_gradient(function: Callable[..., tuple[Any, Callable]]) -> Callable:
    """`tf.custom_gradient` for tensors, without a memory leak.

    In a graph, `tf.custom_gradient` registers each gradient function under a new name. The global
    registry keeps it, and with it the graph, until the process ends: 60 MB for every model that is
    trained. Here one function is registered, and the graph itself keeps its gradient functions.

    `function` returns the outputs, a tensor or a tuple of tensors, and a function from their
    gradients to those of the arguments. It uses no variables. The result returns the outputs only.
    """
    eager = tf.custom_gradient(function)

    @tf.autograph.experimental.do_not_convert
    def call(*arguments):
        if tf.executing_eagerly():
            return eager(*arguments)
        outputs, gradient = function(*arguments)
        flat = tf.nest.flatten(outputs)

        def of_all_tensors(*upstream):
            return [None] * len(flat) + tf.nest.flatten(gradient(*upstream[: len(flat)]))

        tensors = [*flat, *arguments]
        graph = tf.compat.v1.get_default_graph()
        with graph.gradient_override_map({"IdentityN": _GRADIENT}):
            results = tf.identity_n(tensors)
        # Used by `tf.gradients` and by a tape outside of the function that is traced here.
        graph.add_to_collection(_key(results[0].op), of_all_tensors)
        # Used by a tape in the same function.
        record.record_operation(function.__name__, results, tensors, of_all_tensors)
        return tf.nest.pack_sequence_as(outputs, results[: len(flat)])

    return call


@tf.RegisterGradient(_GRADIENT)
def _gradient(op: tf.Operation, *upstream: Any) -> list[Any]:
    (function,) = op.graph.get_collection(_key(op))
    return function(*upstream)


def _key(op: tf.Operation) -> tuple[str, str]:
    return _GRADIENT, op.name


def release_reductions() -> None:
    """Frees the graphs of earlier trainings that TensorFlow 2.19 to 2.21 never frees.

    Keras' optimizers sum gradients over replicas through `tf.custom_gradient`, whose registered
    function needlessly refers to its results, and so to the graph: 40 MB for a Keras model of four
    LSTMs (TensorFlow's issue 97697). The results are replaced by numbers, which serve as well.
    """
    for name, entry in list(gradient_registry._registry.items()):
        if not name.startswith("CustomGradient-"):
            continue
        function = _cells(entry["type"]).get("tape_grad_fn")
        result = None if function is None else _cells(function.cell_contents).get("result")
        if result is None:
            continue
        tensors = tf.nest.flatten(result.cell_contents)
        if all(isinstance(tensor, tf.Tensor) for tensor in tensors):
            result.cell_contents = [0.0] * len(tensors)


def _cells(function: Callable) -> dict[str, Any]:
    """The variables that a function closes over."""
    return dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
