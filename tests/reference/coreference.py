"""End-to-end coreference resolution, span by span and pair by pair.

Weights are named by the layers that hold them. A span is (first, last) token of the document.
"""

import itertools

import numpy as np

from reference import cells


def encoded(sentences, weights):
    """x of each sentence, (token, feature) ─► x* of the document, (token, feature)."""

    def direction(x, name):
        of_cell = {
            each: weights[f"encoder/{name}/{each}"]
            for each in ("initial_h", "initial_c", "kernel", "bias", "recurrent_kernel")
        }
        return cells.sequence("coupled_lstm", x, **of_cell)

    return np.concatenate(
        [
            np.concatenate([direction(x, "forward"), direction(x[::-1], "backward")[::-1]], axis=1)
            for x in sentences
        ]
    )


def candidates(lengths, max_width):
    """The spans of at most `max_width` tokens within a sentence, in order."""
    starts = np.cumsum([0, *lengths])
    return [
        (first, last)
        for start, end in itertools.pairwise(starts)
        for first in range(start, end)
        for last in range(first, min(end, first + max_width))
    ]


def span_vector(span, x, x_star, weights):
    """g of a span."""
    first, last = span
    alpha = x_star[first : last + 1] @ weights["span_scores/head_scores/kernel"][:, 0]
    a = np.exp(alpha) / np.exp(alpha).sum()
    head = sum(a_t * x_t for a_t, x_t in zip(a, x[first : last + 1], strict=True))
    width = weights["span_scores/width_embedding"][last - first]
    return np.concatenate([x_star[first], x_star[last], width, head])


def mention_score(g, weights):
    return _feed_forward(g, weights, "span_scores/network")


def kept_spans(scores, num_spans):
    """The best spans that do not cross; `scores` is a dict from spans to scores."""
    kept = []
    for span in sorted(scores, key=lambda span: (-scores[span], *span)):
        if len(kept) < num_spans and not any(crosses(span, other) for other in kept):
            kept.append(span)
    return sorted(kept)


def crosses(one, other):
    (i, j), (k, m) = sorted([one, other])
    return i < k <= j < m


def antecedent_scores(kept, g, scores, speakers, genre, max_antecedents, weights):
    """For each span, the scores of no antecedent, the nearest one, the one before it, …

    Args:
        kept: the kept spans.
        g, scores: their vectors and mention scores.
        speakers: the name of the speaker of each token.
        genre: the number of the genre, or None.
    """
    found = []
    for n in range(len(kept)):
        found.append([0.0])
        for a in range(n - 1, max(n - max_antecedents, 0) - 1, -1):
            own, other = speakers[kept[n][0]], speakers[kept[a][0]]
            phi = [weights["antecedent_scores/speaker_embedding"][int(own == other != "")]]
            phi.append(weights["antecedent_scores/distance_embedding"][bucket(n - a)])
            if genre is not None:
                phi.append(weights["antecedent_scores/genre_embedding"][genre])
            pair = np.concatenate([g[n], g[a], g[n] * g[a], *phi])
            s_a = _feed_forward(pair, weights, "antecedent_scores/network")
            found[n].append(scores[n] + scores[a] + s_a)
    return found


def bucket(distance):
    """0, 1, 2, 3, 4, 5–7, 8–15, 16–31, 32–63, 64+"""
    return distance if distance < 5 else min(int(np.log2(distance)) + 3, 9)


def loss(scores, kept, gold):
    """The negative log-likelihood; gold is a dict from spans to entities."""
    total = 0.0
    for n, of_n in enumerate(scores):
        of_gold = [
            of_n[k]
            for k in range(1, len(of_n))
            if kept[n] in gold and gold[kept[n]] == gold.get(kept[n - k])
        ]
        total += np.logaddexp.reduce(of_n) - np.logaddexp.reduce(of_gold or of_n[:1])
    return total


def mention_loss(scores, gold):
    """The binary cross-entropy of all candidates; `scores` is a dict from spans to scores."""
    probabilities = {span: 1 / (1 + np.exp(-score)) for span, score in scores.items()}
    return -sum(np.log(p if span in gold else 1 - p) for span, p in probabilities.items())


def entities(scores, kept, mention_scores=None):
    """The entities formed by the best antecedents; with mention scores, also single mentions."""
    found = []
    for n, of_n in enumerate(scores):
        k = int(np.argmax(of_n))
        for entity in found:
            if k and kept[n - k] in entity:
                entity.append(kept[n])
        if not k:
            found.append([kept[n]])
    return [
        entity
        for entity in found
        if len(entity) > 1
        or (mention_scores is not None and mention_scores[kept.index(entity[0])] > 0)
    ]


def _feed_forward(vector, weights, name):
    hidden = np.maximum(vector @ weights[f"{name}/kernel"] + weights[f"{name}/bias"], 0)
    for layer in ("hidden", "score"):
        product = hidden @ weights[f"{name}/{layer}/kernel"] + weights[f"{name}/{layer}/bias"]
        hidden = np.maximum(product, 0) if layer == "hidden" else product
    return hidden[0]
