"""A sentence ─► the layers of a biLM, boundaries included."""

import numpy as np

from reference import char_ids, lstm, token_encoder


def zero_states(options):
    """For each direction, for each layer, `h` and `c`."""
    shape = options["lstm"]
    sizes = shape["projection_dim"], shape["dim"]
    return [[[np.zeros(n) for n in sizes] for _ in range(shape["n_layers"])] for _ in range(2)]


def token_vectors(tokens, options, weights):
    """Vectors of `<S>`, the tokens, and `</S>`."""
    max_chars = options["char_cnn"]["max_characters_per_token"]
    first, last = char_ids.boundary_char_ids(max_chars)
    rows = [first, *(char_ids.char_ids(token.encode(), max_chars) for token in tokens), last]
    return np.array([token_encoder.encode(row, options, weights) for row in rows])


def layers(tokens, options, weights, states=None):
    """All layers (layer, token + 2, 2 · projection_dim) of one sentence, and its last states."""
    return layers_of_vectors(token_vectors(tokens, options, weights), options, weights, states)


def layers_of_vectors(vectors, options, weights, states=None):
    states = states or zero_states(options)
    forward, forward_states = _direction(vectors, 0, options, weights, states[0])
    backward, backward_states = _direction(vectors[::-1], 1, options, weights, states[1])
    backward = [layer[::-1] for layer in backward]
    pairs = [(vectors, vectors), *zip(forward, backward, strict=True)]
    stacked = np.array([np.concatenate(pair, axis=1) for pair in pairs])
    return stacked, [forward_states, backward_states]


def _direction(x, number, options, weights, states):
    shape = options["lstm"]
    outputs, new_states = [], []
    for layer, (h, c) in enumerate(states):
        cell = f"RNN_{number}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
        y, h, c = lstm.sequence(
            x,
            h,
            c,
            matrix=weights[f"{cell}/W_0"],
            bias=weights[f"{cell}/B"],
            projection=weights.get(f"{cell}/W_P_0"),
            cell_clip=shape.get("cell_clip"),
            proj_clip=shape.get("proj_clip"),
        )
        x = y + x if layer > 0 and shape["use_skip_connections"] else y
        outputs.append(x)
        new_states.append([h, c])
    return outputs, new_states
