import keras
import numpy as np
import pytest
import tensorflow as tf
from elmo_inputs import MASK, SENTENCES, set_mix
from masks import mask_of

from elmo_tf import Elmo
from reference import scalar_mix as reference


@pytest.fixture(scope="module")
def layers(bilm):
    return bilm(SENTENCES)["layers"].numpy()


@pytest.mark.parametrize(
    "kwargs", [{}, {"num_mixes": 2}, {"layer_norm": True}, {"top_only": True}], ids=str
)
def test_vectors_equal_the_formula_and_carry_the_mask(bilm, layers, kwargs):
    elmo = Elmo(bilm, **kwargs)
    mixes = [set_mix(elmo, index) for index in range(elmo.num_mixes)]
    if elmo.layer_norm:
        layers = reference.normalized(layers.astype(np.float64), MASK)

    vectors = elmo(SENTENCES)

    assert isinstance(vectors, list) == (elmo.num_mixes > 1)
    for mixed, mix in zip(tf.nest.flatten(vectors), mixes, strict=True):
        expected = 1.7 * layers[:, -1] if elmo.top_only else reference.scalar_mix(layers, *mix)
        np.testing.assert_allclose(mixed, expected, atol=1e-4 if elmo.layer_norm else 1e-5)
        np.testing.assert_array_equal(mask_of(mixed), MASK)
        assert not mixed.numpy()[~MASK].any()


def test_preprocessed_strings_give_the_same_vectors(bilm, word_bilm, caplog):
    for elmo in (Elmo(bilm, dropout=0.0), Elmo(word_bilm, dropout=0.0)):
        ids = elmo.preprocess(SENTENCES)
        assert ids.dtype == tf.int32
        np.testing.assert_allclose(elmo(ids), elmo(SENTENCES), atol=1e-6)
        dataset = tf.data.Dataset.from_tensor_slices((SENTENCES, range(len(SENTENCES)))).batch(2)
        for rows, (batch, y) in enumerate(dataset.map(elmo.preprocess)):
            np.testing.assert_array_equal(y[0], 2 * rows)
            np.testing.assert_array_equal(batch, ids[2 * rows : 2 * rows + 2, : batch.shape[1]])
    assert "AutoGraph" not in caplog.text


def test_tokens_may_contain_spaces(bilm):
    rows, elmo = [["10 000"], ["a b"]], Elmo(bilm)
    np.testing.assert_allclose(elmo(rows), elmo(tf.constant(rows), lengths=[1, 1]), atol=1e-6)


def test_only_the_scale_of_an_average_is_trained(bilm, layers):
    elmo = Elmo(bilm, average=True)
    elmo.mixes[0].scaling.assign(1.7)

    np.testing.assert_allclose(elmo(SENTENCES), 1.7 * layers.mean(axis=1), atol=1e-5)
    assert [weight.path for weight in elmo.trainable_weights] == [elmo.mixes[0].scaling.path]


def test_dropout_is_applied_only_in_training(bilm):
    keras.utils.set_random_seed(0)
    elmo = Elmo(bilm, dropout=0.5)

    still, dropped = elmo(SENTENCES).numpy(), elmo(SENTENCES, training=True).numpy()

    zeros = (dropped == 0)[MASK].mean()
    assert 0.3 < zeros < 0.7
    np.testing.assert_allclose(dropped[dropped != 0], 2 * still[dropped != 0], rtol=1e-5)
    np.testing.assert_array_equal(elmo(SENTENCES), still)
    np.testing.assert_allclose(Elmo(bilm, dropout=0.0)(SENTENCES, training=True), still, atol=1e-6)


def test_the_l2_penalty_applies_to_the_weights_of_every_mix(bilm):
    elmo = Elmo(bilm, num_mixes=2, l2=0.1)
    mixes = [set_mix(elmo, index)[0] for index in range(2)]

    assert sum(elmo.losses).numpy() == pytest.approx(0.1 * sum((w**2).sum() for w in mixes))
    assert Elmo(bilm).losses == []


def test_from_pretrained_creates_a_layer_from_a_checkpoint(checkpoint_directory, bilm):
    elmo = Elmo.from_pretrained(checkpoint_directory, dropout=0.0)

    np.testing.assert_array_equal(elmo(SENTENCES), Elmo(bilm)(SENTENCES))
    assert elmo.dropout.rate == 0


def test_invalid_arguments_are_refused(bilm, fresh_bilm):
    for arguments, message in (
        ({"num_mixes": 0}, "`num_mixes` must be at least 1. Received: 0"),
        ({"dropout": 1.0}, "`dropout` must be at least 0 and below 1. Received: 1.0"),
        ({"l2": -1.0}, r"`l2` must be at least 0. Received: -1.0"),
        ({"average": True, "top_only": True}, "Only one of `top_only` and `average`"),
    ):
        with pytest.raises(ValueError, match=message):
            Elmo(bilm, **arguments)
    with pytest.raises(TypeError, match=r"`bilm` must be a BiLM.*Received: 'path'"):
        Elmo("path")
    with pytest.raises(ValueError, match="keep_boundaries=False"):
        Elmo(fresh_bilm(keep_boundaries=True))
