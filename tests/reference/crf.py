"""A linear-chain CRF that enumerates all sequences of tags."""

import itertools

import numpy as np


def sequences(num_tokens, num_tags):
    return list(itertools.product(range(num_tags), repeat=num_tokens))


def score(emissions, tags, start, transitions, end):
    """The score of one sentence: emissions (token, tag), tags (token,)."""
    if not len(tags):
        return 0.0
    total = start[tags[0]] + end[tags[-1]]
    for token, tag in enumerate(tags):
        total += emissions[token, tag]
    for before, after in itertools.pairwise(tags):
        total += transitions[before, after]
    return total


def is_allowed(tags, constraints):
    if constraints is None or not len(tags):
        return True
    first, between, last = constraints
    pairs = itertools.pairwise(tags)
    return first[tags[0]] and last[tags[-1]] and all(between[a][b] for a, b in pairs)


def log_likelihood(emissions, tags, start, transitions, end):
    scores = [score(emissions, one, start, transitions, end) for one in sequences(*emissions.shape)]
    return score(emissions, tags, start, transitions, end) - np.logaddexp.reduce(scores)


def best(emissions, start, transitions, end, constraints=None):
    """The allowed sequence with the highest score, and the marginals over allowed sequences."""
    allowed = [one for one in sequences(*emissions.shape) if is_allowed(one, constraints)]
    scores = np.array([score(emissions, one, start, transitions, end) for one in allowed])
    shares = np.exp(scores - np.logaddexp.reduce(scores))
    marginals = np.zeros(emissions.shape)
    for one, share in zip(allowed, shares, strict=True):
        for token, tag in enumerate(one):
            marginals[token, tag] += share
    return allowed[int(np.argmax(scores))], marginals
