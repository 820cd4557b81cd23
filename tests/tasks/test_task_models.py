"""The behavior that all task models share, and their scores, compared with plain NumPy."""

import functools
import inspect
from unittest import mock

import keras
import numpy as np
import pytest
import tensorflow as tf

from elmo_tf import Elmo
from elmo_tf.tasks import BiLSTMClassifier
from nested_arrays import assert_close
from reference import bidaf, srl
from reference import task_models as reference
from task_models import (
    KINDS,
    NOT_EMPTY,
    SENTENCES,
    WITH_TOKENS,
    every_kind,
    every_model,
    new_model,
    padded,
    real_outputs,
    reference_weights,
    some_inputs,
    truth,
    with_random_weights,
)


@pytest.fixture(scope="module")
def shared_model(bilm):
    """Returns a model of a kind, with ELMo at input and output. Tests must not change it."""

    @functools.cache
    def model(kind):
        keras.utils.set_random_seed(0)
        return new_model(kind, bilm, "input" if kind == "coref" else "both")

    return model


@every_kind
def test_outputs_do_not_depend_on_padding_or_neighbors(kind, shared_model):
    model = shared_model(kind)
    together = real_outputs(kind, model(some_inputs(kind, SENTENCES)), SENTENCES)

    for index, sentence in enumerate(SENTENCES):
        pair = [SENTENCES[index - 1], sentence]  # models of pairs also read the previous one
        alone = real_outputs(kind, model(some_inputs(kind, pair)), pair)[1]
        assert np.isfinite(alone).all()
        np.testing.assert_allclose(alone, together[index], atol=1e-5)


@every_model
def test_all_input_types_and_precomputed_layers_give_the_same_outputs(kind, shared_model):
    model = shared_model(kind)
    inputs = some_inputs(kind, SENTENCES)
    expected = model(inputs)

    lists = [sentence.split() for sentence in SENTENCES]
    for sentences in (tf.constant(SENTENCES), lists, tf.ragged.constant(lists), padded(SENTENCES)):
        same = (sentences, *inputs[1:]) if isinstance(inputs, tuple) else sentences
        assert_close(model(same), expected, atol=1e-6)
    with_layers = model.with_layers(model.named_inputs(inputs))
    assert_close(model(with_layers), expected, atol=1e-5)


@every_kind
def test_a_batch_may_have_no_tokens_or_no_sentences(kind, shared_model):
    for sentences in ([""], []):
        found = shared_model(kind).predictions(some_inputs(kind, sentences))

        for values in found.values():
            assert len(values) == len(sentences)
            assert values.dtype == tf.string or np.isfinite(values).all()
    assert shared_model(kind).predict(some_inputs(kind, []), verbose=0).size == 0


@every_kind
def test_a_task_model_may_be_part_of_a_functional_model(kind, shared_model):
    model = shared_model(kind)
    inputs = [keras.Input((None,), dtype="string") for _ in model.texts]
    inputs += [keras.Input((), dtype=spec.dtype.name) for spec in model.features.values()]
    functional = keras.Model(inputs, model(inputs if len(inputs) > 1 else inputs[0]))

    texts = some_inputs(kind, SENTENCES)
    tensors = list(model.named_inputs(texts).values())

    np.testing.assert_allclose(functional(tensors), model(texts), atol=1e-6)


@every_kind
def test_saving_and_loading_keeps_mixed_precision(kind, bilm, keras_round_trip):
    policy = keras.DTypePolicy("mixed_bfloat16")
    model_class, settings = KINDS[kind]
    model = model_class(elmo=Elmo(bilm, l2=0.1, dtype=policy), dtype=policy, **settings)
    inputs = some_inputs(kind, SENTENCES)

    outputs = model(inputs)

    assert outputs.dtype == tf.bfloat16
    assert {weight.dtype for weight in model.trainable_weights} == {"float32"}
    assert np.isfinite(model.compute_loss(y=truth(kind), y_pred=outputs))
    for values in model.predictions(inputs).values():
        assert values.dtype != tf.bfloat16
    loaded = keras_round_trip(model)
    assert loaded(inputs).dtype == tf.bfloat16
    np.testing.assert_array_equal(*(tf.cast(each, "float32") for each in (loaded(inputs), outputs)))


@pytest.mark.parametrize("placement", ["input", "output", "both", "none"])
def test_placement_determines_where_elmo_is_concatenated(placement, bilm):
    model, tokens = new_model("classifier", bilm, placement), padded(SENTENCES)

    vectors = model.token_vectors(tokens)

    mixes = [mix(bilm(tokens)["layers"]) for mix in (model.elmo.mixes if model.elmo else ())]
    assert len(mixes) == {"none": 0, "both": 2}.get(placement, 1)
    parts = [embed(tokens) for embed in model.token_vectors.embeddings]
    if placement in ("input", "both"):
        parts.append(mixes[0])
    np.testing.assert_allclose(vectors["input"], tf.concat(parts, axis=-1), atol=1e-5)
    assert ("output" in vectors) == (placement in ("output", "both"))
    if "output" in vectors:
        np.testing.assert_allclose(vectors["output"], mixes[-1], atol=1e-5)


@every_model
def test_saving_and_loading_keeps_settings_and_outputs(kind, shared_model, keras_round_trip):
    model, inputs = shared_model(kind), some_inputs(kind, SENTENCES)

    loaded = keras_round_trip(model)

    for name in set(inspect.signature(type(model)).parameters) - {"embeddings", "elmo", "kwargs"}:
        assert loaded.get_config()[name] == model.get_config()[name]
    assert_close(loaded(inputs), model(inputs))
    predictions = model.predictions(inputs)
    for name, values in loaded.predictions(inputs).items():
        np.testing.assert_array_equal(values, predictions[name])


@every_kind
def test_all_weights_except_those_of_the_bilm_get_a_gradient(kind, shared_model, bilm):
    model = shared_model(kind)

    with tf.GradientTape() as tape:
        outputs = model(some_inputs(kind, SENTENCES), training=True)
        loss = model.compute_loss(y=truth(kind), y_pred=outputs)
    gradients = tape.gradient(loss, model.trainable_variables)

    for gradient in gradients:
        assert np.isfinite(tf.convert_to_tensor(gradient)).all()
    of_bilm = {variable.path for variable in bilm.weights}
    assert of_bilm.isdisjoint(variable.path for variable in model.trainable_variables)


def test_a_bcn_with_batch_norm_uses_moving_averages_for_inference(keras_round_trip):
    model = new_model("bcn", batch_norm=True)
    model.compile("adam", run_eagerly=True)
    sentences = padded(["the cat sat", "ein mat", "on the mat", "Zürich"])
    model.fit(sentences, tf.constant([0, 1, 0, 1]), batch_size=4, verbose=0)
    assert all(np.any(norm.moving_mean) for norm in model.norms)
    together = np.asarray(model(sentences))
    alone = np.concatenate([model(sentences[row : row + 1]) for row in range(4)])
    np.testing.assert_allclose(alone, together, atol=1e-5)  # with the moving averages of training
    np.testing.assert_allclose(keras_round_trip(model)(sentences), together, atol=1e-6)


@every_kind
def test_a_bilm_can_be_trained_with_the_task(kind, fresh_bilm):
    bilm = fresh_bilm()
    model_class, settings = KINDS[kind]
    model = model_class(elmo=Elmo(bilm, dropout=0.0, trainable_bilm=True), **settings)
    model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
    before = [weight.numpy() for weight in bilm.trainable_weights]

    inputs = model.named_inputs(some_inputs(kind, NOT_EMPTY))
    model.fit(inputs, truth(kind)[WITH_TOKENS], verbose=0)

    after = [weight.numpy() for weight in bilm.trainable_weights]
    assert all(np.abs(a - b).max() > 0 for a, b in zip(before, after, strict=True))


def test_loss_includes_the_l2_penalty_of_the_mixing_weights(bilm):
    model = BiLSTMClassifier(["bad", "good"], elmo=Elmo(bilm, l2=0.5), units=6)
    model.elmo.mixes[0].layer_weights.assign([1.0, 2.0, 0.0])
    outputs, y = model(SENTENCES), truth("classifier")

    loss = model.compute_loss(y=y, y_pred=outputs)

    task_loss = np.mean(model.per_example_loss(y, outputs))
    np.testing.assert_allclose(loss, task_loss + 0.5 * 5, rtol=1e-5)


@pytest.mark.parametrize("kind", ["classifier", "srl", "coref"])
def test_inputs_of_all_shapes_are_traced_once(kind):
    model = new_model(kind)
    compute = type(model).call
    predict = getattr(model, {"classifier": "classify", "srl": "tag", "coref": "entities"}[kind])

    with mock.patch.object(type(model), "call", autospec=True, side_effect=compute) as call:
        for sentences in (["the cat sat"], ["ein", "the mat on the mat"], ["", "cat", "mat"], []):
            predict(some_inputs(kind, sentences))
            if kind == "coref":
                speakers = [["Ann"] * len(sentence.split()) for sentence in sentences]
                predict({"tokens": sentences, "speakers": speakers, "genre": "web"})

    assert call.call_count == 1


def test_a_loss_passed_to_compile_replaces_the_default_loss():
    model = new_model("classifier")
    model.compile("sgd", loss=lambda y, outputs: 7.0 + 0.0 * outputs[:, 0])
    assert model.compute_loss(y=truth("classifier"), y_pred=model(SENTENCES)) == 7


@every_kind
def test_float16_has_a_finite_loss_for_empty_texts(kind):
    model = new_model(kind, dtype="mixed_float16")
    passages, y = SENTENCES, truth(kind)
    if kind == "bidaf":
        passages, y = passages[:2], y[:2]  # an answer needs a passage
    losses = model.per_example_loss(y, model(some_inputs(kind, passages)))
    assert np.isfinite(losses).all()


def expected_scores(kind, model, sentences, **kwargs):
    """The expected scores of each sentence, by the reference formulas."""
    weights = reference_weights(model)

    def vectors(sentence):
        found = model.token_vectors(padded([sentence]))
        return [found[name][0].numpy() if name in found else None for name in ("input", "output")]

    if kind not in ("esim", "bidaf", "srl"):
        return [getattr(reference, kind)(*vectors(one), weights) for one in sentences]
    pairs = zip(*some_inputs(kind, sentences), strict=True)
    if kind == "srl":
        return [srl.scores(*vectors(one), predicate, weights) for one, predicate in pairs]
    formula = reference.esim if kind == "esim" else bidaf.bidaf
    both = [(vectors(one), vectors(other)) for one, other in pairs]
    return [formula(a, b, (a_out, b_out), weights, **kwargs) for (a, a_out), (b, b_out) in both]


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        *((kind, {}) for kind in ("tagger", "classifier", "bcn", "esim", "bidaf", "srl")),
        ("bcn", {"batch_norm": True}),
    ],
)
@pytest.mark.parametrize("placement", ["none", "both"])
def test_scores_match_the_reference_formulas(kind, settings, placement, bilm):
    model = with_random_weights(new_model(kind, bilm, placement, **settings))

    scores = real_outputs(kind, model(some_inputs(kind, NOT_EMPTY)), NOT_EMPTY)

    assert_close(scores, expected_scores(kind, model, NOT_EMPTY), atol=2e-5)


def test_dropout_of_bidaf_is_applied_at_the_same_places_as_in_the_reference(bilm, monkeypatch):
    model = with_random_weights(new_model("bidaf", bilm, "both"))
    monkeypatch.setattr(model.dropout, "call", lambda x, training: x * 0.5 if training else x)

    scores = model(some_inputs("bidaf", NOT_EMPTY), training=True)

    expected = expected_scores("bidaf", model, NOT_EMPTY, d=lambda x: x * 0.5)
    assert_close(real_outputs("bidaf", scores, NOT_EMPTY), expected, atol=2e-5)


@pytest.mark.parametrize(
    ("kind", "num_dropouts"),
    [("tagger", 3), ("classifier", 2), ("bcn", 4), ("esim", 4), ("srl", 3), ("coref", 10)],
)
def test_each_dropout_is_active_only_in_training(kind, num_dropouts):
    model = with_random_weights(new_model(kind))
    inputs = some_inputs(kind, NOT_EMPTY)

    def outputs(training=False):
        found = model(inputs, training=training)
        return (found["antecedent_scores"] if kind == "coref" else found).numpy()

    dropouts = [
        layer
        for layer in tf.train.TrackableView(model).descendants()
        if isinstance(layer, keras.layers.Dropout | keras.layers.SpatialDropout1D)
    ]
    assert len(dropouts) == num_dropouts
    scores = outputs()

    for one in dropouts:
        for layer in dropouts:
            layer.rate = 0.5 if layer is one else 0.0
        in_training = [outputs(training=True) for _ in range(2)]
        assert np.abs(in_training[0] - scores).max() > 1e-3
        assert np.abs(in_training[0] - in_training[1]).max() > 1e-3
        np.testing.assert_array_equal(outputs(), scores)
