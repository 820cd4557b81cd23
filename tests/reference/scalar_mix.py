"""The weighted sum of the layers."""

import numpy as np


def scalar_mix(layers, weights, gamma):
    """Layers (batch, layer, token, feature) ─► (batch, token, feature)."""
    shares = np.exp(weights) / np.exp(weights).sum()
    return gamma * sum(share * layers[:, j] for j, share in enumerate(shares))


def normalized(layers, mask):
    """Each layer with one mean and one variance over its real tokens; padding is zero."""
    result = np.zeros_like(layers)
    for j in range(layers.shape[1]):
        real = layers[:, j][mask]  # (real token, feature)
        result[:, j][mask] = (real - real.mean()) / np.sqrt(real.var() + 1e-12)
    return result
