"""bfloat16: whether this machine multiplies it fast, and a policy for the layers of a block."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import keras
import tensorflow as tf
from absl import logging

# In which a biLM may multiply, and their Keras dtype policies.
PRECISIONS = {"float32": "float32", "bfloat16": "mixed_bfloat16"}
_CPU_FLAGS = Path("/proc/cpuinfo")
_FAST_FLAGS = frozenset({"avx512_bf16", "amx_bf16"})


def usable_precision(precision: str) -> str:
    """The precision asked for, or float32 where bfloat16 would be slower by far.

    Without instructions for products of bfloat16, a processor may need a hundred times longer than
    for those of float32.

    Args:
        precision: a name of a Keras dtype policy.
    """
    if "bfloat16" not in precision or has_fast_bfloat16():
        return precision
    logging.warning(
        "This processor has none of the instructions %s, and there is no GPU: float32 is used in "
        "place of %s, which would be far slower here.",
        ", ".join(sorted(_FAST_FLAGS)),
        precision,
    )
    return "float32"


def has_fast_bfloat16() -> bool:
    """Whether there is a GPU, or a processor with instructions for products of bfloat16."""
    if tf.config.list_physical_devices("GPU"):
        return True
    try:
        lines = _CPU_FLAGS.read_text().splitlines()
    except OSError:
        return False
    flags = next((line for line in lines if line.startswith("flags")), "")
    return not _FAST_FLAGS.isdisjoint(flags.split())


@contextlib.contextmanager
def dtype_policy(name: str) -> Iterator[None]:
    """A block whose new layers have that Keras dtype policy."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
