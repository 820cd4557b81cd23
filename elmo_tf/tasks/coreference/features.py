"""Speakers and genre of a document: names ─► numbers."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from elmo_tf.text.data_warnings import is_utf_8
from elmo_tf.text.inputs import as_tensor, checked


def speaker_table(speakers: Any) -> tf.Tensor:
    """The speakers as string (sentence, token); rows of different lengths are padded with `""`."""
    speakers = as_tensor(speakers)
    # An empty list is an empty batch of sentences.
    return tf.reshape(speakers, (0, 0)) if speakers.shape == (0,) else speakers


def aligned_speakers(speakers: tf.Tensor, tokens: tf.Tensor) -> tf.Tensor:
    """Pads the speakers of tokens with `""` to the width of the tokens.

    Args:
        speakers, tokens: string (sentence, token).

    Returns:
        string (sentence, token).

    Raises:
        ValueError: there is another number of sentences, or there are more columns of speakers than
            of tokens.
    """
    shape, wanted = tf.shape(speakers), tf.shape(tokens)
    fits = (shape[0] == wanted[0]) & (shape[1] <= wanted[1])
    message = "The input speakers must have the shape of tokens. Received"
    speakers = checked(speakers, fits, message, shape, wanted)
    return tf.pad(speakers, [[0, 0], [0, wanted[1] - shape[1]]], constant_values="")


def speaker_ids(names: tf.Tensor) -> tf.Tensor:
    """A number for each distinct speaker.

    Args:
        names: string (token,).

    Returns:
        int32 (token,); -1 for `""`, an unknown speaker.
    """
    return tf.where(names == "", -1, tf.unique(names).idx)


def genre_id(name: tf.Tensor, genres: Sequence[str]) -> tf.Tensor:
    """The number of a genre: its position in `genres`, from 1, or 0 for any other name.

    Args:
        name: string (1,).
        genres: the names of the genres.

    Returns:
        int32 (1,).
    """
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
