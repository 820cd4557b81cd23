"""The targets of `fit` ─► the gold entity of every span."""

from typing import Any

import tensorflow as tf

from elmo_tf.text.inputs import checked

_PADDING = -1  # of all numbers of a row
_NO_ENTITY = -1


def entity_grid(y: Any, num_tokens: tf.Tensor, max_width: int) -> tf.Tensor:
    """The gold entity of the span with each first token and width.

    Args:
        y: int (mention, 3): first token, last token and entity. Rows of -1 are padding.
        num_tokens: int32 (). Number of tokens of the document.
        max_width: int >= 1. Maximum number of tokens of a span. Wider mentions are omitted.

    Returns:
        int32 (token, width): the entity, the greatest one of several; -1 for none.

    Raises:
        ValueError: `y` has another type or shape, a mention is not in the document, or an entity
            is negative.
    """
    y = tf.convert_to_tensor(y)
    if not y.dtype.is_integer or not y.shape.is_compatible_with((None, 3)):
        raise ValueError(
            "`y` must be int (mention, 3): first token, last token and entity. Received: "
            f"{y.dtype.name} of shape {tuple(y.shape)}."
        )
    y = _checked_mentions(tf.cast(y, tf.int32), num_tokens)
    first, last, entity = tf.unstack(y, axis=1)
    is_in_grid = (entity != _PADDING) & (last - first < max_width)
    cells = tf.boolean_mask(tf.stack([first, last - first], axis=-1), is_in_grid)
    no_entities = tf.fill((num_tokens, max_width), _NO_ENTITY)
    return tf.tensor_scatter_nd_max(no_entities, cells, tf.boolean_mask(entity, is_in_grid))


def _checked_mentions(y: tf.Tensor, num_tokens: tf.Tensor) -> tf.Tensor:
    first, last, entity = tf.unstack(y, axis=1)
    is_mention = (first >= 0) & (first <= last) & (last < num_tokens) & (entity >= 0)
    wrong = tf.boolean_mask(y, ~(is_mention | tf.reduce_all(y == _PADDING, axis=1)))
    message = (
        "A mention in `y` must have 0 <= first token <= last token < number of tokens, and an "
        "entity of at least 0. Number of tokens, and the first wrong mention"
    )
    return checked(y, tf.size(wrong) == 0, message, num_tokens, wrong[:1])
