"""Precisions, bfloat16 support of this machine, and Keras dtype policies."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import keras
import tensorflow as tf
from absl import logging

# Precisions of a biLM's matrix products, with their Keras dtype policies.
PRECISIONS = {"float32": "float32", "bfloat16": "mixed_bfloat16"}
_CPU_FLAGS = Path("/proc/cpuinfo")
_FAST_FLAGS = frozenset({"avx512_bf16", "amx_bf16"})


def usable_precision(precision: str) -> str:
    """Returns a Keras dtype policy, or "float32" with a warning if bfloat16 is slow here.

    Processors without bfloat16 instructions may take 100 times longer than with float32.
    """
    if "bfloat16" not in precision or tf.config.list_physical_devices("GPU"):
        return precision
    lines = _CPU_FLAGS.read_text().splitlines() if _CPU_FLAGS.exists() else []
    flags = next((line.split() for line in lines if line.startswith("flags")), [])
    if not _FAST_FLAGS.isdisjoint(flags):
        return precision
    logging.warning(
        "This machine has no GPU, and its processor has none of the instructions %s: using "
        "float32 instead of %s, which would be much slower.",
        ", ".join(sorted(_FAST_FLAGS)),
        precision,
    )
    return "float32"


@contextlib.contextmanager
def dtype_policy(name: str) -> Iterator[None]:
    """Context manager: layers created in the block get this Keras dtype policy."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
