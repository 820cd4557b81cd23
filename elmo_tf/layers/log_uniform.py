"""The log-uniform distribution, from which `SampledSoftmax` draws its negatives."""

import math
from typing import Any

import numpy as np
from keras import ops


def log_uniform_probability(ids: Any, size: int) -> Any:
    """`P(v) = log((v + 2) / (v + 1)) / log(V + 1)`."""
    ids = ops.cast(ids, "float32")
    return ops.log1p(1.0 / (ids + 1.0)) / math.log(size + 1)


def draws_for_distinct(num_sampled: int, size: int) -> int:
    """How many draws give `num_sampled` distinct tokens on average.

    Solves `sum_v 1 - (1 - P(v))^n = num_sampled` for `n`, rounded up.
    """
    ids = np.arange(size, dtype=np.float64)
    log_miss = np.log1p(-np.log1p(1 / (ids + 1)) / math.log(size + 1))
    low, high = num_sampled, num_sampled
    while -np.expm1(high * log_miss).sum() < num_sampled:
        low, high = high, 2 * high
    while low < high:
        middle = (low + high) // 2
        if -np.expm1(middle * log_miss).sum() < num_sampled:
            low = middle + 1
        else:
            high = middle
    return high
