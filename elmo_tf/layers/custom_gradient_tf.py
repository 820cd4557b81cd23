"""Custom gradients whose graphs are freed after use."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

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

    def in_graph(*arguments):
        outputs, gradient = function(*arguments)
        flat = tf.nest.flatten(outputs)

        def of_all_tensors(*upstream):
            return [None] * len(flat) + tf.nest.flatten(gradient(*upstream[: len(flat)]))

        graph = tf.compat.v1.get_default_graph()
        with graph.gradient_override_map({"IdentityN": _GRADIENT}):
            results = tf.identity_n([*flat, *arguments])
        graph.add_to_collection(_key(results[0].op), of_all_tensors)
        return tf.nest.pack_sequence_as(outputs, results[: len(flat)])

    @tf.autograph.experimental.do_not_convert
    def call(*arguments):
        if tf.executing_eagerly():
            return eager(*arguments)
        # A tape ignores the override in the graph where it records, but not in a nested function.
        return tf.function(in_graph, autograph=False)(*arguments)

    return call


@tf.RegisterGradient(_GRADIENT)
def _gradient(op: tf.Operation, *upstream: Any) -> list[Any]:
    (function,) = op.graph.get_collection(_key(op))
    return function(*upstream)


def _key(op: tf.Operation) -> tuple[str, str]:
    return _GRADIENT, op.name
