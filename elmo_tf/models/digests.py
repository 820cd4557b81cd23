"""BiLM ─► a digest by which it is known again."""

import hashlib
import json
from collections.abc import Iterable

import keras

from elmo_tf.models.bilm import BiLM


def model_digest(bilm: BiLM, others: Iterable[keras.Variable] = ()) -> str:
    """A digest of the shape and the weights of a biLM.

    Args:
        bilm: a built one.
        others: further weights on which its vectors depend, such as those of a mix.
    """
    digest = hashlib.sha256(json.dumps(bilm.config.to_options()).encode())
    for weight in [*bilm.weights, *others]:
        digest.update(weight.numpy().tobytes())
    return digest.hexdigest()
