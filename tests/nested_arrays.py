"""Compares nested lists, tuples and dicts of arrays."""

import numpy as np
import tensorflow as tf


def assert_close(found, expected, atol=0.0, rtol=0.0):
    """Compares each array with the corresponding one; by default, they must be equal."""
    tf.nest.assert_same_structure(found, expected, check_types=False)
    for one, other in zip(tf.nest.flatten(found), tf.nest.flatten(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=atol)
