"""BiLM ─► a digest that identifies its shape and weights."""

import hashlib
import json
from collections.abc import Iterable

import keras

from elmo_tf.models.bilm import BiLM


def model_digest(bilm: BiLM, others: Iterable[keras.Variable] = ()) -> str:
    """Returns the SHA-256 digest of the shape and weights of a biLM.

    Args:
        bilm: a `BiLM`.
        others: further weights that the vectors depend on, such as those of a mix.
    """
    digest = hashlib.sha256(json.dumps(bilm.config.to_options()).encode())
    if bilm.lexicon is not None:
        digest.update(bilm.lexicon.digest())
    for weight in [*bilm.weights, *others]:
        digest.update(weight.numpy().tobytes())
    return digest.hexdigest()
