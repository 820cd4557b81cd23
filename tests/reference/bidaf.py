"""BiDAF with self-attention: vectors of the tokens of one passage and one question ─► scores.

Weights are named by the layers that hold them.
"""

import numpy as np

from reference import cells
from reference.task_models import dense, joined, softmax


def bidaf(passage, question, outputs, weights, d=lambda x: x):
    """Two of (token, feature) ─► the start and end scores, (2, token).

    `outputs` are the vectors joined to those of the first biGRU, for each text, or None. `d` is
    the dropout.
    """
    c, q = (
        joined(d(_bigru(d(x), weights, "encoder")), output)
        for x, output in zip((passage, question), outputs, strict=True)
    )

    a = trilinear(c, q, weights, "similarity")
    aligned = softmax(a) @ q
    summary = softmax(a.max(axis=1)) @ c
    g = np.concatenate([c, aligned, c * aligned, c * summary], axis=1)
    v = np.maximum(dense(g, weights, "projection"), 0)

    r = d(_bigru(d(v), weights, "match_encoder"))
    a = trilinear(r, r, weights, "self_similarity")
    np.fill_diagonal(a, -np.inf)
    aligned = np.exp(a) / (np.exp(weights["null_score"]) + np.exp(a).sum(axis=1)[:, None]) @ r
    g = np.concatenate([aligned, r, aligned * r], axis=1)
    z = d(v + np.maximum(dense(g, weights, "self_projection"), 0))

    m_1 = _bigru(z, weights, "start_encoder")
    m_2 = _bigru(np.concatenate([z, m_1], axis=1), weights, "end_encoder")
    start, end = dense(m_1, weights, "start_score"), dense(m_2, weights, "end_score")
    return np.concatenate([start, end], axis=1).T


def trilinear(c, q, weights, name):
    """(token, feature), (other token, feature) ─► (token, other token)."""
    w_c, w_q, w_m, b = (
        weights[f"{name}/{each}"] for each in ("kernel", "other_kernel", "product_kernel", "bias")
    )
    return np.array([[w_c @ c_t + w_q @ q_j + (w_m * c_t) @ q_j + b for q_j in q] for c_t in c])


def loss(scores, first, last):
    """-log of the probabilities of the first and the last token."""
    return -np.log(softmax(scores[0])[first]) - np.log(softmax(scores[1])[last])


def best_span(scores, max_answer):
    """First token, last token and probability of the best span."""
    start, end = scores
    sums = {
        (s, e): start[s] + end[e]
        for s in range(len(start))
        for e in range(s, min(s + max_answer, len(end)))
    }
    best = max(sums, key=sums.get)
    return *best, 1 / sum(np.exp(total - sums[best]) for total in sums.values())


def _bigru(tokens, weights, name):
    def direction(tokens, part):
        names = ("kernel", "bias", "recurrent_kernel", "recurrent_bias")
        own = {each: weights[f"{name}/{part}/{each}"] for each in names}
        return cells.sequence("gru", tokens, **own)

    backward = direction(tokens[::-1], "backward")[::-1]
    return np.concatenate([direction(tokens, "forward"), backward], axis=1)
