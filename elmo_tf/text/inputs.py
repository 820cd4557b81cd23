"""Anything ─► sentences: lists of tokens for Python code, or the tensors that a biLM reads."""

import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from elmo_tf.compat import is_in_keras_export
from elmo_tf.portability import is_portable, require_tensorflow
from elmo_tf.text.reading import decode, encode

# Of pyarrow; NumPy and pandas; polars and ragged tensors.
TO_LIST = ("to_pylist", "tolist", "to_list")
Sentence = str | bytes | Sequence[str | bytes]  # a text, or a list of tokens
# A run of whitespace, exactly as in `str.split()`, for TensorFlow's regular expressions.
WHITESPACE = r"[\pZ\x{85}\x1c-\x1f\s\v]+"
_ACCEPTED = "A biLM reads sentences (str), lists of tokens, or integer ids."


def token_lists(
    sentences: Any, name: str = "sentences", keep_text: bool = False
) -> Iterator[list[str]]:
    """Converts any collection of sentences to lists of tokens.

    Args:
        sentences: any iterable of sentences: a list, a generator, an array, a column or a data
            frame of one column (pandas, polars, pyarrow), a string tensor (batch,), tokens
            (batch, token) padded with `""`, a ragged tensor, or a `tf.data.Dataset` of strings. A
            sentence is a string, which is split as by `str.split()`, or a list of tokens.
        name: of the argument, for the errors.
        keep_text: whether to yield strings unsplit, as `str`. Defaults to False.

    Yields:
        The tokens of each sentence, `str`, without the empty ones at its end, which are padding.

    Raises:
        TypeError: `sentences` is no collection of sentences, or an item is no sentence. The items
            of lists, arrays and columns are checked at once, all others when they are read.
        ValueError: an empty token precedes a real one, or an array (batch, token) holds sentences.
    """
    sentences = _collection(sentences, name)
    if isinstance(sentences, list | tuple):
        for index, sentence in enumerate(sentences):
            _check_sentence(index, sentence)
    return (_checked_tokens(*item, keep_text) for item in enumerate(sentences))


def _collection(sentences: Any, name: str) -> Iterable[Sentence]:
    """Any collection of sentences as an iterable of Python objects."""
    if isinstance(sentences, tf.Tensor):
        sentences = np.asarray(sentences)
    if isinstance(sentences, np.ndarray) and sentences.ndim == 0:
        sentences = sentences.item()
    refuse_string(sentences, name)
    sentences = column_of_table(sentences, name)
    if isinstance(sentences, tf.data.Dataset):
        if sentences.element_spec != tf.TensorSpec((), tf.string):
            message = f"A dataset of `{name}` must have one string per element (see `unbatch()`)."
            raise TypeError(f"{message} Received: {sentences.element_spec}")
        return sentences.as_numpy_iterator()
    if isinstance(sentences, np.ndarray) and sentences.ndim == 2:
        refuse_sentences_as_tokens(_padded_tokens(sentences.tolist()))
    if (column := list_of_column(sentences)) is not None:
        return column
    if not isinstance(sentences, Iterable) or isinstance(sentences, set | frozenset):  # no order
        raise TypeError(
            f"`{name}` must be sentences: a list of strings or of lists of tokens, for example. "
            f"Received: {sentences!r:.60} (of type {type(sentences).__name__})"
        )
    return sentences


def refuse_string(sentences: Any, name: str) -> None:
    """Raises `TypeError` if sentences are one string."""
    if isinstance(sentences, str | bytes):
        raise TypeError(f"`{name}` must be several sentences, not one string: {sentences!r:.60}.")


def _check_sentence(index: int, sentence: Any) -> None:
    """Raises `TypeError` unless a value is a string or a list of tokens."""
    is_list = isinstance(sentence, list | tuple | np.ndarray)
    for position, value in enumerate(sentence if is_list else [sentence]):
        if not isinstance(value, str | bytes):
            place = f"Token {position} of sentence {index}" if is_list else f"Sentence {index}"
            wrong = f"{place} is {value!r:.80}, of type {type(value).__name__}"
            if value is None or (isinstance(value, float) and math.isnan(value)):
                wrong += '. Replace missing values, for example by df["text"].fillna("")'
            raise TypeError(f"A sentence must be a str or a list of tokens (str). {wrong}.")


def _tokens(index: int, sentence: Any) -> list[str]:
    """The tokens of a sentence, with those that are padding."""
    if isinstance(sentence, str | bytes):
        return decode(sentence).split()
    _check_sentence(index, sentence)
    return list(map(decode, sentence))


def _checked_tokens(index: int, sentence: Any, keep_text: bool) -> Any:
    if keep_text and isinstance(sentence, str | bytes):
        return decode(sentence)
    tokens = _tokens(index, sentence)
    while tokens and not tokens[-1]:
        tokens.pop()
    if "" in tokens:
        message = f'An empty token ("") precedes a real token in sentence {index}'
        raise ValueError(f"{message}: {sentence!r:.80}. Padding belongs at the end.")
    return tokens


def column_of_table(sentences: Any, name: str) -> Any:
    """Returns the only column of a data frame; anything else unchanged.

    Raises:
        TypeError: a mapping, or a table of no or several columns.
    """
    if isinstance(sentences, Mapping):
        columns = list(sentences)
    elif hasattr(sentences, "columns"):  # pandas and polars, or pyarrow
        columns = list(getattr(sentences, "column_names", sentences.columns))
        if len(columns) == 1:
            return sentences[columns[0]]
    else:
        return sentences
    raise TypeError(
        f'`{name}` must be sentences, not a table. Pass one column, for example df["text"]. '
        f"Received: {type(sentences).__name__} with the columns {columns!r:.80}"
    )


def list_of_column(column: Any) -> list | None:
    """The values of an array, or of a column of a table; None for anything else."""
    methods = (getattr(column, name) for name in TO_LIST if hasattr(column, name))
    return next((to_list() for to_list in methods), None)


def checked_inputs(inputs: Any, lengths: Any) -> tuple[Any, Any]:
    """Converts the inputs and lengths of a call of a `BiLM` to tensors and checks them.

    All later code of a call relies on these checks. In a graph they run with the graph; symbolic
    Keras tensors are checked when the model is called on values.

    Returns the inputs, see `as_tensor`, of which sentences with `lengths` are split into tokens;
    and the lengths, int32 (batch,), or None for a tensor of sentences and for symbolic tensors
    without `lengths`. Errors: see the functions that it calls.
    """
    inputs = column_of_table(inputs, "inputs")
    is_array = isinstance(inputs, tf.Tensor | np.ndarray)
    is_symbolic = _is_symbolic(inputs) or _is_symbolic(lengths)
    inputs = as_tensor(inputs)
    if inputs.dtype == tf.string and not tf.executing_eagerly() and is_in_keras_export():
        message = "ONNX, LiteRT and OpenVINO have no strings: the inputs must be char ids, "
        raise ValueError(f'{message}keras.Input((None, 50), dtype="int32"); see BiLM.char_ids.')
    if lengths is not None:
        lengths = _integer_tensor(lengths)
    elif is_array:  # `lengths` imply that the rows are tokens
        inputs = refuse_sentences_as_tokens(inputs)
    if is_symbolic or (len(inputs.shape) == 1 and lengths is None):
        return inputs, lengths
    if len(inputs.shape) == 1:
        inputs = token_batch(inputs)[0]
    return inputs, row_lengths(is_token(inputs), lengths)


def as_tensor(inputs: Any) -> Any:
    """Converts inputs of a `BiLM` to a dense tensor; returns symbolic tensors unchanged.

    Returns a string tensor, tokens (batch, token) or a tensor of sentences (batch,); or an int32
    tensor of rank 2 or 3. There is at least one token position. `TypeError` for an unsupported
    type, `ValueError` for an unsupported shape.
    """
    refuse_string(inputs, "inputs")
    if _is_symbolic(inputs):
        dtype = keras.backend.standardize_dtype(inputs.dtype)
        if dtype != "string" and not keras.backend.is_int_dtype(dtype):
            remedy = 'Use keras.Input((), dtype="string").'
            raise ValueError(f"{_ACCEPTED} Received: {dtype}. {remedy}")
        return _check_rank(inputs)
    if isinstance(inputs, tf.RaggedTensor):
        inputs = inputs.to_tensor("" if inputs.dtype == tf.string else 0)
    elif not isinstance(inputs, np.ndarray) or inputs.dtype.kind in "OUST":
        rows = inputs if isinstance(inputs, list | tuple) else list_of_column(inputs)
        inputs = inputs if rows is None else _ids_or_tokens(rows)
    inputs = _check_rank(_check_dtype(inputs))
    return inputs if len(inputs.shape) == 1 else with_a_token(inputs)


def refuse_sentences_as_tokens(strings: tf.Tensor) -> tf.Tensor:
    """Returns a tensor if strings of shape (batch, token) are tokens and not sentences.

    A token may contain whitespace, as in "10 000", but only sentences contain it in a column of its
    own, (batch, 1), or in more than half of all strings.

    Raises:
        ValueError: the strings are sentences (in a graph, `tf.errors.InvalidArgumentError` when it
            runs).
    """
    if strings.dtype != tf.string or strings.shape.rank != 2:
        return strings
    has_space = tf.strings.regex_replace(strings, WHITESPACE, "") != strings
    num_tokens = tf.math.count_nonzero(is_token(strings), dtype=tf.int32)
    limit = tf.where(tf.shape(strings)[1] == 1, 0, num_tokens // 2)
    return checked(
        strings,
        tf.math.count_nonzero(has_space, dtype=tf.int32) <= limit,
        "Pass sentences as strings of shape (batch,), for example `array[:, 0]`. In shape (batch, "
        "token) each string is one token, and a token contains whitespace in row",
        tf.where(has_space)[:1, 0],
    )


def sentence_shape(input_shape: Sequence[int | None]) -> tuple[int | None, int | None]:
    """Returns the static shape (batch, token) of inputs of a biLM from their shape."""
    return input_shape[0], input_shape[1] if len(input_shape) > 1 else None


def is_token(inputs: tf.Tensor) -> tf.Tensor:
    """Returns the mask of real tokens, bool: not `""`, all zeros (batch, token, char), or 0."""
    if inputs.dtype == tf.string:
        return tf.strings.length(inputs) > 0
    return ops.any(inputs != 0, axis=-1) if len(inputs.shape) == 3 else inputs != 0


def token_batch(inputs: tf.Tensor, lengths: tf.Tensor | None = None) -> tuple[tf.Tensor, tf.Tensor]:
    """Splits the sentences of `checked_inputs` into tokens, if necessary, and counts them.

    Returns string (batch, token), padded with `""` to at least one token; and int32 (batch,).
    """
    if inputs.shape.rank == 1:
        inputs = split_tokens(inputs).to_tensor("", shape=(inputs.shape[0], None))
    tokens = with_a_token(inputs)
    return tokens, count_tokens(is_token(tokens)) if lengths is None else lengths


def split_tokens(sentences: Any) -> tf.RaggedTensor:
    """Splits sentences into tokens exactly as Python's `str.split()` does, in the graph.

    String (batch,) → ragged (batch, token). A sentence of whitespace only has no tokens.
    """
    return tf.strings.split(tf.strings.regex_replace(sentences, WHITESPACE, " "))


def with_a_token(inputs: tf.Tensor) -> tf.Tensor:
    """Pads (batch, token, …) to at least one token: layers of Keras fail without a time step."""
    batch, num_tokens, *others = inputs.shape
    if num_tokens:
        return inputs
    padding = [[0, 0], [0, tf.maximum(1 - tf.shape(inputs)[1], 0)], *([0, 0] for _ in others)]
    padded = tf.pad(inputs, padding, constant_values="" if inputs.dtype == tf.string else 0)
    padded.set_shape((batch, None if num_tokens is None else 1, *others))
    return padded


def count_tokens(real: tf.Tensor) -> tf.Tensor:
    """Number of real tokens per row: bool (batch, token) → int32 (batch,)."""
    return ops.sum(ops.cast(real, "int32"), axis=-1)


def row_lengths(real: tf.Tensor, lengths: tf.Tensor | None) -> tf.Tensor:
    """Checks the number of real tokens per row, int32 (batch,); None counts those of `is_token`.

    Raises:
        ValueError: `lengths` has another shape or is out of range, or an empty token comes before
            a real one (in a graph, `tf.errors.InvalidArgumentError` when it runs).
    """
    counted, (num_rows, limit) = count_tokens(real), ops.shape(real)
    if lengths is None:
        if tf.executing_eagerly():  # usual, and much faster in NumPy
            values = ops.convert_to_numpy(real)
            if not (values[:, 1:] & ~values[:, :-1]).any():
                return counted
        lengths = counted
    else:
        if not tf.TensorShape(lengths.shape).is_compatible_with(counted.shape):
            raise ValueError(
                f"`lengths` must have shape (batch,) = {tuple(counted.shape)}. "
                f"Received: shape {tuple(lengths.shape)}"
            )
        is_in_range = ops.all(ops.logical_and(lengths >= 0, lengths <= limit))
        lengths = checked(  # a single length would be broadcast to all rows
            lengths,
            ops.logical_and(ops.shape(lengths)[0] == num_rows, is_in_range),
            "`lengths` must be between 0 and the number of token positions, one number per row",
            *(lengths, limit),
        )
    is_within = ops.arange(limit, dtype="int32") < lengths[:, None]  # (batch, token)
    has_hole = ops.any(ops.logical_and(is_within, ops.logical_not(real)), axis=-1)
    return checked(
        lengths,
        ops.logical_not(ops.any(has_hole)),
        'An empty token ("" or all zeros) precedes a real token or is within `lengths`, in row',
        ops.nonzero(has_hole)[0][:1],
    )


def checked(value: tf.Tensor, condition: tf.Tensor, message: str, *shown: tf.Tensor) -> tf.Tensor:
    """Returns `value` if the condition holds; else raises `ValueError`, or an error in a graph."""
    if not tf.executing_eagerly():
        if is_portable():
            return value
        with tf.control_dependencies([tf.debugging.Assert(condition, [message, *shown])]):
            return tf.identity(value)
    with contextlib.suppress(TypeError):  # of JAX, in a function that it traces
        if not condition:
            received = ", ".join(str(ops.convert_to_numpy(part)) for part in shown)
            raise ValueError(f"{message}: {received}.")
    return value


def _is_symbolic(tensor: Any) -> bool:
    """Whether a tensor is Keras's, or of another backend, where it may be traced."""
    is_other = keras.config.backend() != "tensorflow" and ops.is_tensor(tensor)
    return is_other or isinstance(tensor, keras.KerasTensor)


def _integer_tensor(lengths: Any) -> Any:
    is_symbolic = _is_symbolic(lengths)
    tensor = lengths if is_symbolic else tf.convert_to_tensor(lengths)
    dtype = tf.as_dtype(keras.backend.standardize_dtype(tensor.dtype))
    if not dtype.is_integer and tensor.shape != (0,):
        raise TypeError(f"`lengths` must be integers. Received: {lengths!r} of {dtype.name}.")
    return tensor if is_symbolic else ops.cast(tensor, "int32")


def _ids_or_tokens(rows: Sequence[Any]) -> tf.Tensor | np.ndarray:
    """Nested lists of ids as an array, or else sentences as a string tensor (batch, token)."""
    rows = [row.tolist() if isinstance(row, np.ndarray) else row for row in rows]
    items = [item for row in rows if isinstance(row, list | tuple) for item in row]
    if not items or any(isinstance(item, str | bytes) for item in (*items, *rows)):
        return _padded_tokens(rows)
    try:
        return np.asarray(rows)
    except ValueError:
        raise ValueError("Char ids of rows of different lengths must be padded with 0.") from None


def _padded_tokens(rows: Sequence[Any]) -> tf.Tensor:
    """Sentences as a string tensor (batch, token), padded with `""`."""
    sentences = [[encode(token) for token in _tokens(*item)] for item in enumerate(rows)]
    width = max(map(len, sentences), default=0)
    padded = [tokens + [b""] * (width - len(tokens)) for tokens in sentences]
    return tf.constant(padded, tf.string, (len(padded), width))


def _check_dtype(inputs: Any) -> tf.Tensor:
    try:
        tensor = tf.convert_to_tensor(inputs)
    except (TypeError, ValueError):
        tensor = None
    if tensor is not None and tensor.dtype.is_floating and not tf.executing_eagerly():
        # Keras traces, but does not run, a call of floats when it saves a model or builds one of a
        # file. If the trace failed, Keras would only warn, and leave weights random.
        is_ids = tensor.shape.rank == 3
        ids_or_strings = tf.cast(tensor, tf.int32) if is_ids else tf.strings.as_string(tensor)
        return checked(ids_or_strings, tf.constant(False), f"{_ACCEPTED} Received", tensor)
    if tensor is None or not (tensor.dtype == tf.string or tensor.dtype.is_integer):
        got = f"a tensor of {tensor.dtype.name}" if tensor is not None else f"{inputs!r}"
        raise TypeError(f"{_ACCEPTED} Received: {got} (of type {type(inputs).__name__}).")
    return tensor if tensor.dtype == tf.string else ops.cast(tensor, "int32")


def _check_rank(inputs: Any) -> Any:
    dtype = keras.backend.standardize_dtype(inputs.dtype)
    if dtype == "string":
        require_tensorflow("Reading strings, instead of char ids (see `BiLM.char_ids`),")
    if len(inputs.shape) not in ((1, 2) if dtype == "string" else (2, 3)):
        raise ValueError(
            "A biLM reads strings of shape (batch,) or (batch, token), char ids of shape "
            "(batch, token, char), or token ids of shape (batch, token). "
            f"Received: {dtype} of shape {tuple(inputs.shape)}."
        )
    return inputs
