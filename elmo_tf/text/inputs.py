"""Conversion and checks of a biLM's inputs: sentences, tokens, char ids or token ids."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from elmo_tf.text.sentences import encode, has_whitespace, split_tokens, string_tensor


def checked_inputs(inputs: Any, lengths: Any) -> tuple[Any, Any]:
    """Returns `as_tensor(inputs)` and `lengths` as int32, after all checks that are possible.

    The values of symbolic tensors, and of tensors in a graph, are not checked here.

    Raises:
        TypeError: `lengths` are not integers, or see `as_tensor`.
        ValueError: see `as_tensor`, `token_batch` and `refuse_sentences_as_tokens`.
    """
    if lengths is None:  # `lengths` imply that the rows are tokens
        inputs = refuse_sentences_as_tokens(inputs)
    inputs = as_tensor(inputs)
    if lengths is not None:
        lengths = _check_lengths(lengths)
    eager = isinstance(inputs, tf.Tensor) and hasattr(inputs, "numpy")
    if eager and inputs.shape.rank != 1:
        lengths = row_lengths(is_token(inputs), lengths)
    elif eager and lengths is not None:
        _, lengths = token_batch(inputs, lengths)
    return inputs, lengths


def as_tensor(inputs: Any) -> Any:
    """Converts inputs to a dense tensor; returns symbolic tensors unchanged.

    Args:
        inputs: a list of sentences or a string tensor (batch,); a list of token lists, a ragged
            tensor, or a string tensor (batch, token) padded with `""`; char ids (batch, token,
            char), or token ids (batch, token), as a tensor, an array or nested lists.

    Returns:
        A string tensor (batch,) or (batch, token), or an int32 tensor of rank 2 or 3.

    Raises:
        TypeError: a single string, a mixture of types, or an unsupported type.
        ValueError: unsupported number of axes, or rows of char ids of different lengths.
    """
    if isinstance(inputs, str | bytes):
        raise TypeError(
            "A batch of sentences is required, not a single string: put it in a list. "
            f"Received: {inputs!r}"
        )
    if isinstance(inputs, keras.KerasTensor):
        return _check_rank(_check_symbolic_dtype(inputs))
    if isinstance(inputs, tf.RaggedTensor):
        inputs = inputs.to_tensor("" if inputs.dtype == tf.string else 0)
    elif isinstance(inputs, list | tuple):
        inputs = _from_lists(list(inputs))
    elif isinstance(inputs, np.ndarray) and inputs.dtype.kind in "OUST":
        inputs = _from_lists(inputs.tolist())
    return _check_rank(_check_dtype(inputs))


def refuse_sentences_as_tokens(strings: Any) -> Any:
    """Checks that an array of shape (batch, 1) contains tokens and not sentences.

    Args:
        strings: any inputs. Only arrays, tensors and data frames of static shape (batch, 1) are
            checked, not lists of lists.

    Returns:
        `strings`; in a graph, with the check attached.

    Raises:
        ValueError: a string contains whitespace (in a graph, `tf.errors.InvalidArgumentError`
            when it runs).
    """
    if isinstance(strings, tf.Tensor):
        if strings.dtype != tf.string or strings.shape.rank != 2 or strings.shape[1] != 1:
            return strings
        column = strings[:, 0]
    elif isinstance(strings, keras.KerasTensor | tf.RaggedTensor):
        return strings
    else:
        shape = getattr(strings, "shape", ())
        if len(shape) != 2 or shape[1] != 1:
            return strings
        items = np.asarray(strings)[:, 0].tolist()
        column = string_tensor([item if isinstance(item, str | bytes) else "" for item in items])
    found = has_whitespace(column)
    return checked(
        strings,
        tf.logical_not(tf.reduce_any(found)),
        "Pass sentences as strings of shape (batch,), for example `array[:, 0]`. In shape "
        "(batch, 1) each string is one token, and a token contains whitespace in row",
        tf.where(found)[:1, 0],
    )


def is_token(inputs: tf.Tensor) -> tf.Tensor:
    """Returns the mask of real tokens: not `""`, not all zeros, not 0.

    Args:
        inputs: string (…), int (batch, token, char) or int (batch, token).

    Returns:
        bool, of the shape of the tokens.
    """
    if inputs.dtype == tf.string:
        return tf.strings.length(inputs) > 0
    return tf.reduce_any(inputs != 0, axis=-1) if inputs.shape.rank == 3 else inputs != 0


def token_batch(inputs: tf.Tensor, lengths: tf.Tensor | None) -> tuple[tf.Tensor, tf.Tensor]:
    """Splits sentences into tokens if needed, and returns the tokens and row lengths.

    Args:
        inputs: string (batch,) or (batch, token), see `as_tensor`.
        lengths: int32 (batch,) or None. Real tokens of each row; None counts them.

    Returns:
        tokens: string (batch, token), padded with `""`.
        lengths: int32 (batch,).

    Raises:
        ValueError: `""` before a real token, or a length out of range (in a graph,
            `tf.errors.InvalidArgumentError` when it runs).
    """
    tokens = inputs
    if inputs.shape.rank == 1:
        tokens = split_tokens(inputs).to_tensor("")
        tokens.set_shape((inputs.shape[0], None))
    return tokens, row_lengths(is_token(tokens), lengths)


def row_lengths(real: tf.Tensor, lengths: tf.Tensor | None) -> tf.Tensor:
    """Counts the real tokens of each row, or checks the given lengths.

    Args:
        real: bool (batch, token), see `is_token`.
        lengths: int (batch,) or None to count them.

    Returns:
        int32 (batch,).

    Raises:
        ValueError: see `token_batch`.
    """
    counted = tf.reduce_sum(tf.cast(real, tf.int32), axis=-1)  # (batch,)
    limit = tf.shape(real)[1]
    if lengths is None:
        lengths = counted
    else:
        lengths = tf.cast(lengths, tf.int32)
        if not lengths.shape.is_compatible_with(counted.shape):
            raise ValueError(
                f"`lengths` must have shape (batch,) = {tuple(counted.shape)}. "
                f"Received: shape {tuple(lengths.shape)}"
            )
        lengths = checked(  # a single length would be broadcast to all rows
            lengths,
            tf.reduce_all(tf.equal(tf.shape(lengths), tf.shape(counted))),
            "`lengths` must have one number per row. Shapes of the lengths and of the rows",
            tf.shape(lengths),
            tf.shape(counted),
        )
    before = tf.sequence_mask(lengths, limit)  # (batch, token)
    holes = tf.logical_and(before, tf.logical_not(real))
    outside = tf.logical_or(lengths < 0, lengths > limit)
    lengths = checked(
        lengths,
        tf.logical_not(tf.reduce_any(outside)),
        "`lengths` must be between 0 and the number of token positions",
        lengths,
        limit,
    )
    return checked(
        lengths,
        tf.logical_not(tf.reduce_any(holes)),
        'An empty token ("" or all zeros) precedes a real token or is within `lengths`, in row',
        tf.where(tf.reduce_any(holes, axis=-1))[:1, 0],
    )


def checked(value: tf.Tensor, condition: tf.Tensor, message: str, *shown: tf.Tensor) -> tf.Tensor:
    """Returns `value` if the condition holds; else raises `ValueError`, or an error in a graph."""
    if not tf.executing_eagerly():
        with tf.control_dependencies([tf.debugging.Assert(condition, [message, *shown])]):
            return tf.identity(value)
    if not condition:
        raise ValueError(f"{message}: {', '.join(str(part.numpy()) for part in shown)}.")
    return value


def _check_lengths(lengths: Any) -> Any:
    if isinstance(lengths, list | tuple) and not lengths:
        return tf.zeros((0,), tf.int32)
    symbolic = isinstance(lengths, keras.KerasTensor)
    tensor = lengths if symbolic else tf.convert_to_tensor(lengths)
    dtype = keras.backend.standardize_dtype(tensor.dtype)
    if not tf.as_dtype(dtype).is_integer:
        raise TypeError(f"`lengths` must be integers. Received: {lengths!r} of dtype {dtype}.")
    return tensor if symbolic else tf.cast(tensor, tf.int32)


def _from_lists(rows: list) -> tf.Tensor | np.ndarray:
    if not rows:
        return tf.zeros((0,), tf.string)
    rows = [row.tolist() if isinstance(row, np.ndarray) else row for row in rows]
    are_sentences = [isinstance(row, str | bytes) for row in rows]
    if all(are_sentences):
        return tf.constant([encode(row) for row in rows], dtype=tf.string)
    are_lists = [isinstance(row, list | tuple) for row in rows]
    if not all(are_lists):
        most_are_lists = sum(are_lists) > sum(are_sentences)
        index = (are_lists if most_are_lists else are_sentences).index(False)
        kind = "list of tokens" if most_are_lists else "sentence"
        raise TypeError(f"Item {index} is {rows[index]!r:.80}; every item must be a {kind}.")
    tokens = [token for row in rows for token in row]
    if tokens and not isinstance(tokens[0], str | bytes):
        try:
            return np.asarray(rows)
        except ValueError:
            raise ValueError(
                "Char ids must be one array (batch, token, char), but the rows have different "
                "lengths. Pad them with zeros."
            ) from None
    for index, row in enumerate(rows):
        for token in row:
            if not isinstance(token, str | bytes):
                raise TypeError(f"A token of item {index} of the batch is not a str: {token!r}.")
    values = tf.constant([encode(token) for token in tokens], dtype=tf.string)
    return tf.RaggedTensor.from_row_lengths(values, [len(row) for row in rows]).to_tensor("")


def _check_dtype(inputs: Any) -> tf.Tensor:
    try:
        tensor = tf.convert_to_tensor(inputs)
    except (TypeError, ValueError):
        tensor = None
    if tensor is None or not (tensor.dtype == tf.string or tensor.dtype.is_integer):
        got = f"a tensor of {tensor.dtype.name}" if tensor is not None else f"{inputs!r}"
        raise TypeError(
            "A biLM reads sentences (str), lists of tokens, or integer ids. "
            f"Received: {got} (of type {type(inputs).__name__})."
        )
    return tensor if tensor.dtype == tf.string else tf.cast(tensor, tf.int32)


def _check_symbolic_dtype(inputs: keras.KerasTensor) -> keras.KerasTensor:
    if inputs.dtype != "string" and not keras.backend.is_int_dtype(inputs.dtype):
        raise ValueError(
            f"A biLM reads strings or integer ids, not {inputs.dtype}. "
            'Use keras.Input((), dtype="string") as the input of Elmo.'
        )
    return inputs


def _check_rank(inputs: Any) -> Any:
    rank = len(inputs.shape)
    allowed = (1, 2) if keras.backend.standardize_dtype(inputs.dtype) == "string" else (2, 3)
    if rank not in allowed:
        raise ValueError(
            "A biLM reads strings of shape (batch,) or (batch, token), char ids of shape "
            "(batch, token, char), or token ids of shape (batch, token). "
            f"Received: {keras.backend.standardize_dtype(inputs.dtype)} of shape "
            f"{tuple(inputs.shape)}."
        )
    return inputs
