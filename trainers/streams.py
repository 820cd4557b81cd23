"""Corpus ─► an endless stream of training windows, in an order that a seed determines."""

from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf

from elmo_tf.text.corpus import prefetch, sentence_dataset
from elmo_tf.text.windows import lm_windows


def training_windows(
    files: Sequence[Path], num_rows: int, window: int, seed: int
) -> tf.data.Dataset:
    """Windows of the corpus without end; each pass reads the sentences in another order.

    Args:
        files: text files.
        num_rows: int >= 1. Batch rows.
        window: int >= 1. Tokens of each row in a window.
        seed: int. Determines the order.

    Returns:
        See `lm_windows`. `tf.train.Checkpoint` can save its iterator.
    """
    sentences = sentence_dataset(files, seed)
    return prefetch(lm_windows(sentences.repeat(), num_rows, window), 4)
