"""A biLM ─► the same biLM, computing in another precision."""

from elmo_tf.models.bilm import BiLM


def copied_bilm(bilm: BiLM, dtype: str) -> BiLM:
    """A copy with weights of its own.

    Args:
        bilm: is left as it is.
        dtype: a Keras dtype policy, such as "float32" or "mixed_bfloat16".
    """
    copy = BiLM.from_config({**bilm.get_config(), "dtype": dtype})
    for to, source in zip(copy.weights, bilm.weights, strict=True):
        to.assign(source)
    return copy
