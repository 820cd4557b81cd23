import numpy as np
import tensorflow as tf

from elmo_tf import Vocabulary, load_bilm
from elmo_tf.text.windows import LMWindows
from reference import bilm as reference
from reference import checkpoint
from reference import softmax as reference_softmax

# With tokens that look like boundaries, and an unknown one.
SENTENCE = ["the", "cat", "<S>", "sat", "the", "</S>", "한국어"]
VOCABULARY = Vocabulary.build(["the the cat cat sat on"])


def window_of(sentence, rows=1):
    """One window with a whole sentence in each row."""
    lines = tf.data.Dataset.from_tensors(" ".join(sentence)).repeat(rows)
    return next(LMWindows(lines, rows, len(sentence) + 1))


def test_the_probability_of_a_sentence_equals_the_formula(new_language_model, options, tmp_path):
    ids = [0, *VOCABULARY.ids(SENTENCE), 1]
    options = {"lstm": options["lstm"], "n_tokens_vocab": len(VOCABULARY)}
    weights = checkpoint.random_weights(options)
    table = np.random.default_rng(1).normal(size=(len(VOCABULARY), 6)).astype(np.float32)
    checkpoint.write(tmp_path, options, {**weights, "embedding": table})
    VOCABULARY.save(tmp_path / "vocab.txt")
    layers, _ = reference.layers_of_vectors(table[ids], options, weights)
    model, window = new_language_model(load_bilm(tmp_path)), window_of(SENTENCE, rows=2)

    outputs, _ = model.top_layer_outputs(window["inputs"], model.bilm.zero_states(2))
    targets = model.targets(window["targets"])

    # Forward reads <S> w1 … wn, backward </S> wn … w1; the formula has all n + 2 in text order.
    expected = (layers[-1, :-1, :6], ids[1:]), (layers[-1, :0:-1, 6:], ids[-2::-1])
    kernel, bias = model.softmax.kernel.numpy(), model.softmax.bias.numpy()
    for top, found_ids, (wanted, wanted_ids) in zip(outputs, targets, expected, strict=True):
        np.testing.assert_allclose(top[1], wanted, atol=2e-6)
        assert found_ids.numpy().tolist() == [*wanted_ids, *wanted_ids]
        losses = reference_softmax.full_loss(wanted, wanted_ids, kernel, bias)
        found = model.softmax.full_loss(top[1], wanted_ids)
        np.testing.assert_allclose(found, losses, rtol=1e-5, atol=1e-5)


def test_dropout_acts_on_every_input_and_on_the_last_output(language_model, options, weights):
    calls = []

    def dropout_fn(tensor):
        calls.append(tensor.shape)
        return 0.5 * tensor

    inputs, states = window_of(SENTENCE)["inputs"], language_model.bilm.zero_states(1)
    dropped, _ = language_model.top_layer_outputs(inputs, states, dropout_fn)

    assert calls == [(1, 8, 6)] * 6
    halved = dict(weights)
    for name, array in weights.items():
        if name.startswith("CNN_proj"):
            halved[name] = 0.5 * array
        elif "Cell1" in name and name.endswith("W_0"):
            halved[name] = np.concatenate([0.5 * array[:6], array[6:]])
    layers, _ = reference.layers(SENTENCE, options, halved)
    top = layers[-1] - 0.5 * layers[-2]  # the skip connection adds the input after dropout
    for found, expected in zip(dropped, (top[:-1, :6], top[:0:-1, 6:]), strict=True):
        np.testing.assert_allclose(found[0], 0.5 * expected, atol=2e-6)
