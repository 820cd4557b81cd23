"""The time loop of `ProjectedLSTM` for training on TensorFlow, and custom gradients without leaks.

Tests check that outputs and gradients equal those of Keras's loop over `ProjectedLSTMCell`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from elmo_tf.layers.recurrence_tf import (
    LSTMWeights,
    at_least_32_bits,
    cell_outputs,
    compiled_if_eager,
    flat,
    products_before_steps,
    scan,
    stacked,
)

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


@compiled_if_eager
def recurrence_for_training(
    inputs: tf.Tensor, initial_state: Sequence[tf.Tensor], mask: tf.Tensor | None, cell: LSTMWeights
) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """`recurrence` with an efficient gradient.

    TensorFlow's gradient of a loop adds a (projection_dim, 4 · units) product at every step. Here
    the backward loop computes only the gradient of the state, and the gradient of each matrix is
    one product over all tokens.
    """
    *weights, cell_clip, proj_clip = cell
    # For variables, `tf.custom_gradient` would require a gradient function of another form.
    arrays = [tf.identity(array) for array in weights if array is not None]

    @custom_gradient
    def run(inputs, h0, c0, *arrays):
        cell = LSTMWeights(*arrays, *[None] * (4 - len(arrays)), cell_clip, proj_clip)
        (h, *kept), (last_h, last_c) = _forward(inputs, h0, c0, mask, cell)

        def gradient(*upstream):
            gradients = _backward(upstream, (h, *kept), (inputs, h0, c0, mask), cell)
            sources = inputs, h0, c0, *arrays
            return [tf.cast(g, source.dtype) for g, source in zip(gradients, sources, strict=True)]

        return (stacked(h), last_h, tf.cast(last_c, c0.dtype)), gradient

    h, last_h, last_c = run(inputs, *initial_state, *arrays)
    return tf.ensure_shape(h, (inputs.shape[0], *last_h.shape)), [last_h, last_c]


def _forward(inputs, h0, c0, mask, cell):
    """Returns `cell_outputs` after each token, and the final state."""
    sequences, gates = products_before_steps(inputs, cell, 1)

    def step(state, product, real=None):
        h, c = state
        new_h, new_c, *kept = cell_outputs(*gates(h, product), h, c, cell)
        if real is not None:
            new_h, new_c = tf.where(real, new_h, h), tf.where(real, new_c, c)
        return (new_h, new_c), (new_h, new_c, *kept)

    c0 = tf.cast(c0, at_least_32_bits(inputs.dtype))
    of_h, of_c = tf.TensorSpec(h0.shape, h0.dtype), tf.TensorSpec(c0.shape, c0.dtype)
    specs = [of_h, *([of_c] * 6), tf.TensorSpec(c0.shape, h0.dtype)]
    sequences = sequences if mask is None else [*sequences, mask]
    return scan(step, sequences, (h0, c0), specs)


def _backward(upstream, kept, inputs, cell):
    """Returns the gradients of the inputs, the initial state and the weights of the cell."""
    grad_h, grad_last_h, grad_last_c = upstream
    h, c, i, j, f, o, tanh_c, projected = kept
    inputs, h0, c0, mask = inputs
    dtype, wide = inputs.dtype, at_least_32_bits(inputs.dtype)
    recurrent = transposed(cell.recurrent_kernel)
    has_projection = cell.projection_kernel is not None
    projection = transposed(cell.projection_kernel) if has_projection else None

    def step(state, upstream, h, c, c_before, i, j, f, o, tanh_c, real=None):
        carried_h, carried_c = state
        carried_h += tf.cast(upstream, wide)
        # Clipped values and masked tokens pass no gradient.
        new_h = carried_h
        if has_projection and cell.proj_clip is not None:
            new_h = _within(cell.proj_clip, tf.cast(h, wide), new_h)
        new_c = carried_c
        if real is not None:
            new_h, new_c = tf.where(real, new_h, 0.0), tf.where(real, new_c, 0.0)
        new_h = tf.cast(new_h, dtype)
        output = tf.cast(tf.matmul(new_h, projection) if has_projection else new_h, wide)
        new_c += tf.raw_ops.TanhGrad(y=tanh_c, dy=output * o)
        if cell.cell_clip is not None:
            new_c = _within(cell.cell_clip, c, new_c)
        gates = [
            tf.raw_ops.SigmoidGrad(y=i, dy=new_c * j),
            tf.raw_ops.TanhGrad(y=j, dy=new_c * i),
            tf.raw_ops.SigmoidGrad(y=f, dy=new_c * c_before),
            tf.raw_ops.SigmoidGrad(y=o, dy=output * tanh_c),
        ]
        gates = tf.cast(tf.concat(gates, axis=-1), dtype)
        before_h = tf.cast(tf.matmul(gates, recurrent), wide)
        before_c = new_c * f
        if real is not None:  # masked tokens do not change the state
            before_h = tf.where(real, before_h, carried_h)
            before_c = tf.where(real, before_c, carried_c)
        return (before_h, before_c), (gates, new_h)

    c_before = shifted(tf.cast(c0, wide), c)
    sequences = [grad_h, h, c, c_before, i, j, f, o, tanh_c]
    (grad_gates, grad_projected), (grad_h0, grad_c0) = scan(
        step,
        sequences if mask is None else [*sequences, mask],
        (tf.cast(grad_last_h, wide), tf.cast(grad_last_c, wide)),
        [tf.TensorSpec((h0.shape[0], cell.kernel.shape[1]), dtype), tf.TensorSpec(h0.shape, dtype)],
        reverse=True,
    )
    grad_gates = flat(stacked(grad_gates))
    h_before = flat(stacked(shifted(h0, h)))
    # One product for both matrices and the bias, whose input is 1.
    ones = tf.ones_like(h_before[:, :1])
    sizes = [inputs.shape[-1], h0.shape[-1], 1]
    left = tf.concat([flat(inputs), h_before, ones], axis=-1)
    products = tf.matmul(left, grad_gates, transpose_a=True)
    grad_kernel, grad_recurrent, grad_bias = tf.split(products, sizes)
    grad_inputs = tf.matmul(grad_gates, transposed(cell.kernel))
    gradients = [tf.reshape(grad_inputs, tf.shape(inputs)), grad_h0, grad_c0]
    gradients += [grad_kernel, grad_recurrent, grad_bias[0]]
    if has_projection:
        left, right = flat(stacked(projected)), flat(stacked(grad_projected))
        gradients.append(tf.matmul(left, right, transpose_a=True))
    return gradients


def shifted(first: tf.Tensor, sequence: Any) -> Any:
    """Shifts a sequence by one token; `first` becomes its first item."""
    if isinstance(sequence, list):
        return [first, *sequence[:-1]]
    return tf.concat([first[tf.newaxis], sequence], axis=0)[:-1]


def transposed(matrix: tf.Tensor) -> tf.Tensor:
    """The transpose as a copy in memory.

    TensorFlow would fuse `tf.transpose` with each product, and oneDNN then repacks the matrix for
    every token, which takes up to four times longer than the product.
    """
    rows, columns = matrix.shape
    return tf.reshape(tf.transpose(matrix[tf.newaxis], (0, 2, 1)), (columns, rows))


def _within(clip: float, value: tf.Tensor, gradient: tf.Tensor) -> tf.Tensor:
    """The gradient where `value` is not clipped, and 0 elsewhere."""
    return tf.raw_ops.ReluGrad(gradients=gradient, features=clip - tf.abs(value))
