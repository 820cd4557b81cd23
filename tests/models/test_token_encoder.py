import numpy as np
import pytest

from elmo_tf import CharCNNConfig, char_ids
from elmo_tf.layers.char_cnn import cut_characters
from elmo_tf.models.token_encoder import TokenEmbedding, TokenEncoder


def test_weights_are_initialized_as_in_the_original():
    encoder = TokenEncoder(CharCNNConfig(((1, 400),), 5, num_highway=0), projection_dim=300)
    encoder.build((None, 9))
    embedding = TokenEmbedding(5000, 25)  # its rows have length one
    embedding.build((None,))

    assert np.std(encoder.projection.kernel) == pytest.approx(1 / 20, rel=0.02)
    assert not encoder.projection.bias.numpy().any()
    assert np.std(embedding.embedding) == pytest.approx(0.2, rel=0.02)


@pytest.mark.parametrize("max_width", [1, 3, 7])
def test_cut_characters_keeps_a_window_of_padding_or_all_characters(max_width):
    for length in range(1, 20):
        ids = char_ids(["a", "b" * length], 20)

        cut = cut_characters(ids, max_width).numpy()

        np.testing.assert_array_equal(cut, ids[:, : cut.shape[1]])
        used = min(length, 18) + 2
        assert cut.shape[1] == 20 or used + max_width <= cut.shape[1] <= used + max_width + 3
        assert used + max_width > 20 or (cut[:, -max_width:] == 261).all()
    after_padding = np.full((2, 20), 261, np.int32)
    after_padding[1, 9] = 7
    cut = np.asarray(cut_characters(after_padding, max_width))
    assert cut.shape[1] >= 10 + max_width
    assert cut[1, 9] == 7
