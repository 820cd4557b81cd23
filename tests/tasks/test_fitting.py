"""`fit` and `evaluate` of task models: lists of texts and labels."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from sklearn.utils.class_weight import compute_sample_weight

from task_models import (
    NOT_EMPTY,
    SENTENCES,
    WITH_TOKENS,
    every_kind,
    label_lists,
    new_model,
    no_dropout,
    real_outputs,
    some_inputs,
    truth,
    with_random_weights,
)


@every_kind
def test_lists_of_texts_and_labels_can_be_trained_on_and_evaluated(kind):
    model = new_model(kind, **no_dropout(kind))
    model.compile(keras.optimizers.SGD(0.0), run_eagerly=True)
    x, y = some_inputs(kind, NOT_EMPTY), label_lists(model, WITH_TOKENS)
    losses = model.per_example_loss(truth(kind)[WITH_TOKENS], model(x)).numpy()
    weights = [1.0, 0.0, 2.0]

    plain = model.fit(x, y, batch_size=2, validation_data=(x, y, weights), verbose=0).history
    weighted = model.fit(x, y, sample_weight=np.reshape(weights, (3, 1)), verbose=0).history

    np.testing.assert_allclose(plain["loss"], [losses.mean()], rtol=1e-5)
    for found in (plain["val_loss"], weighted["loss"]):
        np.testing.assert_allclose(found, [np.mean(losses * weights)], rtol=1e-5)
    assert model.predict(x, batch_size=2, verbose=0).shape[0] == len(NOT_EMPTY)


@pytest.mark.parametrize("kind", ["tagger", "srl", "bidaf"])
def test_accuracy_is_that_of_the_decoded_predictions(kind, monkeypatch):
    monkeypatch.setattr("elmo_tf.tasks.text_model._ROWS", 2)
    model = with_random_weights(new_model(kind), 1.0)
    model.compile("sgd", metrics=["accuracy"], run_eagerly=True)
    x, y = some_inputs(kind, NOT_EMPTY), label_lists(model, WITH_TOKENS)
    predicted = model.predict_lists(x)

    _, accuracy = model.evaluate(x, y, batch_size=2, verbose=0)

    right = [a == b for pair in zip(y, predicted, strict=True) for a, b in zip(*pair, strict=True)]
    np.testing.assert_allclose(accuracy, np.mean(right), rtol=1e-6)
    argmax = [row.argmax(-1) for row in real_outputs(kind, model(x), NOT_EMPTY)]
    decoded = [*map(model.label_ids if model.labels else list, predicted)]
    assert (np.concatenate(argmax) != np.concatenate(decoded)).any()
    assert model.evaluate(x, predicted, verbose=0)[1] == 1


@pytest.mark.parametrize("kind", ["tagger", "srl"])
def test_tags_that_the_scheme_forbids_are_refused(kind):
    model = new_model(kind)
    model.compile("sgd")
    x, y = some_inputs(kind, ["the cat", "ein"]), [["O", model.labels[2]], ["O"]]
    for function in (model.fit, model.evaluate):
        with pytest.raises(ValueError, match=rf"sequences that BIO allows.*'O {model.labels[2]}'"):
            function(x, y, verbose=0)


def test_sentences_and_padded_tokens_may_follow_each_other():
    model, sentences = new_model("classifier"), tf.constant(SENTENCES)
    expected = model(sentences)
    for texts in (sentences, tf.strings.split(sentences).to_tensor(), sentences):
        np.testing.assert_allclose(model.predict(texts, verbose=0), expected, atol=1e-6)


def test_lists_are_trained_on_as_users_of_keras_expect():
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    model = new_model("classifier", dropout=0.0)
    model.compile(keras.optimizers.SGD(0.0), run_eagerly=True)
    y = ["bad", "good", "good", "good"]
    losses = model.per_example_loss(y, model(SENTENCES)).numpy()
    frame = pandas.DataFrame({"text": SENTENCES, "label": y})
    table = pyarrow.table(frame)
    for texts, labels in (
        (np.array(SENTENCES), np.array(y)),
        (frame["text"], frame["label"]),
        (table["text"], table["label"]),
        ([sentence.split() for sentence in SENTENCES], [[0], [1], [1], [1]]),
        (tf.constant(SENTENCES), tf.constant(y)),
    ):
        found = model.evaluate(texts, labels, verbose=0)
        np.testing.assert_allclose(found, losses.mean(), rtol=1e-5)

    split = model.fit(SENTENCES, y, validation_split=0.25, verbose=0).history
    by_label = model.fit(SENTENCES, y, class_weight={"bad": 0.5}, verbose=0).history
    balanced = model.fit(SENTENCES, y, class_weight="balanced", verbose=0).history
    batches = tf.data.Dataset.from_tensor_slices((SENTENCES, y)).batch(4)
    of_dataset = model.fit(batches, class_weight={"bad": 0.5}, verbose=0).history

    np.testing.assert_allclose(split["loss"], [losses[:3].mean()], rtol=1e-5)
    np.testing.assert_allclose(split["val_loss"], [losses[3]], rtol=1e-5)
    for found in (by_label, of_dataset):
        np.testing.assert_allclose(found["loss"], [np.mean(losses * [0.5, 1, 1, 1])], rtol=1e-5)
    weights = compute_sample_weight("balanced", y)
    np.testing.assert_allclose(balanced["loss"], [np.mean(losses * weights)], rtol=1e-5)
    with pytest.raises(ValueError, match="must be a dict of labels, or with arrays 'balanced'"):
        model.fit(SENTENCES, y, class_weight="equal", verbose=0)
    with pytest.raises(TypeError, match=r"not a table. Pass one column"):
        model.fit(frame, y, verbose=0)
    with pytest.raises(ValueError, match="must be labels, or indices 0 to 1"):
        model.fit(SENTENCES, [0.9, 0.0, 1.0, 1.0], verbose=0)
    with pytest.raises(ValueError, match="has no label 'fair'"):
        model.fit(SENTENCES, y, class_weight={"fair": 2}, verbose=0)
    model = new_model("tagger")
    model.compile("sgd")
    with pytest.raises(ValueError, match="`class_weight` needs a model with one label per example"):
        model.fit(SENTENCES, label_lists(model), class_weight={0: 0.5, 1: 1, 2: 1})
