import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from elmo_tf import Elmo
from elmo_tf.tasks import SRLTagger
from reference import srl as reference
from task_models import embeddings, padded

LABELS = ["O", "B-A0", "I-A0", "B-V", "I-V"]
SENTENCES = ["the cat sat on mat", "ein", "", "Zürich cat 서울 sat"]
PREDICATES = [2, 0, 0, 3]
LENGTHS = [len(sentence.split()) for sentence in SENTENCES]
INPUTS = (SENTENCES, PREDICATES)
TAGS = np.array([[1, 2, 3, 4, 0], [3] + [-1] * 4, [-1] * 5, [0, 1, 2, 3, -1]])


def new_model(bilm=None, placement="input", **kwargs):
    elmo = None
    if bilm is not None and placement != "none":
        elmo = Elmo(bilm, num_mixes=2 if placement == "both" else 1, dropout=0.0)
    sizes = {"units": 5, "num_layers": 3, "predicate_dim": 6}
    return SRLTagger(LABELS, embeddings(), elmo, placement, **{**sizes, **kwargs})


def with_random_weights(model):
    rng = np.random.default_rng(3)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(scale=0.6, size=weight.shape))
    return model


@pytest.fixture(scope="module")
def random_model(bilm):
    """Models with random weights, by placement. None may change them."""
    return functools.cache(lambda placement: with_random_weights(new_model(bilm, placement)))


def reference_scores(model, sentence, predicate):
    """The scores of the formulas, float (token, label)."""
    weights = {
        weight.path.partition("/")[2]: weight.numpy().astype(np.float64) for weight in model.weights
    }
    vectors = model.token_vectors(padded([sentence]))
    vectors, output = (vectors[n][0].numpy() if n in vectors else None for n in ("input", "output"))
    return reference.scores(vectors, output, predicate, weights)


def all_predicates():
    """Every sentence with a token, with each of its tokens as the predicate."""
    pairs = zip(SENTENCES, LENGTHS, strict=True)
    found = [(sentence, token) for sentence, length in pairs for token in range(length)]
    return tuple(zip(*found, strict=True))


@pytest.mark.parametrize("placement", ["none", "input", "output", "both"])
def test_the_scores_are_those_of_the_formulas(placement, random_model):
    model = random_model(placement)
    sentences, predicates = all_predicates()

    scores = model((sentences, predicates)).numpy()

    for found, sentence, predicate in zip(scores, sentences, predicates, strict=True):
        wanted = reference_scores(model, sentence, predicate)
        np.testing.assert_allclose(found[: len(wanted)], wanted, atol=1e-5)


def test_another_predicate_changes_the_scores_of_every_token(random_model):
    model, sentence = random_model("none"), SENTENCES[0]

    first, second = model(([sentence] * 2, [1, 3])).numpy()

    assert np.abs(first - second).max(axis=-1).min() > 1e-3


def test_recurrent_dropout_of_every_layer_is_active_in_training_only():
    model = with_random_weights(new_model(dropout=0.5))
    scores, dropouts = model(INPUTS).numpy(), [lstm.dropout for lstm in model.lstms]

    for one in dropouts:
        for dropout in dropouts:
            dropout.rate = 0.5 if dropout is one else 0.0
        in_training = [model(INPUTS, training=True).numpy() for _ in range(2)]
        assert np.abs(in_training[0] - scores).max() > 1e-3
        assert np.abs(in_training[0] - in_training[1]).max() > 1e-3
        np.testing.assert_array_equal(model(INPUTS), scores)


def test_initial_weights_are_the_published_ones():
    model = new_model(units=40, predicate_dim=200)

    for kernel in (model.predicate_embedding.kernel, model.scores.kernel):
        assert 0.008 < np.std(kernel.numpy()) < 0.012
        assert abs(np.mean(kernel.numpy())) < 0.002
    assert not model.scores.bias.numpy().any()
    for lstm in model.lstms:
        for block in np.split(lstm.recurrent_kernel.numpy(), 5, axis=1):
            np.testing.assert_allclose(block.T @ block, np.eye(40), atol=1e-5)


def test_directions_alternate_and_the_first_layer_reads_forward():
    assert [lstm.go_backwards for lstm in new_model(num_layers=4).lstms] == [False, True] * 2


def test_the_loss_is_the_sum_over_the_tokens_and_the_mean_over_the_examples(random_model):
    model = random_model("none")
    outputs = model(INPUTS)

    losses = model.per_example_loss(TAGS, outputs, INPUTS).numpy()

    for row, length in enumerate(LENGTHS):
        wanted = reference.loss(
            outputs[row, :length].numpy().astype(np.float64), TAGS[row, :length]
        )
        np.testing.assert_allclose(losses[row], wanted, rtol=1e-5)
    np.testing.assert_allclose(model.compute_loss(INPUTS, TAGS, outputs), losses.mean(), rtol=1e-6)


def test_predictions_are_those_of_all_bio_sequences(random_model):
    model = random_model("none")
    sentences, predicates = all_predicates()
    scores = model((sentences, predicates)).numpy().astype(np.float64)

    found = model.predictions((sentences, predicates))
    tags = model.tag((sentences, predicates))

    is_bio = []
    for row, sentence in enumerate(sentences):
        length = len(sentence.split())
        best, shares = reference.best(scores[row, :length], LABELS)
        assert tags[row] == best
        assert [tag.decode() for tag in found["tags"][row].numpy()] == best + [""] * (5 - length)
        np.testing.assert_allclose(found["probabilities"][row, :length], shares, atol=1e-5)
        assert not found["probabilities"][row, length:].numpy().any()
        assert found["sequence_len"][row] == length
        greedy = scores[row, :length].argmax(axis=-1)
        is_bio.append(reference.is_bio([LABELS[tag] for tag in greedy]))
    assert not all(is_bio)  # otherwise this test says nothing about the constraints


@pytest.mark.parametrize("placement", ["none", "both"])
def test_outputs_do_not_depend_on_padding_or_neighbours(placement, random_model):
    model = random_model(placement)
    together = model(INPUTS).numpy()

    for row, length in enumerate(LENGTHS):
        alone = model((SENTENCES[row : row + 1], PREDICATES[row : row + 1])).numpy()
        np.testing.assert_allclose(alone[0, :length], together[row, :length], atol=1e-6)
    wider = tf.pad(padded(SENTENCES), [[0, 1], [0, 3]], constant_values="")
    np.testing.assert_allclose(
        [row[:5] for row in model((wider, [*PREDICATES, 0])).numpy()[:4]], together, atol=1e-6
    )
    assert np.isfinite(together).all()


@pytest.mark.parametrize("placement", ["none", "both"])
def test_every_weight_gets_a_finite_gradient(placement, random_model):
    model = random_model(placement)

    with tf.GradientTape() as tape:
        loss = model.compute_loss(INPUTS, TAGS, model(INPUTS, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)

    for gradient in gradients:
        assert np.isfinite(tf.convert_to_tensor(gradient)).all()


def test_a_batch_may_hold_no_token_and_no_sentence(random_model):
    for sentences in ([""], []):
        predicates = np.zeros(len(sentences), np.int32)
        found = random_model("none").compiled_predictions((sentences, predicates))

        assert found["tags"].shape == (len(sentences), 1)
        assert not found["probabilities"].numpy().any()


def test_all_kinds_of_inputs_agree(random_model, bilm):
    model = random_model("both")
    expected = model(INPUTS)
    tokens = padded(SENTENCES)

    for inputs in (
        {"predicate": np.array(PREDICATES, np.int64), "tokens": tokens},
        ([sentence.split() for sentence in SENTENCES], tf.constant(PREDICATES)),
        {"tokens": tokens, "predicate": PREDICATES, "layers": bilm(SENTENCES)["layers"]},
    ):
        np.testing.assert_allclose(model(inputs), expected, atol=1e-5)


def test_it_may_be_part_of_a_functional_model(random_model):
    model = random_model("none")
    inputs = (keras.Input((None,), dtype="string"), keras.Input((), dtype="int32"))
    functional = keras.Model(inputs, model(inputs))

    found = functional((padded(SENTENCES), tf.constant(PREDICATES)))

    np.testing.assert_allclose(found, model(INPUTS), atol=1e-6)


@pytest.mark.parametrize("placement", ["none", "both"])
def test_a_model_is_saved_and_loaded_whole(placement, random_model, keras_round_trip):
    model = random_model(placement)

    loaded = keras_round_trip(model)

    sizes = ("units", "num_layers", "dropout", "predicate_dim", "labels", "placement")
    assert all(loaded.get_config()[name] == model.get_config()[name] for name in sizes)
    np.testing.assert_array_equal(loaded(INPUTS), model(INPUTS))
    predictions = model.predictions(INPUTS)
    for name, values in loaded.predictions(INPUTS).items():
        np.testing.assert_array_equal(values, predictions[name])


@pytest.mark.parametrize("is_dict", [False, True])
def test_a_few_steps_reduce_the_loss(is_dict):
    model = new_model(dropout=0.0)
    model.compile(keras.optimizers.Adam(0.05), run_eagerly=True)
    inputs = (padded(SENTENCES), np.array(PREDICATES))
    if is_dict:
        inputs = dict(zip(("tokens", "predicate"), inputs, strict=True))

    losses = model.fit(inputs, TAGS, epochs=6, verbose=0).history["loss"]

    assert losses[-1] < 0.8 * losses[0]


def test_a_graph_of_any_sizes_is_traced_once_and_checks_predicates():
    traced = []

    class Traced(SRLTagger):
        def call(self, inputs, training=False):
            traced.append(inputs)
            return super().call(inputs, training=training)

    model = Traced(LABELS, embeddings(), units=4, num_layers=2)
    traced.clear()  # of the call that created the weights

    for sentences, predicates in ((["the cat"], [1]), INPUTS, (["", "cat"], [0, 0])):
        assert len(model.tag((sentences, predicates))) == len(sentences)
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be the index of a token of its"):
        model.tag((["the cat", "ein"], [1, 1]))

    assert len(traced) == 1


@pytest.mark.parametrize(("policy", "dtype"), [("mixed_bfloat16", "bfloat16"), ("float64",) * 2])
def test_predictions_are_computed_in_float32_or_wider(policy, dtype):
    model = new_model(dtype=keras.DTypePolicy(policy))
    outputs = model(INPUTS)

    found = model.predictions(INPUTS)

    assert outputs.dtype == dtype
    assert found["probabilities"].dtype == ("float64" if dtype == "float64" else "float32")
    sums = found["probabilities"].numpy().sum(axis=-1)
    np.testing.assert_allclose(sums, TAGS >= 0, atol=1e-5)
    assert np.isfinite(model.per_example_loss(TAGS, outputs, INPUTS)).all()


def test_wrong_arguments_are_refused():
    for wrong in ({"units": 0}, {"num_layers": 0}, {"predicate_dim": 0}):
        with pytest.raises(ValueError, match=f"`{next(iter(wrong))}` must be an integer of at"):
            new_model(**wrong)
    with pytest.raises(ValueError, match="`dropout` must be a number >= 0 and < 1"):
        new_model(dropout=1.0)
    with pytest.raises(ValueError, match="'A0' is not a tag of BIO"):
        SRLTagger(["O", "A0"], embeddings())
    with pytest.raises(ValueError, match=r"allow no sequence of 1 tags. Is the tag O"):
        SRLTagger(["I-A0"], embeddings())


@pytest.mark.parametrize("predicate", [-1, 1, 4])
def test_a_predicate_that_is_no_token_of_its_sentence_is_refused(predicate, random_model):
    with pytest.raises(ValueError, match=rf"and lengths: \[ ?1 +{predicate}\], \[2 1\]"):
        random_model("none")((["the cat", "ein"], [1, predicate]))


def test_wrong_inputs_are_refused(random_model):
    model = random_model("none")

    with pytest.raises(ValueError, match=r"one predicate for each sentence.*: 1, 2"):
        model((["the cat", "ein"], [0]))
    with pytest.raises(ValueError, match="must be 2 batches: tokens, predicate"):
        model(["the cat", "ein", "sat"])
    with pytest.raises(ValueError, match=r"predicate must be int32 of shape \(None,\)"):
        model((["the cat"], [[0]]))
    with pytest.raises(ValueError, match=r"must have the keys tokens, predicate"):
        model({"tokens": ["the cat"]})


def test_targets_that_do_not_suit_are_refused(random_model):
    model = random_model("none")
    outputs = model(INPUTS)

    with pytest.raises(TypeError, match=r"not labels. Use `label_ids`"):
        model.per_example_loss([["O"] * 5] * 4, outputs)
    with pytest.raises(ValueError, match=r"must have the same width.*: 4, 5"):
        model.per_example_loss(TAGS[:, :4], outputs)
    with pytest.raises(ValueError, match=r"indices into `labels`, 0 to 4, or -1"):
        model.per_example_loss(TAGS + 2, outputs)
    with pytest.raises(ValueError, match=r"-1 for padding only.*: \[5 1 0 4\], \[5 5 5 5\]"):
        model.per_example_loss(np.maximum(TAGS, 0), outputs, INPUTS)
