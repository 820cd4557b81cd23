"""The loop that skips padding gives the same results as the one that does not."""

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.layers import ProjectedLSTM
from elmo_tf.layers.recurrence_tf import ActiveRows

TOKENS, ROWS, FEATURES = 9, 21, 4
LENGTHS = np.random.default_rng(5).permutation([0, 9, 8, *range(1, 10), *([2] * 9)])
PREFIXES = np.arange(TOKENS) < LENGTHS[:, None]  # (row, token)
MASKS = {
    "padding behind": PREFIXES,
    "padding in front": PREFIXES[:, ::-1],
    "padding anywhere": np.random.default_rng(6).random((ROWS, TOKENS)) < 0.6,
    "no padding": np.ones((ROWS, TOKENS), bool),
    "padding alone": np.zeros((ROWS, TOKENS), bool),
}


def random(*shape):
    return np.random.default_rng(7).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize(
    ("name", "is_traced"), [*((name, False) for name in MASKS), ("padding anywhere", True)]
)
def test_an_lstm_gives_the_same_when_padding_is_skipped(name, is_traced):
    mask = MASKS[name]
    lstm = ProjectedLSTM(7, 3, cell_clip=0.5, proj_clip=0.2, return_state=True)
    plain = ProjectedLSTM.from_config({**lstm.get_config(), "unroll": True})
    tokens, state = tf.constant(random(ROWS, TOKENS, FEATURES)), [random(ROWS, 3), random(ROWS, 7)]
    for layer in (lstm, plain):
        layer.build(tokens.shape)
    for to, source in zip(plain.weights, lstm.weights, strict=True):
        source.assign(random(*source.shape))
        to.assign(source)

    results = []
    for layer in (lstm, plain):
        call = tf.function(layer) if is_traced else layer
        with tf.GradientTape() as tape:
            tape.watch(tokens)
            outputs, h, c = call(tokens, initial_state=state, mask=mask, training=False)
            loss = sum(tf.reduce_sum(one * random(*one.shape)) for one in (outputs, h, c))
        watched = [*(weight.value for weight in layer.trainable_weights), tokens]
        gradients = tape.gradient(loss, watched, unconnected_gradients="zero")
        results.append([outputs, h, c, *gradients])

    for actual, desired in zip(*results, strict=True):
        np.testing.assert_allclose(actual, desired, atol=2e-6)


@pytest.mark.parametrize("name", ["padding behind", "padding in front"])
def test_most_padding_on_one_side_is_skipped(name):
    mask = MASKS[name].T[:, :, None]

    packed = ActiveRows(tf.constant(mask)).pack(tf.ones((TOKENS, ROWS, 1)))

    # Up to 7 more rows than necessary at each token.
    assert mask.sum() <= len(packed) <= mask.sum() + 7 * TOKENS
    assert len(packed) < 0.7 * mask.size
