"""The time loops of `ProjectedLSTM` on TensorFlow, with the input product taken out of them.

The plain form, for every backend, is Keras's own loop over `ProjectedLSTMCell`; a test holds that
all agree, and so do their gradients.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from elmo_tf.layers.active_rows_tf import ActiveRows

# Windows of training are short and of one length: without a loop, small models train faster.
_MOST_UNROLLED = 32
# Numbers in a kernel that stays in a processor's cache from token to token.
_SMALL_KERNEL = 2**21
_FORGET_BIAS = 1.0


class Weights(NamedTuple):
    """What a `ProjectedLSTMCell` multiplies with, in the dtype of its products.

    Args:
        kernel: float (feature, 4 · units).
        recurrent_kernel: float (projection_dim, 4 · units).
        bias: float (4 · units,).
        projection_kernel: float (units, projection_dim) or None.
    """

    kernel: tf.Tensor
    recurrent_kernel: tf.Tensor
    bias: tf.Tensor
    projection_kernel: tf.Tensor | None


def recurrence(
    inputs: tf.Tensor,
    initial_state: Sequence[tf.Tensor],
    mask: tf.Tensor | None,
    weights: Weights,
    cell_clip: float | None,
    proj_clip: float | None,
) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """Runs a cell over the tokens, and keeps nothing but the outputs.

    The cell state has at least 32 bits, whatever the dtype of the inputs. Each gate has matrices of
    its own, so that none has to be cut out of a product. A token that is masked in all shorter rows
    is computed for the longer ones alone.

    Args:
        inputs: float (token, batch, feature).
        initial_state: `[h, c]`.
        mask: bool (token, batch, 1) or None. At a masked token the state stays as it is.
        weights: of the cell.
        cell_clip, proj_clip: see `ProjectedLSTMCell`.

    Returns:
        `h` after each token, float (token, batch, feature), whatever it is at masked ones, and the
        last `[h, c]`.
    """
    wide = _at_least_32_bits(inputs.dtype)
    is_small = weights.kernel.shape.num_elements() <= _SMALL_KERNEL
    gates_of = _whole_products if is_small else _recurrent_products

    def after(h, c, token, gates):
        return _outputs(*gates(h, *token), h, c, weights, cell_clip, proj_clip)[:2]

    h, c = initial_state
    state = h, tf.cast(c, wide)
    if mask is None:
        sequences, gates = gates_of(inputs, weights)

        def step(state, *token):
            state = after(*state, token, gates)
            return state, state[:1]

        specs = [tf.TensorSpec(h.shape, h.dtype)]
        (outputs,), (last_h, last_c) = _scan(step, sequences, state, specs)
        return _stacked(outputs), [last_h, tf.cast(last_c, c.dtype)]

    rows = ActiveRows(mask)
    sequences, gates = gates_of(rows.pack(inputs), weights)

    def step_of_active(state, *token):
        return after(*state, token, gates)

    outputs, (last_h, last_c) = rows.scan(step_of_active, sequences, state)
    return outputs, [last_h, tf.cast(last_c, c.dtype)]


def _whole_products(inputs: tf.Tensor, weights: Weights) -> tuple[list, Callable]:
    """Gates of a token by one product each, of `[x, h]`: nothing is left to be added up.

    Args:
        inputs: float (…, feature), of all tokens.
        weights: of the cell.

    Returns:
        What a step reads of each token, and the function of `h` and of that.
    """
    both = tf.concat([weights.kernel, weights.recurrent_kernel], axis=0)
    kernels = tf.split(both, 4, axis=1)
    i, j, f, o = tf.split(weights.bias, 4)
    biases = i, j, f + _FORGET_BIAS, o
    wide = _at_least_32_bits(inputs.dtype)

    def gates(h, x):
        x_and_h = tf.concat([x, h], axis=1)
        products = [
            tf.nn.bias_add(tf.matmul(x_and_h, kernel), bias)
            for kernel, bias in zip(kernels, biases, strict=True)
        ]
        # With nothing in between, oneDNN computes product, bias and activation as one.
        return [tf.cast(gate, wide) for gate in _activations(*products)]

    return [inputs], gates


def _recurrent_products(inputs: tf.Tensor, weights: Weights) -> tuple[list, Callable]:
    """The same for matrices that no cache holds: half of them are read once for all tokens."""
    units = weights.kernel.shape[1] // 4
    shape = tf.concat([tf.shape(inputs)[:-1], [units]], axis=0)
    products = []
    for kernel, bias in zip(
        tf.split(weights.kernel, 4, axis=1), tf.split(weights.bias, 4), strict=True
    ):
        product = tf.reshape(tf.matmul(_flat(inputs), kernel) + bias, shape)
        products.append(tf.ensure_shape(product, (*inputs.shape[:-1], units)))
    kernels = tf.split(weights.recurrent_kernel, 4, axis=1)
    wide = _at_least_32_bits(inputs.dtype)

    def gates(h, *products):
        i, j, f, o = (
            tf.cast(product, wide) + tf.cast(tf.matmul(h, kernel), wide)
            for product, kernel in zip(products, kernels, strict=True)
        )
        return _activations(i, j, f + _FORGET_BIAS, o)

    return products, gates


def recurrence_for_training(
    inputs: tf.Tensor,
    initial_state: Sequence[tf.Tensor],
    mask: tf.Tensor | None,
    weights: Weights,
    cell_clip: float | None,
    proj_clip: float | None,
) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """The same, with a gradient that multiplies for all tokens at once.

    TensorFlow's own gradient of a loop adds up a (projection_dim, 4 · units) product in every step.
    Here the loop backwards carries only the state's gradient, and each matrix gets its own from one
    product over all tokens.

    Args, Returns: see `recurrence`.
    """
    clips = cell_clip, proj_clip
    has_projection = weights.projection_kernel is not None

    @tf.custom_gradient
    def run(inputs, h0, c0, *arrays):
        cell = Weights(*arrays, *([] if has_projection else [None]))
        (h, *kept), (last_h, last_c) = _forward(inputs, h0, c0, mask, cell, clips)

        def gradient(*upstream):
            gradients = _backward(upstream, (h, *kept), (inputs, h0, c0, mask), cell, clips)
            return [
                tf.cast(one, to.dtype)
                for one, to in zip(gradients, (inputs, h0, c0, *arrays), strict=True)
            ]

        return (_stacked(h), last_h, tf.cast(last_c, c0.dtype)), gradient

    # Variables themselves would be taken for something that the gradient must know by another name.
    arrays = [tf.identity(array) for array in weights if array is not None]
    h, last_h, last_c = run(inputs, *initial_state, *arrays)
    return tf.ensure_shape(h, (inputs.shape[0], *last_h.shape)), [last_h, last_c]


def _forward(inputs, h0, c0, mask, cell, clips):
    """After each token `h`, `c`, the four activations, tanh(c), and what is projected to `h`."""
    cell_clip, proj_clip = clips
    wide = _at_least_32_bits(inputs.dtype)

    def step(state, gates, real=None):
        h, c = state
        gates = tf.cast(gates, wide) + tf.cast(tf.matmul(h, cell.recurrent_kernel), wide)
        i, j, f, o = tf.split(gates, 4, axis=-1)
        new_h, new_c, *kept = _outputs(
            *_activations(i, j, f + _FORGET_BIAS, o), h, c, cell, cell_clip, proj_clip
        )
        if real is not None:
            new_h, new_c = tf.where(real, new_h, h), tf.where(real, new_c, c)
        return (new_h, new_c), (new_h, new_c, *kept)

    products = tf.matmul(_flat(inputs), cell.kernel) + cell.bias
    size = products.shape[-1]
    gates = tf.reshape(products, (*tf.unstack(tf.shape(inputs)[:2]), size))  # (token, batch, gate)
    gates = tf.ensure_shape(gates, (*inputs.shape[:2], size))
    of_h, of_c = tf.TensorSpec(h0.shape, h0.dtype), tf.TensorSpec(c0.shape, wide)
    specs = [of_h, *([of_c] * 6), tf.TensorSpec(c0.shape, h0.dtype)]
    sequences = [gates] if mask is None else [gates, mask]
    return _scan(step, sequences, (h0, tf.cast(c0, wide)), specs)


def _activations(i, j, f, o):
    return tf.sigmoid(i), tf.tanh(j), tf.sigmoid(f), tf.sigmoid(o)


def _outputs(i, j, f, o, h, c, cell, cell_clip, proj_clip):
    """`h'`, `c'`, the four activations, tanh(c'), and what is projected to `h'`."""
    new_c = f * c + i * j
    if cell_clip is not None:
        new_c = _clipped(new_c, cell_clip)
    tanh_c = tf.tanh(new_c)
    projected = tf.cast(o * tanh_c, h.dtype)
    new_h = projected
    if cell.projection_kernel is not None:
        new_h = tf.matmul(new_h, cell.projection_kernel)
        if proj_clip is not None:
            new_h = _clipped(new_h, proj_clip)
    return new_h, new_c, i, j, f, o, tanh_c, projected


def _clipped(values: tf.Tensor, clip: float) -> tf.Tensor:
    """In one pass, where `tf.clip_by_value` makes two."""
    clip = tf.constant(clip, values.dtype)
    return tf.raw_ops.ClipByValue(t=values, clip_value_min=-clip, clip_value_max=clip)


def _backward(upstream, kept, inputs, cell, clips):
    """Gradients of the inputs, the first state, and the cell's weights."""
    grad_h, grad_last_h, grad_last_c = upstream
    h, c, i, j, f, o, tanh_c, projected = kept
    inputs, h0, c0, mask = inputs
    cell_clip, proj_clip = clips
    dtype, wide = inputs.dtype, _at_least_32_bits(inputs.dtype)
    recurrent = _transposed(cell.recurrent_kernel)
    has_projection = cell.projection_kernel is not None
    projection = _transposed(cell.projection_kernel) if has_projection else None

    def step(state, upstream, h, c, c_before, i, j, f, o, tanh_c, real=None):
        carried_h, carried_c = state
        carried_h += tf.cast(upstream, wide)
        # A clipped value passes no gradient, a masked token none.
        new_h = carried_h
        if has_projection and proj_clip is not None:
            new_h = _within(proj_clip, tf.cast(h, wide), new_h)
        new_c = carried_c
        if real is not None:
            new_h, new_c = tf.where(real, new_h, 0.0), tf.where(real, new_c, 0.0)
        new_h = tf.cast(new_h, dtype)
        output = tf.cast(tf.matmul(new_h, projection) if has_projection else new_h, wide)
        new_c += tf.raw_ops.TanhGrad(y=tanh_c, dy=output * o)
        if cell_clip is not None:
            new_c = _within(cell_clip, c, new_c)
        gates = [
            tf.raw_ops.SigmoidGrad(y=i, dy=new_c * j),
            tf.raw_ops.TanhGrad(y=j, dy=new_c * i),
            tf.raw_ops.SigmoidGrad(y=f, dy=new_c * c_before),
            tf.raw_ops.SigmoidGrad(y=o, dy=output * tanh_c),
        ]
        gates = tf.cast(tf.concat(gates, axis=-1), dtype)
        before_h = tf.cast(tf.matmul(gates, recurrent), wide)
        before_c = new_c * f
        if real is not None:  # a masked token hands the state through
            before_h = tf.where(real, before_h, carried_h)
            before_c = tf.where(real, before_c, carried_c)
        return (before_h, before_c), (gates, new_h)

    c_before = _shifted(tf.cast(c0, wide), c)
    sequences = [grad_h, h, c, c_before, i, j, f, o, tanh_c]
    (grad_gates, grad_projected), (grad_h0, grad_c0) = _scan(
        step,
        sequences if mask is None else [*sequences, mask],
        (tf.cast(grad_last_h, wide), tf.cast(grad_last_c, wide)),
        [tf.TensorSpec((h0.shape[0], cell.kernel.shape[1]), dtype), tf.TensorSpec(h0.shape, dtype)],
        reverse=True,
    )
    grad_gates = _flat(_stacked(grad_gates))
    h_before = _flat(_stacked(_shifted(h0, h)))
    # One product for both matrices and the bias, whose input is always 1.
    ones = tf.ones_like(h_before[:, :1])
    sizes = [inputs.shape[-1], h0.shape[-1], 1]
    left = tf.concat([_flat(inputs), h_before, ones], axis=-1)
    products = tf.matmul(left, grad_gates, transpose_a=True)
    grad_kernel, grad_recurrent, grad_bias = tf.split(products, sizes)
    grad_inputs = tf.matmul(grad_gates, _transposed(cell.kernel))
    gradients = [tf.reshape(grad_inputs, tf.shape(inputs)), grad_h0, grad_c0]
    gradients += [grad_kernel, grad_recurrent, grad_bias[0]]
    if has_projection:
        left, right = _flat(_stacked(projected)), _flat(_stacked(grad_projected))
        gradients.append(tf.matmul(left, right, transpose_a=True))
    return gradients


def _scan(
    step: Callable[..., tuple[tuple, tuple]],
    sequences: Sequence[Any],
    state: tuple,
    specs: Sequence[tf.TensorSpec],
    reverse: bool = False,
) -> tuple[list[Any], tuple]:
    """Carries a state over the tokens: `state, outputs = step(state, *token)`.

    Args:
        step: one step.
        sequences: each (token, …): a tensor, or what this function gave.
        state: before the first step.
        specs: of one token's outputs.
        reverse: whether to begin at the last token.

    Returns:
        The outputs in the order of the tokens, each (token, …), and the last state. Where the steps
        are few and their number is known, an output is a list of tensors: most are never needed as
        one, and copying them costs more than computing them.
    """
    first = sequences[0]
    known = len(first) if isinstance(first, list) else first.shape[0]
    if known is not None and 0 < known <= _MOST_UNROLLED:
        lists = [one if isinstance(one, list) else tf.unstack(one) for one in sequences]
        tokens = list(zip(*lists, strict=True))
        outputs = []
        for token in reversed(tokens) if reverse else tokens:
            state, output = step(state, *token)
            outputs.append(output)
        return [list(one) for one in zip(*outputs[:: -1 if reverse else 1], strict=True)], state

    num_tokens = tf.shape(first)[0]
    arrays = [tf.TensorArray(one.dtype, num_tokens).unstack(one) for one in sequences]
    outputs = [tf.TensorArray(spec.dtype, num_tokens, element_shape=spec.shape) for spec in specs]

    def body(index, state, outputs):
        token = num_tokens - 1 - index if reverse else index
        state, output = step(state, *(array.read(token) for array in arrays))
        outputs = [array.write(token, one) for array, one in zip(outputs, output, strict=True)]
        return index + 1, state, outputs

    _, state, outputs = tf.while_loop(
        lambda index, *_: index < num_tokens, body, (tf.constant(0), state, outputs)
    )
    return [
        tf.ensure_shape(array.stack(), (known, *spec.shape))
        for array, spec in zip(outputs, specs, strict=True)
    ], state


def _stacked(sequence: Any) -> tf.Tensor:
    """What `_scan` gave as a tensor (token, …)."""
    return tf.stack(sequence) if isinstance(sequence, list) else sequence


def _shifted(first: tf.Tensor, sequence: Any) -> Any:
    """Each token's place takes what the one before it had, the first token's takes `first`."""
    if isinstance(sequence, list):
        return [first, *sequence[:-1]]
    return tf.concat([first[tf.newaxis], sequence], axis=0)[:-1]


def _flat(sequence: tf.Tensor) -> tf.Tensor:
    """(…, feature) → (row, feature)."""
    return tf.reshape(sequence, (-1, sequence.shape[-1]))


def _transposed(matrix: tf.Tensor) -> tf.Tensor:
    """The transpose in memory.

    TensorFlow folds a plain transpose into each product that takes it, and oneDNN then packs the
    matrix anew for every token, up to four times slower than the product itself.
    """
    rows, columns = matrix.shape
    return tf.reshape(tf.transpose(matrix[tf.newaxis], (0, 2, 1)), (columns, rows))


def _within(clip: float, value: tf.Tensor, gradient: tf.Tensor) -> tf.Tensor:
    """The gradient where a clipped value lies within its bounds, and 0 elsewhere."""
    return tf.raw_ops.ReluGrad(gradients=gradient, features=clip - tf.abs(value))


def _at_least_32_bits(dtype: tf.DType) -> tf.DType:
    return tf.float32 if dtype.size < 4 else dtype
