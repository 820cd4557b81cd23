"""The LSTM with projection and clipping."""

import numpy as np

from reference.token_encoder import sigmoid


def step(x, h, c, matrix, bias, projection=None, cell_clip=None, proj_clip=None):
    """One token; `matrix` holds the rows of the input above those of the state."""
    i, j, f, o = np.split(np.concatenate([x, h]) @ matrix + bias, 4)
    c = sigmoid(f + 1) * c + sigmoid(i) * np.tanh(j)
    if cell_clip is not None:
        c = np.clip(c, -cell_clip, cell_clip)
    h = sigmoid(o) * np.tanh(c)
    if projection is not None:
        h = h @ projection
        if proj_clip is not None:
            h = np.clip(h, -proj_clip, proj_clip)
    return h, c


def sequence(tokens, h, c, mask=None, **weights):
    """All tokens of one sentence: `h` after each (zero where masked), and the last `h` and `c`."""
    outputs = []
    for position, x in enumerate(tokens):
        if mask is not None and not mask[position]:
            outputs.append(np.zeros_like(h))
            continue
        h, c = step(x, h, c, **weights)
        outputs.append(h)
    return np.array(outputs).reshape(len(tokens), len(h)), h, c
