"""The task models: vectors of the tokens of one sentence, without padding ─► scores.

Weights are named by the layers that hold them. `output` is joined to the output of the first
LSTMs, unless it is None.
"""

import numpy as np

from reference import lstm


def tagger(vectors, output, weights):
    """(token, feature) ─► (token, label): the emissions."""
    hidden = _bilstm(_bilstm(vectors, weights, "bilstm_0"), weights, "bilstm_1")
    return dense(joined(hidden, output), weights, "emissions")


def classifier(vectors, output, weights):
    """(token, feature) ─► (label,)."""
    hidden = joined(_bilstm(vectors, weights, "bilstm"), output)
    return dense(hidden.max(axis=0), weights, "scores")


def bcn(vectors, output, weights):
    """(token, feature) ─► (label,)."""
    x = _bilstm(np.maximum(dense(vectors, weights, "feed_forward"), 0), weights, "encoder")
    context = softmax(x @ x.T) @ x
    integrated = _bilstm(
        np.concatenate([x, x - context, x * context], axis=-1), weights, "integrator"
    )
    y = joined(integrated, output)
    attention = softmax(dense(y, weights, "attention_scores")[:, 0])
    pooled = np.concatenate([y.max(axis=0), y.mean(axis=0), y.min(axis=0), attention @ y])
    for index in range(3):
        if f"norm_{index}/gamma" in weights:
            pooled = _normalised(pooled, weights, f"norm_{index}")
        # Four linear functions for each feature.
        pooled = dense(pooled, weights, f"maxout_{index}/pieces").reshape(-1, 4).max(axis=-1)
    return pooled


def esim(premise, hypothesis, outputs, weights):
    """Two of (token, feature) ─► (label,)."""
    a, b = (
        joined(_bilstm(vectors, weights, "encoder"), output)
        for vectors, output in zip((premise, hypothesis), outputs, strict=True)
    )
    pooled = []
    for own, other in ((a, b), (b, a)):
        aligned = softmax(own @ other.T) @ other
        local = np.concatenate([own, aligned, own - aligned, own * aligned], axis=-1)
        local = np.maximum(dense(local, weights, "projection"), 0)
        composed = _bilstm(local, weights, "composition")
        pooled += [composed.mean(axis=0), composed.max(axis=0)]
    hidden = np.tanh(dense(np.concatenate(pooled), weights, "hidden"))
    return dense(hidden, weights, "scores")


def _bilstm(vectors, weights, name):
    def direction(vectors, part):
        kernel, recurrent_kernel, bias = (
            weights[f"{name}/{part}/cell/{each}"] for each in ("kernel", "recurrent_kernel", "bias")
        )
        zeros = np.zeros(len(recurrent_kernel))
        matrix = np.concatenate([kernel, recurrent_kernel])
        return lstm.sequence(vectors, zeros, zeros, matrix=matrix, bias=bias)[0]

    backward = direction(vectors[::-1], "backward")[::-1]
    return np.concatenate([direction(vectors, "forward"), backward], axis=-1)


def dense(vectors, weights, name):
    return vectors @ weights[f"{name}/kernel"] + weights[f"{name}/bias"]


def _normalised(features, weights, name):
    gamma, beta, mean, variance = (
        weights[f"{name}/{each}"] for each in ("gamma", "beta", "moving_mean", "moving_variance")
    )
    return gamma * (features - mean) / np.sqrt(variance + 1e-3) + beta


def softmax(scores):
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def joined(vectors, output):
    return vectors if output is None else np.concatenate([vectors, output], axis=-1)
