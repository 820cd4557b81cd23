"""Speakers, genre and gold entities of a document: names and mentions ─► numbers."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from elmo_tf.text.inputs import as_tensor, checked
from elmo_tf.text.sentence_files import is_utf_8

_PADDING = -1  # of all numbers of a row of gold mentions
_NO_ENTITY = -1


def speaker_table(speakers: Any) -> tf.Tensor:
    """The speakers as string (sentence, token); rows of different lengths are padded with `""`."""
    speakers = as_tensor(speakers)
    # An empty list is an empty batch of sentences.
    return tf.reshape(speakers, (0, 0)) if speakers.shape == (0,) else speakers


def aligned_speakers(speakers: tf.Tensor, tokens: tf.Tensor) -> tf.Tensor:
    """Pads speakers, string (sentence, token), with `""` to the width of the tokens.

    Raises:
        ValueError: there are fewer sentences or columns of tokens than of speakers.
    """
    shape, wanted = tf.shape(speakers), tf.shape(tokens)
    fits = (shape[0] == wanted[0]) & (shape[1] <= wanted[1])
    message = "The input speakers must have the shape of tokens. Received"
    speakers = checked(speakers, fits, message, shape, wanted)
    return tf.pad(speakers, [[0, 0], [0, wanted[1] - shape[1]]], constant_values="")


def speaker_ids(names: tf.Tensor) -> tf.Tensor:
    """Names of speakers, string (token,) ─► ids, int32 (token,); -1 for `""`, unknown."""
    return tf.where(names == "", -1, tf.unique(names).idx)


def genre_id(name: tf.Tensor, genres: Sequence[str]) -> tf.Tensor:
    """A genre, string (1,) ─► its position in `genres`, from 1, or 0 for any other, int32 (1,)."""
    is_genre = tf.cast(name == tf.constant(genres, tf.string), tf.int32)
    return tf.reduce_sum(is_genre * tf.range(1, len(genres) + 1), keepdims=True)


def check_genres(genres: Sequence[str]) -> None:
    """Checks that genres are distinct names."""
    if isinstance(genres, str) or not all(isinstance(genre, str) and genre for genre in genres):
        raise ValueError(f"`genres` must be a list of names. Received: {genres!r}")
    if not all(map(is_utf_8, genres)):
        raise ValueError(f"A genre is not valid UTF-8. Received: {genres!r}")
    if len(set(genres)) < len(genres):
        raise ValueError(f"`genres` has duplicates: {', '.join(genres)}.")


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
    y = tf.cast(y, tf.int32)
    first, last, entity = tf.unstack(y, axis=1)
    is_mention = (first >= 0) & (first <= last) & (last < num_tokens) & (entity >= 0)
    wrong = tf.boolean_mask(y, ~(is_mention | tf.reduce_all(y == _PADDING, axis=1)))
    message = (
        "A mention in `y` must have 0 <= first token <= last token < number of tokens, and an "
        "entity of at least 0. Number of tokens, and the first wrong mention"
    )
    y = checked(y, tf.size(wrong) == 0, message, num_tokens, wrong[:1])
    first, last, entity = tf.unstack(y, axis=1)
    is_in_grid = (entity != _PADDING) & (last - first < max_width)
    cells = tf.boolean_mask(tf.stack([first, last - first], axis=-1), is_in_grid)
    no_entities = tf.fill((num_tokens, max_width), _NO_ENTITY)
    return tf.tensor_scatter_nd_max(no_entities, cells, tf.boolean_mask(entity, is_in_grid))
