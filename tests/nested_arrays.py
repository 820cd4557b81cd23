"""Compares nested lists, tuples and dicts of arrays."""

import numpy as np


def assert_close(found, expected, atol=0.0, rtol=0.0):
    """Compares each array with the corresponding one; by default, they must be equal."""
    if isinstance(found, dict):
        assert found.keys() == expected.keys()
        found, expected = list(found.values()), [expected[name] for name in found]
    if not isinstance(found, list | tuple):
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)
        return
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other, atol, rtol)
