"""Copies of a biLM, and digests that identify it."""

import hashlib
import json
from collections.abc import Iterable

import keras

from elmo_tf.models.bilm import BiLM


def copied_bilm(bilm: BiLM, dtype: str) -> BiLM:
    """Returns a copy of a biLM, with its own weights and another Keras dtype policy."""
    copy = BiLM.from_config({**bilm.get_config(), "dtype": dtype})
    for target, source in zip(copy.weights, bilm.weights, strict=True):
        target.assign(source)
    return copy


def model_digest(bilm: BiLM, others: Iterable[keras.Variable] = ()) -> str:
    """Returns the SHA-256 digest of the shape, vocabulary and weights of a biLM and of `others`."""
    digest = hashlib.sha256(json.dumps(bilm.config.to_options()).encode())
    if bilm.vocabulary is not None:  # of a biLM that reads tokens
        digest.update(json.dumps(bilm.vocabulary.tokens).encode())
    if bilm.lexicon is not None:
        digest.update(bilm.lexicon.digest())
    for weight in [*bilm.weights, *others]:
        digest.update(weight.numpy().tobytes())
    return digest.hexdigest()
