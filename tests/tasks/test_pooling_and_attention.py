import numpy as np
import pytest

from elmo_tf.tasks import Maxout
from elmo_tf.tasks.attention import masked_softmax, soft_alignment
from elmo_tf.tasks.pooling import masked_max, masked_mean, masked_min

RNG = np.random.default_rng(0)
LENGTHS = (3, 1, 0, 4)
MASK = np.arange(5) < np.array(LENGTHS)[:, None]
VECTORS = RNG.normal(size=(4, 5, 3)).astype(np.float32)


@pytest.mark.parametrize(
    ("pool", "plain"),
    [(masked_max, np.max), (masked_min, np.min), (masked_mean, np.mean)],
)
def test_pooling_reads_real_tokens_alone(pool, plain):
    pooled = pool(VECTORS, MASK).numpy()

    for row, length in enumerate(LENGTHS):
        expected = plain(VECTORS[row, :length], axis=0) if length else np.zeros(3)
        np.testing.assert_allclose(pooled[row], expected, rtol=1e-6)


def test_attention_is_shared_among_real_tokens():
    scores = RNG.normal(size=(4, 5)).astype(np.float32) * 5

    shares = masked_softmax(scores, MASK).numpy()

    for row, length in enumerate(LENGTHS):
        expected = np.zeros(5)
        if length:
            expected[:length] = np.exp(scores[row, :length]) / np.exp(scores[row, :length]).sum()
        np.testing.assert_allclose(shares[row], expected, rtol=1e-5)


def test_alignment_is_the_mean_of_the_other_text_by_likeness():
    others = RNG.normal(size=(4, 6, 3)).astype(np.float32)
    lengths = (2, 6, 3, 0)
    others_mask = np.arange(6) < np.array(lengths)[:, None]

    aligned = soft_alignment(VECTORS, others, others_mask).numpy()

    for row, length in enumerate(lengths):
        for token in range(5):
            weights = np.exp(others[row, :length] @ VECTORS[row, token])
            expected = weights @ others[row, :length] / weights.sum() if length else np.zeros(3)
            np.testing.assert_allclose(aligned[row, token], expected, rtol=1e-4, atol=1e-6)


def test_maxout_takes_the_greatest_of_its_pieces():
    layer = Maxout(2, num_pieces=3)

    outputs = layer(VECTORS).numpy()

    kernel, bias = layer.get_weights()
    pieces = (VECTORS @ kernel + bias).reshape(4, 5, 2, 3)
    np.testing.assert_allclose(outputs, pieces.max(axis=-1), atol=1e-6)
    assert layer.compute_output_shape((None, 3)) == (None, 2)
    for wrong in ({"units": 0}, {"units": 1, "num_pieces": 0}):
        with pytest.raises(ValueError, match="must be an integer of at least 1"):
            Maxout(**wrong)
