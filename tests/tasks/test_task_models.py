"""The behavior that all task models share, and their scores, compared with plain NumPy."""

import functools
import inspect

import keras
import numpy as np
import pytest
import tensorflow as tf

from elmo_tf import Elmo
from elmo_tf.tasks import BiLSTMClassifier
from nested_arrays import assert_close
from reference import srl
from reference import task_models as reference
from task_models import (
    KINDS,
    NOT_EMPTY,
    SENTENCES,
    WITH_TOKENS,
    embeddings,
    every_kind,
    every_model,
    new_model,
    padded,
    real_outputs,
    recording,
    reference_weights,
    some_inputs,
    sublayers,
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


def with_layers(model, bilm, inputs):
    """Inputs by name, with the layers that the model would compute."""
    inputs = model.named_inputs(inputs)
    layers = {model.layers_name(text): bilm(inputs[text])["layers"] for text in model.texts}
    return {**inputs, **layers}


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
def test_all_input_types_and_precomputed_layers_give_the_same_outputs(kind, bilm, shared_model):
    model = shared_model(kind)
    inputs = some_inputs(kind, SENTENCES)
    expected = model(inputs)

    lists = [sentence.split() for sentence in SENTENCES]
    for sentences in (tf.constant(SENTENCES), lists, tf.ragged.constant(lists), padded(SENTENCES)):
        same = (sentences, *inputs[1:]) if isinstance(inputs, tuple) else sentences
        assert_close(model(same), expected, atol=1e-6)
    assert_close(model(with_layers(model, bilm, inputs)), expected, atol=1e-5)


@every_kind
def test_a_batch_may_have_no_tokens_or_no_sentences(kind, shared_model):
    for sentences in ([""], []):
        found = shared_model(kind).predictions(some_inputs(kind, sentences))

        for values in found.values():
            assert len(values) == len(sentences)
            assert values.dtype == tf.string or np.isfinite(values).all()


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


@pytest.mark.parametrize(
    ("placement", "at_input", "at_output"),
    [("input", True, False), ("output", False, True), ("both", True, True), ("none", False, False)],
)
def test_placement_determines_where_elmo_is_concatenated(placement, at_input, at_output, bilm):
    model, tokens = new_model("classifier", bilm, placement), padded(SENTENCES)

    vectors = model.token_vectors(tokens)

    parts = [embed(tokens) for embed in model.token_vectors.embeddings]
    mixes = []
    if at_input or at_output:
        mixes = [mix(bilm(tokens)["layers"]) for mix in model.elmo.mixes]
        assert len(mixes) == at_input + at_output
    if at_input:
        parts.append(mixes[0])
    np.testing.assert_allclose(vectors["input"], tf.concat(parts, axis=-1), atol=1e-5)
    assert ("output" in vectors) == at_output
    if at_output:
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
    model_class, traced = recording(KINDS[kind][0])
    model = model_class(embeddings=embeddings(), **KINDS[kind][1])
    predict = getattr(model, {"classifier": "classify", "srl": "tag", "coref": "entities"}[kind])
    traced.clear()  # ignore the call that created the weights

    for sentences in (["the cat sat"], ["ein", "the mat on the mat"], ["", "cat", "mat"], []):
        predict(some_inputs(kind, sentences))
        if kind == "coref":
            speakers = [["Ann"] * len(sentence.split()) for sentence in sentences]
            predict({"tokens": sentences, "speakers": speakers, "genre": "web"})

    assert len(traced) == 1


def test_a_loss_passed_to_compile_replaces_the_default_loss():
    model = new_model("classifier")
    model.compile("sgd", loss=lambda y, outputs: 7.0 + 0.0 * outputs[:, 0])
    assert model.compute_loss(y=truth("classifier"), y_pred=model(SENTENCES)) == 7


def test_a_column_of_sample_weights_has_one_weight_per_example():
    model = new_model("classifier")
    outputs, y = model(SENTENCES), truth("classifier")
    losses = model.per_example_loss(y, outputs).numpy()
    weights = np.array([[1.0], [0.0], [0.0], [3.0]])
    loss = model.compute_loss(y=y, y_pred=outputs, sample_weight=weights)
    np.testing.assert_allclose(loss, (losses[0] + 3 * losses[3]) / 4, rtol=1e-5)
    with pytest.raises(ValueError, match=r"one weight per example. Weights and examples: 8, 4"):
        model.compute_loss(y=y, y_pred=outputs, sample_weight=np.ones((4, 2)))


@every_kind
def test_float16_has_a_finite_loss_for_empty_texts(kind):
    model = new_model(kind, dtype="mixed_float16")
    passages, y = SENTENCES, truth(kind)
    if kind == "bidaf":
        passages, y = passages[:2], y[:2]  # an answer needs a passage
    losses = model.per_example_loss(y, model(some_inputs(kind, passages)))
    assert np.isfinite(losses).all()


def expected_scores(kind, model, sentences):
    """The expected scores of each sentence, by the reference formulas."""
    weights = reference_weights(model)

    def vectors(sentence):
        found = model.token_vectors(padded([sentence]))
        return [found[name][0].numpy() if name in found else None for name in ("input", "output")]

    if kind not in ("esim", "srl"):
        return [getattr(reference, kind)(*vectors(one), weights) for one in sentences]
    pairs = zip(*some_inputs(kind, sentences), strict=True)
    if kind == "srl":
        return [srl.scores(*vectors(one), predicate, weights) for one, predicate in pairs]
    both = [(vectors(premise), vectors(hypothesis)) for premise, hypothesis in pairs]
    return [reference.esim(a, b, (a_out, b_out), weights) for (a, a_out), (b, b_out) in both]


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        *((kind, {}) for kind in ("tagger", "classifier", "bcn", "esim", "srl")),
        ("bcn", {"batch_norm": True}),
    ],
)
@pytest.mark.parametrize("placement", ["none", "both"])
def test_scores_match_the_reference_formulas(kind, settings, placement, bilm):
    model = with_random_weights(new_model(kind, bilm, placement, **settings))

    scores = np.asarray(model(some_inputs(kind, NOT_EMPTY)))

    for found, wanted in zip(scores, expected_scores(kind, model, NOT_EMPTY), strict=True):
        np.testing.assert_allclose(found[: len(wanted)], wanted, atol=2e-5)


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
        for layer in sublayers(model)
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
