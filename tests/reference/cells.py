"""The cells of task models: GRU, highway LSTM and coupled-gate LSTM, token by token."""

import numpy as np

from reference.token_encoder import sigmoid


def gru(x, h, c, kernel, bias, recurrent_kernel, recurrent_bias):
    w_r, w_z, w_n = np.split(kernel, 3, axis=1)
    u_r, u_z, u_n = np.split(recurrent_kernel, 3, axis=1)
    b_r, b_z, b_n = np.split(bias, 3)
    d_r, d_z, d_n = np.split(recurrent_bias, 3)
    r = sigmoid(x @ w_r + b_r + h @ u_r + d_r)
    z = sigmoid(x @ w_z + b_z + h @ u_z + d_z)
    n = np.tanh(x @ w_n + b_n + r * (h @ u_n + d_n))
    return (1 - z) * n + z * h, c


def highway_lstm(x, h, c, kernel, bias, recurrent_kernel):
    of_x = np.split(x @ kernel + bias, 6)
    of_h = np.split(h @ recurrent_kernel, 5)
    i, f, o, t = (sigmoid(a + b + one) for a, b, one in zip(of_x, of_h, (0, 1, 0, 0), strict=False))
    c = f * c + i * np.tanh(of_x[4] + of_h[4])
    return t * (o * np.tanh(c)) + (1 - t) * of_x[5], c


def coupled_lstm(x, h, c, kernel, bias, recurrent_kernel):
    i, o, j = np.split(x @ kernel + bias + h @ recurrent_kernel, 3)
    c = (1 - sigmoid(i)) * c + sigmoid(i) * np.tanh(j)
    return sigmoid(o) * np.tanh(c), c


def sequence(cell, tokens, initial_h=None, initial_c=None, **weights):
    """`h` after each token of one sentence."""
    units = len(weights["recurrent_kernel"])
    h = np.zeros(units) if initial_h is None else initial_h
    c = np.zeros(units) if initial_c is None else initial_c
    outputs = []
    for x in tokens:
        h, c = globals()[cell](x, h, c, **weights)
        outputs.append(h)
    return np.array(outputs).reshape(len(tokens), units)
