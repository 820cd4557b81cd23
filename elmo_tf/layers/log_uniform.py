"""The log-uniform distribution of the negatives of `SampledSoftmax`."""

import bisect
import math
from typing import Any

import numpy as np
from keras import ops


def log_uniform_probability(ids: Any, size: int) -> Any:
    """`P(v) = log((v + 2) / (v + 1)) / log(V + 1)`."""
    ids = ops.cast(ids, "float32")
    return ops.log1p(1.0 / (ids + 1.0)) / math.log(size + 1)


def draws_for_distinct(num_sampled: int, size: int) -> int:
    """Number of draws that yield `num_sampled` distinct tokens on average.

    Solves `sum_v 1 - (1 - P(v))^n = num_sampled` for `n`, rounded up.
    """
    ids = np.arange(size, dtype=np.float64)
    log_miss = np.log1p(-np.log1p(1 / (ids + 1)) / math.log(size + 1))

    def num_distinct(draws: int) -> float:
        return -np.expm1(draws * log_miss).sum()

    most = num_sampled
    while num_distinct(most) < num_sampled:
        most *= 2
    return bisect.bisect_left(range(most), num_sampled, lo=num_sampled, key=num_distinct)
