"""Corpus ─► windows without end, in an order that a seed determines."""

from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf

from elmo_tf.text.corpus import sentence_dataset
from elmo_tf.text.prefetch import prefetch
from elmo_tf.text.windows import lm_windows


def training_windows(
    files: Sequence[Path], num_rows: int, window: int, seed: int
) -> tf.data.Dataset:
    """Windows of the corpus, over and over, the sentences in another order each time.

    Returns:
        See `lm_windows`. Its iterator can be saved.
    """
    sentences = sentence_dataset(files, seed)
    return prefetch(lm_windows(sentences.repeat(), num_rows, window), 4)
