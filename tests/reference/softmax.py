"""The negative log-likelihood of tokens, exact and against a sample."""

import numpy as np


def full_loss(inputs, targets, kernel, bias):
    """The exact loss of each token."""
    losses = []
    for x, target in zip(inputs, targets, strict=True):
        scores = (kernel * x).sum(axis=-1) + bias
        losses.append(np.log(np.exp(scores).sum()) - scores[target])
    return np.array(losses)


def log_uniform(vocabulary_size):
    """`P(v)` of every token."""
    v = np.arange(vocabulary_size)
    return np.log((v + 2) / (v + 1)) / np.log(vocabulary_size + 1)


def sampled_loss(inputs, targets, kernel, bias, sampled, expected):
    """The loss against a sample; sampled tokens that equal the target are excluded."""
    losses = []
    for x, target in zip(inputs, targets, strict=True):
        scores = (kernel * x).sum(axis=-1) + bias - np.log(expected)
        negatives = [np.exp(scores[k]) for k in sampled if k != target]
        losses.append(np.log(np.exp(scores[target]) + sum(negatives)) - scores[target])
    return np.array(losses)
