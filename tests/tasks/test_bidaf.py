"""BiDAF and its attention, against plain NumPy and brute force."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from elmo_tf import Elmo
from elmo_tf.tasks import BiDAF
from elmo_tf.tasks.attention import TrilinearSimilarity, masked_softmax
from elmo_tf.tasks.bidaf import best_spans
from reference import bidaf as reference
from task_models import embeddings, padded

PASSAGES = ["the cat sat on the mat ein cat", "Zürich", "ein cat sat", "the mat 서울 on Zürich"]
QUESTIONS = ["on the mat sat the", "cat the ein on", "Zürich", "ein mat"]
TEXTS = (PASSAGES, QUESTIONS)
LENGTHS = [8, 1, 3, 5]
SPANS = np.array([[2, 5], [0, 0], [1, 2], [4, 4]])


def new_model(bilm=None, placement="input", **kwargs):
    """A small model with all widths different, and with ELMo if there is a biLM."""
    elmo = None
    if bilm is not None:
        elmo = Elmo(bilm, num_mixes=2 if placement == "both" else 1, dropout=0.0)
    settings = {"units": 5, "dropout": 0.0, "max_answer": 3, **kwargs}
    return BiDAF(embeddings(), elmo, placement, **settings)


def with_random_weights(model):
    rng = np.random.default_rng(3)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(scale=0.5, size=weight.shape))
    return model


@pytest.fixture(scope="module")
def model(bilm):
    """With random weights and two mixes of ELMo. No test may change it."""
    keras.utils.set_random_seed(0)
    return with_random_weights(new_model(bilm, "both"))


def expected_scores(model, **kwargs):
    """The scores of each passage by the formulas, without padding."""
    weights = {
        weight.path.partition("/")[2]: weight.numpy().astype(np.float64) for weight in model.weights
    }
    for pair in zip(*TEXTS, strict=True):
        vectors = [model.token_vectors(padded([text])) for text in pair]
        inputs = [each["input"][0].numpy().astype(np.float64) for each in vectors]
        outputs = [each["output"][0].numpy() if "output" in each else None for each in vectors]
        yield reference.bidaf(*inputs, outputs, weights, **kwargs)


def check_scores(scores, expected):
    for found, wanted, length in zip(np.asarray(scores), expected, LENGTHS, strict=True):
        np.testing.assert_allclose(found[:, :length], wanted, atol=2e-5)
        assert (found[:, length:] < -1e8).all()


@pytest.mark.parametrize("placement", ["input", "output", "both", "none"])
def test_the_scores_are_those_of_the_formulas(placement, bilm):
    model = with_random_weights(new_model(bilm, placement))

    check_scores(model(TEXTS), expected_scores(model))


def test_dropout_is_where_the_formulas_have_it(model, monkeypatch):
    def halved(x, training):
        return x * 0.5 if training else x

    monkeypatch.setattr(model.dropout, "call", halved)

    check_scores(model(TEXTS, training=True), expected_scores(model, d=lambda x: x * 0.5))


def test_dropout_has_one_mask_for_all_tokens_of_a_text():
    model = new_model(dropout=0.5)

    dropped = model.dropout(tf.ones((2, 4, 30)), training=True).numpy() == 0

    assert (dropped.any(axis=1) == dropped.all(axis=1)).all()
    assert 0 < dropped.mean() < 1


def test_trilinear_similarity_is_that_of_the_formula():
    rng = np.random.default_rng(0)
    texts = [rng.normal(size=(2, length, 3)).astype(np.float32) for length in (4, 6)]
    layer = TrilinearSimilarity(name="similarity")
    layer.build(*(text.shape for text in texts))
    for weight in layer.weights:
        weight.assign(rng.normal(size=weight.shape))

    scores = layer(*texts)

    weights = {f"similarity/{weight.name}": weight.numpy() for weight in layer.weights}
    for found, c, q in zip(scores, *texts, strict=True):
        np.testing.assert_allclose(
            found, reference.trilinear(c, q, weights, "similarity"), atol=1e-5
        )
    assert layer.compute_output_shape(*(text.shape for text in texts)) == scores.shape


def test_attention_with_a_null_score_may_go_to_no_token():
    scores = np.array([[1.0, -2.0, 0.5], [3.0, 1.0, 9.0], [0.0, 0.0, 0.0]], np.float32)
    mask = np.arange(3) < np.array([[3], [2], [0]])

    weights = masked_softmax(scores, mask, -1.0).numpy()

    powers = np.where(mask, np.exp(scores), 0)
    np.testing.assert_allclose(
        weights, powers / (np.exp(-1) + powers.sum(axis=1, keepdims=True)), atol=1e-6
    )


def test_attention_with_a_null_score_never_overflows():
    scores = tf.constant([[500.0, 499.0], [-500.0, -501.0]])
    null_score = tf.constant(-1.0)

    with tf.GradientTape() as tape:
        tape.watch([scores, null_score])
        weights = masked_softmax(scores, tf.constant(True), null_score)
    gradients = tape.gradient(weights, [scores, null_score])

    np.testing.assert_allclose(weights[0], reference.softmax(np.array([1.0, 0.0])), rtol=1e-4)
    assert not np.any(weights[1])
    assert all(np.isfinite(gradient).all() for gradient in gradients)


@pytest.mark.parametrize("max_answer", [1, 3, 20])
def test_the_best_spans_are_those_of_brute_force(max_answer):
    lengths = (9, 1, 4, 0, 2)
    scores = np.random.default_rng(0).normal(size=(5, 2, 9), scale=2).astype(np.float32)
    mask = np.arange(9) < np.array(lengths)[:, None]
    masked = np.where(mask[:, None], scores, -1e9)

    starts, ends, probabilities = best_spans(masked, tf.constant(mask), max_answer)

    for row, length in enumerate(lengths):
        found = starts[row], ends[row], probabilities[row]
        if length:
            expected = reference.best_span(scores[row, :, :length], max_answer)
            np.testing.assert_allclose(found, expected, rtol=1e-5)
        else:
            assert found == (0, 0, 0)


def test_predictions_are_the_best_spans_of_the_scores(model):
    found = {name: value.numpy() for name, value in model.predictions(TEXTS).items()}

    expected = [
        reference.best_span(scores[:, :length], 3)
        for scores, length in zip(model(TEXTS).numpy(), LENGTHS, strict=True)
    ]
    starts, ends, probabilities = zip(*expected, strict=True)
    np.testing.assert_array_equal(found["answer_start"], starts)
    np.testing.assert_array_equal(found["answer_end"], ends)
    np.testing.assert_allclose(found["probability"], probabilities, rtol=1e-4)
    for answer, passage, start, end in zip(found["answer"], PASSAGES, starts, ends, strict=True):
        assert answer.decode("utf-8") == " ".join(passage.split()[start : end + 1])
    assert {name: value.dtype for name, value in found.items()} == {
        "answer_start": np.int32,
        "answer_end": np.int32,
        "answer": object,
        "probability": np.float32,
    }


def test_padding_and_neighbours_change_no_answer(model):
    texts = [[*sentences, ""] for sentences in TEXTS]
    together = model(texts).numpy()
    found = model.predictions(texts)

    for row, length in enumerate(LENGTHS):
        one = [[sentences[row]] for sentences in TEXTS]
        np.testing.assert_allclose(model(one)[0], together[row, :, :length], atol=1e-6)
        for name, value in model.predictions(one).items():
            if name == "probability":
                np.testing.assert_allclose(value[0], found[name][row], rtol=1e-5)
            else:
                assert value[0] == found[name][row]


@pytest.mark.parametrize("texts", [([], []), ([""], [""]), (["the cat"], [""]), ([""], ["ein"])])
def test_texts_may_be_empty(texts, model):
    found = model.predictions(texts)

    assert len(found["answer"]) == len(texts[0])
    for passage, answer, probability in zip(
        texts[0], found["answer"], found["probability"], strict=True
    ):
        assert bool(passage) == (answer != b"") == (0 < probability <= 1)


def test_layers_that_are_known_already_give_the_same(model, bilm):
    inputs = {}
    for name, sentences in zip(model.texts, TEXTS, strict=True):
        inputs[name] = padded(sentences)
        inputs[f"{name}_layers"] = bilm(sentences)["layers"]

    np.testing.assert_allclose(model(inputs), model(TEXTS), atol=1e-5)


def test_answer_spans_of_all_shapes_are_traced_once():
    traced = []

    class Traced(BiDAF):
        def call(self, inputs, training=False):
            traced.append(inputs)
            return super().call(inputs, training=training)

    model = Traced(embeddings(), units=3)
    traced.clear()  # of the call that made its weights

    several = [TEXTS, (["the cat"], ["a b c d"]), (["the"] * 7, ["ein"] * 7), ([], [])]
    spans = [model.answer_spans(texts) for texts in several]

    assert len(traced) == 1
    for texts, found in zip(several, spans, strict=True):
        expected = model.predictions(texts)
        starts, ends = (expected[f"answer_{name}"].numpy().tolist() for name in ("start", "end"))
        assert found == list(zip(starts, ends, strict=True))


def test_a_model_is_saved_and_loaded_whole(model, keras_round_trip):
    loaded = keras_round_trip(model)

    assert (loaded.units, loaded.dropout_rate, loaded.max_answer) == (5, 0.0, 3)
    assert loaded.null_score == model.null_score
    np.testing.assert_array_equal(loaded(TEXTS), model(TEXTS))
    expected = model.predictions(TEXTS)
    for name, values in loaded.predictions(TEXTS).items():
        np.testing.assert_array_equal(values, expected[name])


def test_the_loss_is_that_of_the_formula(model):
    scores = model(TEXTS)

    losses = model.per_example_loss(SPANS, scores, TEXTS)

    expected = [
        reference.loss(found[:, :length], *span)
        for found, length, span in zip(scores.numpy(), LENGTHS, SPANS, strict=True)
    ]
    np.testing.assert_allclose(losses, expected, rtol=1e-5, atol=1e-6)
    assert losses.dtype == tf.float32
    np.testing.assert_allclose(
        model.compute_loss(x=TEXTS, y=SPANS, y_pred=scores), np.mean(expected), rtol=1e-5
    )


def test_every_weight_but_those_of_the_bilm_gets_a_finite_gradient(model, bilm):
    texts = [[*sentences, ""] for sentences in TEXTS]  # the last row is padding only

    with tf.GradientTape() as tape:
        losses = model.per_example_loss([*SPANS, (0, 0)], model(texts, training=True))[:-1]
    gradients = tape.gradient(losses, model.trainable_variables)

    for variable, gradient in zip(model.trainable_variables, gradients, strict=True):
        gradient = tf.convert_to_tensor(gradient)  # from the rows of an embedding
        assert np.isfinite(gradient).all(), variable.path
        # A constant in all scores changes no softmax; but self-attention has a null score.
        is_constant = variable.path.endswith(("/similarity/bias", "_score/bias"))
        assert np.any(np.abs(gradient) > 1e-6) != is_constant, variable.path
    of_bilm = {variable.path for variable in bilm.weights}
    assert of_bilm.isdisjoint(variable.path for variable in model.trainable_variables)


def test_null_score_starts_at_minus_one_and_grus_at_small_weights():
    model = new_model()

    assert model.null_score == -1
    assert 0 < np.abs(model.encoder.forward.kernel).max() <= 0.1
    assert not np.any(model.encoder.forward.bias)


@pytest.mark.more
def test_training_with_batches_of_any_shape_reduces_the_loss_and_is_traced_once():
    traced = []

    class Traced(BiDAF):
        def train_step(self, data):
            traced.append(data)
            return super().train_step(data)

    model = with_random_weights(Traced(embeddings(), units=5, dropout=0.0))
    model.compile(keras.optimizers.Adam(0.02))

    def batches():
        for rows in (slice(0, 3), slice(1, 3)):
            yield tuple(padded(sentences[rows]) for sentences in TEXTS), SPANS[rows]

    text = tf.TensorSpec((None, None), tf.string)
    signature = ((text, text), tf.TensorSpec((None, 2), tf.int64))
    dataset = tf.data.Dataset.from_generator(batches, output_signature=signature).repeat()

    history = model.fit(dataset, epochs=8, steps_per_epoch=2, shuffle=False, verbose=0)

    losses = history.history["loss"]
    assert losses[-1] < 0.5 * losses[0]
    assert len(traced) == 1


def test_scores_and_probabilities_are_finite_in_mixed_precision(bilm):
    model = BiDAF(embeddings(), Elmo(bilm), units=5, dtype="mixed_bfloat16")

    scores = model(TEXTS)

    assert scores.dtype == tf.bfloat16
    assert np.isfinite(model.per_example_loss(SPANS, scores)).all()
    assert model.predictions(TEXTS)["probability"].dtype == tf.float32


@pytest.mark.parametrize("span", [(5, 8), (-1, 2), (4, 3)])
def test_an_answer_outside_of_its_passage_is_refused(span, model):
    y = np.array([span, *SPANS[1:]])
    scores = model(TEXTS)

    for inputs in (TEXTS, None):  # the first passage is as long as the batch
        with pytest.raises(ValueError, match=r"first and the last token .* within its passage"):
            model.per_example_loss(y, scores, inputs)


def test_an_answer_in_the_padding_is_refused(model):
    y = np.array([*SPANS[:3], (4, 5)])
    scores = model(TEXTS)

    with pytest.raises(ValueError, match=r"\[8 1 3 5\], \[2 0 1 4\], \[5 0 2 5\]"):
        model.per_example_loss(y, scores, TEXTS)
    inputs = dict(zip(model.texts, map(padded, TEXTS), strict=True))
    with pytest.raises(tf.errors.InvalidArgumentError, match="within its passage"):
        tf.function(model.per_example_loss)(y, scores, inputs)


def test_wrong_targets_are_refused(model):
    scores = model(TEXTS)

    for y in (np.zeros(4, int), np.zeros((4, 3), int), np.zeros((4, 2)), [["a", "b"]] * 4):
        with pytest.raises(ValueError, match=r"`y` must be int \(batch, 2\).* Received: "):
            model.per_example_loss(y, scores)


def test_wrong_arguments_are_refused():
    for wrong, message in (
        ({"units": 0}, "`units` must be an integer of at least 1"),
        ({"dropout": 1.0}, "`dropout` must be a number >= 0 and < 1"),
        ({"max_answer": 0}, "`max_answer` must be an integer of at least 1"),
    ):
        with pytest.raises(ValueError, match=message):
            BiDAF(embeddings(), **wrong)


def test_wrong_inputs_are_refused(model):
    with pytest.raises(ValueError, match="must be 2 batches: passage, question"):
        model(["the cat"])
    with pytest.raises(ValueError, match=r"passage and question must have the same batch size"):
        model((["the cat", "ein"], ["the"]))
