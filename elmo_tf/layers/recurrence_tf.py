"""The time loops of `ProjectedLSTM` for inference on TensorFlow, and what that for training shares.

Tests check that their outputs equal those of Keras's loop over `ProjectedLSTMCell`.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from elmo_tf.portability import is_portable

# Shorter sequences of static length, as in training, are unrolled: small models then train faster.
_MAX_UNROLLED = 32
# Maximum size of a kernel that stays in the processor's cache from token to token.
_SMALL_KERNEL = 2**21
# Maximum number of rows for which reading the weights takes longer than computing.
FEW_ROWS = 16


class LSTMWeights(NamedTuple):
    """The weights of a `ProjectedLSTMCell`, in its compute dtype, and its clips."""

    kernel: tf.Tensor  # (feature, 4 · units)
    recurrent_kernel: tf.Tensor  # (projection_dim, 4 · units)
    bias: tf.Tensor  # (4 · units,)
    projection_kernel: tf.Tensor | None  # (units, projection_dim)
    cell_clip: float | None
    proj_clip: float | None


def compiled_if_eager(run: Callable) -> Callable:
    """Makes eager calls of `recurrence` run a graph, traced once for each size of cell.

    A call of the small-en model on 35 tokens takes 0.08 instead of 0.40 s.
    """

    @functools.cache
    def compiled(clips, *specs):
        def run_tensors(inputs, h, c, mask, *weights):
            return run(inputs, (h, c), mask, LSTMWeights(*weights, *clips))

        return tf.function(run_tensors, autograph=False).get_concrete_function(*specs)

    @functools.wraps(run)
    def call(inputs, initial_state, mask, cell):
        if not tf.executing_eagerly() or is_portable():
            return run(inputs, initial_state, mask, cell)
        tensors = inputs, *initial_state, mask
        *weights, cell_clip, proj_clip = cell
        specs = [
            x if x is None else tf.TensorSpec([None] * (x.shape.rank - 1) + [x.shape[-1]], x.dtype)
            for x in tensors
        ]
        specs += [x if x is None else tf.TensorSpec(x.shape, x.dtype) for x in weights]
        return compiled((cell_clip, proj_clip), *specs)(*tensors, *weights)

    return call


@compiled_if_eager
def recurrence(
    inputs: tf.Tensor, initial_state: Sequence[tf.Tensor], mask: tf.Tensor | None, cell: LSTMWeights
) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """Runs a cell over the tokens for inference; stores only the outputs.

    The cell state is at least float32, whatever the dtype of the inputs. Padding is skipped as in
    `ActiveRows`, except in few rows (of static number), where it costs little.

    From inputs (token, batch, feature), `[h, c]` and a mask (token, batch, 1) or None, returns `h`
    after each token, float (token, batch, feature), with arbitrary values at masked tokens, which
    do not change the state; and the final `[h, c]`.
    """
    num_rows = inputs.shape[1]
    few_rows = is_portable() or (num_rows is not None and num_rows <= FEW_ROWS)
    h, c = initial_state
    state = h, tf.cast(c, at_least_32_bits(inputs.dtype))
    rows = None if mask is None or few_rows else ActiveRows(mask)
    packed = inputs if rows is None else rows.pack(inputs)
    sequences, gates = _products(packed, cell, few_rows)

    def step(state, *token):
        return cell_outputs(*gates(state[0], *token), *state, cell)[:2]

    def step_with_output(state, *token):
        if mask is None:
            new_state = step(state, *token)
        else:
            real, *token = token
            pairs = zip(step(state, *token), state, strict=True)
            new_state = tuple(tf.where(real, new, old) for new, old in pairs)
        return new_state, (new_state[0],)

    if rows is None:
        sequences = sequences if mask is None else [mask, *sequences]
        specs = [tf.TensorSpec(h.shape, h.dtype)]
        arguments = step_with_output, sequences, state
        run = _portable_scan(*arguments) if is_portable() else scan(*arguments, specs)
        (outputs,), (last_h, last_c) = run
        outputs = stacked(outputs)
    else:
        outputs, (last_h, last_c) = rows.scan(step, sequences, state)
    return outputs, [last_h, tf.cast(last_c, c.dtype)]


def packed_recurrence(
    inputs: tf.Tensor,
    starts: tf.Tensor | None,
    first_state: Sequence[tf.Tensor],
    state: Sequence[tf.Tensor],
    cell: LSTMWeights,
    few_rows: bool = False,
) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """`recurrence` over rows that hold several sentences, see `ProjectedLSTM.read_packed`.

    All steps have the same number of rows, so there is no padding to skip, and TensorFlow prepares
    its kernels for few shapes. The arguments are transposed: `starts` is bool (token, row, 1).
    """
    h, c = state
    wide = at_least_32_bits(inputs.dtype)
    state = h, tf.cast(c, wide)
    first_state = first_state[0], tf.cast(first_state[1], wide)

    sequences, gates = _products(inputs, cell, few_rows)

    def step(state, *token):
        if starts is not None:
            start, *token = token
            state = (tf.where(start, *pair) for pair in zip(first_state, state, strict=True))
        h, c = state
        h, c = cell_outputs(*gates(h, *token), h, c, cell)[:2]
        return (h, c), (h,)

    specs = [tf.TensorSpec(h.shape, h.dtype)]
    sequences = sequences if starts is None else [starts, *sequences]
    (outputs,), (last_h, last_c) = scan(step, sequences, state, specs)
    return stacked(outputs), [last_h, tf.cast(last_c, c.dtype)]


def _products(inputs: tf.Tensor, cell: LSTMWeights, few_rows: bool) -> tuple[list, Callable]:
    """Prepares the products of the gates with all inputs, float (…, feature), in the faster way.

    Returns the sequences whose items a step reads, and the function from `h` and these items to the
    activations of the gates.
    """
    if few_rows:  # a single product, since operations take longer than arithmetic
        return products_before_steps(inputs, cell, 1)
    if cell.kernel.shape.num_elements() > _SMALL_KERNEL:
        return products_before_steps(inputs, cell, 4)
    return _joint_products(inputs, cell)


def _joint_products(inputs: tf.Tensor, cell: LSTMWeights) -> tuple[list, Callable]:
    """Computes each gate as one product with `[x, h]`, which avoids an addition."""
    kernels = tf.split(tf.concat([cell.kernel, cell.recurrent_kernel], axis=0), 4, axis=1)
    biases = tf.split(_bias(cell, inputs.dtype), 4)
    wide = at_least_32_bits(inputs.dtype)

    def gates(h, x):
        x_and_h = tf.concat([x, h], axis=1)
        products = [
            tf.nn.bias_add(tf.matmul(x_and_h, kernel), bias)
            for kernel, bias in zip(kernels, biases, strict=True)
        ]
        # Without a cast in between, oneDNN fuses product, bias and activation.
        return [tf.cast(gate, wide) for gate in activations(*products)]

    return [inputs], gates


def products_before_steps(
    inputs: tf.Tensor, cell: LSTMWeights, num_products: int
) -> tuple[list, Callable]:
    """Computes the products with all inputs first, so that a step reads half of the weights.

    `num_products` is 1 for all gates together, or 4.
    """
    width = cell.kernel.shape[1] // num_products
    shape = tf.concat([tf.shape(inputs)[:-1], [width]], axis=0)
    wide = at_least_32_bits(inputs.dtype)
    kernels, recurrent_kernels, biases = (
        tf.split(weights, num_products, axis=-1)
        for weights in (cell.kernel, cell.recurrent_kernel, _bias(cell, wide))
    )

    def of_inputs(kernel, bias):
        product = tf.cast(tf.matmul(flat(inputs), kernel), wide) + bias
        return tf.ensure_shape(tf.reshape(product, shape), (*inputs.shape[:-1], width))

    def gates(h, *products):
        sums = [
            product + tf.cast(tf.matmul(h, kernel), wide)
            for product, kernel in zip(products, recurrent_kernels, strict=True)
        ]
        return activations(*(tf.split(sums[0], 4, axis=1) if num_products == 1 else sums))

    return list(map(of_inputs, kernels, biases)), gates


def _bias(cell: LSTMWeights, dtype: tf.DType) -> tf.Tensor:
    """The bias of all gates, with that of the forget gate."""
    i, j, f, o = tf.split(tf.cast(cell.bias, dtype), 4)
    return tf.concat([i, j, f + 1.0, o], axis=0)


def activations(i, j, f, o):
    """Returns the activations of the four gates."""
    return tf.sigmoid(i), tf.tanh(j), tf.sigmoid(f), tf.sigmoid(o)


def cell_outputs(i, j, f, o, h, c, cell):
    """Returns `h'`, `c'`, the four activations, tanh(c'), and `h'` before the projection."""
    new_c = f * c + i * j
    if cell.cell_clip is not None:
        new_c = tf.clip_by_value(new_c, -cell.cell_clip, cell.cell_clip)
    tanh_c = tf.tanh(new_c)
    projected = tf.cast(o * tanh_c, h.dtype)
    new_h = projected
    if cell.projection_kernel is not None:
        new_h = tf.matmul(new_h, cell.projection_kernel)
        if cell.proj_clip is not None:
            new_h = tf.clip_by_value(new_h, -cell.proj_clip, cell.proj_clip)
    return new_h, new_c, i, j, f, o, tanh_c, projected


def scan(
    step: Callable[..., tuple[tuple, tuple]],
    sequences: Sequence[Any],
    state: tuple,
    specs: Sequence[tf.TensorSpec],
    reverse: bool = False,
) -> tuple[list[Any], tuple]:
    """Runs `state, outputs = step(state, *inputs)` over the tokens, from the last if `reverse`.

    `sequences` are the inputs of all steps, each (token, …): a tensor, or an output of this
    function. `specs` are the shapes and dtypes of one step's outputs.

    Returns the outputs in token order, each (token, …), and the final state. If the loop is
    unrolled, an output is a list of tensors, since stacking costs more than computing them; see
    `stacked`.
    """
    first = sequences[0]
    length = len(first) if isinstance(first, list) else first.shape[0]
    if length is not None and 0 < length <= _MAX_UNROLLED:
        lists = [items if isinstance(items, list) else tf.unstack(items) for items in sequences]
        outputs = [()] * length
        for index in reversed(range(length)) if reverse else range(length):
            state, outputs[index] = step(state, *(items[index] for items in lists))
        return [list(output) for output in zip(*outputs, strict=True)], state

    num_tokens = tf.shape(first)[0]
    arrays = [tf.TensorArray(items.dtype, num_tokens).unstack(items) for items in sequences]
    outputs = [tf.TensorArray(spec.dtype, num_tokens, element_shape=spec.shape) for spec in specs]

    def body(index, state, outputs):
        token = num_tokens - 1 - index if reverse else index
        state, output = step(state, *(array.read(token) for array in arrays))
        outputs = [array.write(token, item) for array, item in zip(outputs, output, strict=True)]
        return index + 1, state, outputs

    _, state, outputs = tf.while_loop(
        lambda index, *_: index < num_tokens, body, (tf.constant(0), state, outputs)
    )
    return [
        tf.ensure_shape(array.stack(), (length, *spec.shape))
        for array, spec in zip(outputs, specs, strict=True)
    ], state


def _portable_scan(step: Callable, sequences: Sequence[tf.Tensor], state: tuple) -> tuple:
    """`scan` for one output, the first part of the state, without a `TensorArray`."""
    num_tokens = tf.shape(sequences[0])[0]
    outputs = tf.zeros(tf.concat([[num_tokens], tf.shape(state[0])], axis=0), state[0].dtype)

    def body(token, state, outputs):
        state, output = step(state, *(tf.gather(items, token) for items in sequences))
        return token + 1, state, tf.tensor_scatter_nd_update(outputs, [[token]], output)

    loop = (tf.constant(0), state, outputs)
    _, state, outputs = tf.while_loop(lambda token, *_: token < num_tokens, body, loop)
    return [outputs], state


def stacked(sequence: Any) -> tf.Tensor:
    """An output of `scan` as a tensor (token, …)."""
    return tf.stack(sequence) if isinstance(sequence, list) else sequence


def flat(sequence: tf.Tensor) -> tf.Tensor:
    """(…, feature) → (row, feature)."""
    return tf.reshape(sequence, (-1, sequence.shape[-1]))


def at_least_32_bits(dtype: tf.DType) -> tf.DType:
    """Returns float32 instead of a narrower dtype."""
    return tf.float32 if dtype.size < 4 else dtype


# Row counts are rounded up to a multiple of this: TensorFlow keeps memory for every shape.
_ROWS = 8


class ActiveRows:
    """The active rows of a batch at each token position, with the longest rows first.

    With rows sorted by length, a position is computed for all rows up to the last one with a real
    token there. Any mask, bool (token, batch, 1), is supported; little padding is computed if it is
    on one side only.
    """

    def __init__(self, mask: tf.Tensor):
        real = mask[:, :, 0]
        self._shape = mask.shape[:2]
        self._num_tokens, self._num_rows = tf.unstack(tf.shape(real))
        lengths = tf.reduce_sum(tf.cast(real, tf.int32), axis=0)
        self._order = tf.argsort(-lengths, stable=True)
        self._places = tf.math.invert_permutation(self._order)
        self._real = tf.gather(real, self._order, axis=1)
        places = tf.range(1, self._num_rows + 1)
        needed = tf.reduce_max(tf.where(self._real, places, 0), axis=1)
        rounded = -(-needed // _ROWS) * _ROWS
        self._counts = tf.clip_by_value(rounded, 0, self._num_rows)  # (token,)
        tokens, rows = tf.unstack(tf.where(places <= self._counts[:, tf.newaxis]), axis=1)
        self._packed = tf.stack([tf.cast(tokens, tf.int32), tf.gather(self._order, rows)], axis=1)

    def pack(self, sequence: tf.Tensor) -> tf.Tensor:
        """Drops the inactive rows: (token, batch, feature) → (sum of active rows, feature)."""
        return tf.gather_nd(sequence, self._packed)

    def scan(
        self, step: Callable[..., Sequence[tf.Tensor]], sequences: Sequence[tf.Tensor], state: tuple
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Runs `state = step(state, *inputs)` over the tokens, for the active rows of each.

        Masked tokens do not change the state, each (batch, feature). `sequences` are packed.

        Returns the first tensor of the state after each token, (token, batch, feature), with
        arbitrary values at masked tokens; and the final state.
        """
        arrays = [self._split(packed) for packed in sequences]
        state = [tf.gather(tensor, self._order) for tensor in state]
        outputs = tf.TensorArray(state[0].dtype, self._num_tokens, element_shape=state[0].shape)

        def body(token, state, outputs):
            count = self._counts[token]
            inputs = [array.read(token) for array in arrays]
            new_state = step([tensor[:count] for tensor in state], *inputs)
            real = self._real[token, :count, tf.newaxis]

            def merged(new, old):
                rows = tf.concat([tf.where(real, new, old[:count]), old[count:]], axis=0)
                return tf.ensure_shape(rows, old.shape)

            state = [merged(new, old) for new, old in zip(new_state, state, strict=True)]
            return token + 1, state, outputs.write(token, state[0])

        _, state, outputs = tf.while_loop(
            lambda token, *_: token < self._num_tokens, body, (tf.constant(0), state, outputs)
        )
        # Unlike `stack`, `concat` allows a batch without tokens.
        shape = self._num_tokens, self._num_rows, state[0].shape[-1]
        outputs = tf.gather(tf.reshape(outputs.concat(), shape), self._places, axis=1)
        state = [tf.gather(tensor, self._places) for tensor in state]
        return tf.ensure_shape(outputs, (*self._shape, shape[-1])), state

    def _split(self, packed: tf.Tensor) -> tf.TensorArray:
        kind = {"infer_shape": False, "element_shape": (None, packed.shape[-1])}
        return tf.TensorArray(packed.dtype, self._num_tokens, **kind).split(packed, self._counts)
