"""A row of char ids ─► a token's vector."""

import numpy as np

ACTIVATIONS = {"relu": lambda x: np.maximum(x, 0), "tanh": np.tanh}


def sigmoid(x):
    return (1 + np.tanh(x / 2)) / 2  # does not overflow


def char_cnn(ids, table, kernels, biases, activation):
    """The maxima of all filters, side by side, for one row of ids."""
    embedded = [np.zeros(table.shape[1]) if i == 0 else table[i - 1] for i in ids]
    features = []
    for kernel, bias in zip(kernels, biases, strict=True):  # (width, char, filter), (filter,)
        windows = [
            sum(embedded[start + k] @ kernel[k] for k in range(len(kernel))) + bias
            for start in range(len(ids) - len(kernel) + 1)
        ]
        features.append(ACTIVATIONS[activation](np.max(windows, axis=0)))
    return np.concatenate(features)


def highway(x, carry_kernel, carry_bias, transform_kernel, transform_bias):
    gate = sigmoid(x @ carry_kernel + carry_bias)
    return gate * np.maximum(x @ transform_kernel + transform_bias, 0) + (1 - gate) * x


def encode(ids, options, weights):
    """CNN, highways and projection, with the weights of a published file."""
    shape = options["char_cnn"]
    filters = range(len(shape["filters"]))
    x = char_cnn(
        ids,
        weights["char_embed"],
        [weights[f"CNN/W_cnn_{i}"][0] for i in filters],
        [weights[f"CNN/b_cnn_{i}"] for i in filters],
        shape["activation"],
    )
    for k in range(shape["n_highway"]):
        names = ("W_carry", "b_carry", "W_transform", "b_transform")
        x = highway(x, *(weights[f"CNN_high_{k}/{name}"] for name in names))
    if "CNN_proj/W_proj" in weights:
        x = x @ weights["CNN_proj/W_proj"] + weights["CNN_proj/b_proj"]
    return x
