"""Copies of a biLM in another precision."""

from elmo_tf.models.bilm import BiLM


def copied_bilm(bilm: BiLM, dtype: str) -> BiLM:
    """Returns a copy of a biLM, with its own weights.

    Args:
        bilm: a `BiLM`, which is not changed.
        dtype: Keras dtype policy of the copy, such as "float32" or "mixed_bfloat16".
    """
    copy = BiLM.from_config({**bilm.get_config(), "dtype": dtype})
    for target, source in zip(copy.weights, bilm.weights, strict=True):
        target.assign(source)
    return copy
