"""A token's bytes between its word boundaries, padded, and shifted by one."""

import numpy as np

BOS, EOS, BOW, EOW, PAD = range(256, 261)


def char_ids(token, max_chars):
    """One row of ids; zeros for the empty token."""
    return _row(token[: max_chars - 2], max_chars) if token else np.zeros(max_chars, int)


def boundary_char_ids(max_chars):
    """The rows of `<S>` and `</S>`."""
    return _row([BOS], max_chars), _row([EOS], max_chars)


def _row(characters, max_chars):
    row = [BOW, *characters, EOW]
    return np.array(row + [PAD] * (max_chars - len(row))) + 1
