"""Arguments and inputs that task models and their layers refuse."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from elmo_tf import Elmo
from elmo_tf.tasks import BiLSTMClassifier
from task_models import KINDS, SENTENCES, embeddings, new_model, padded, some_inputs, truth

WRONG = [
    ("tagger", {"dropout": 1.5}, "argument `rate`.* between 0 and 1"),
    ("classifier", {"labels": ["a", "b", "a"]}, "`labels` has duplicates: a, b, a"),
    ("classifier", {"labels": ["caf\udce9"]}, r"A label is not valid UTF-8: 'caf\\udce9'"),
    ("classifier", {"placement": "both"}, "placement 'both' needs an `elmo`. Received: None"),
    ("classifier", {"placement": "top"}, "`placement` must be one of input, output, both, none"),
    ("tagger", {"labels": ["O", "X-PER"]}, "'X-PER' is not a tag of BIO"),
    ("tagger", {"output_scheme": "BIOES"}, "Tags of BIO cannot become those of 'BIOES'"),
    ("srl", {"labels": ["O", "A0"]}, "'A0' is not a tag of BIO"),
    ("coref", {"placement": "output"}, "`placement` must be input or none"),
    ("coref", {"span_ratio": 0.0}, r"`span_ratio` must be a number above 0. Received: 0\.0"),
    ("coref", {"mention_loss": -1}, "`mention_loss` must be a number >= 0. Received: -1"),
    ("coref", {"genres": "news"}, "`genres` must be a list of names. Received: 'news'"),
]


@pytest.mark.parametrize(("kind", "wrong", "message"), WRONG)
def test_invalid_arguments_of_models_are_refused(kind, wrong, message):
    model_class, settings = KINDS[kind]
    with pytest.raises(ValueError, match=message):
        model_class(embeddings=embeddings(), **{**settings, **wrong})


def test_a_model_has_an_input_with_the_right_number_of_mixes(bilm):
    with pytest.raises(TypeError, match="`labels` must be a list of strings"):
        new_model("classifier", labels="ab")
    with pytest.raises(TypeError, match=r"`labels` must be strings\. Received: 0"):
        new_model("classifier", labels=[0, 1])
    with pytest.raises(TypeError, match=r"must be an Elmo, such as Elmo\.from_pretrained"):
        BiLSTMClassifier(["a"], elmo="small-en")
    with pytest.raises(ValueError, match="The model has no input: pass `embeddings`"):
        BiLSTMClassifier(["a"], elmo=Elmo(bilm), placement="output")
    with pytest.raises(ValueError, match=r"num_mixes=1 for placement 'input'. Received: 2"):
        BiLSTMClassifier(["a"], elmo=Elmo(bilm, num_mixes=2))


TWO = ["the cat", "ein"]
INPUTS = [
    ("classifier", np.ones((2, 3), np.int32), r"must be strings: .*: int32 of shape \(2, 3\)"),
    ("classifier", keras.Input((), dtype="string"), r"symbolic .* be tokens, .* shape \(None,\)"),
    ("classifier", {"words": ["a"]}, r"must have the keys tokens, .* Received: words"),
    ("esim", ["a", "b", "c"], "must be 2 batches: premise, hypothesis"),
    ("esim", (TWO, ["d"]), r"must have the same batch size. Received: 2 and 1"),
    *(("srl", (TWO, [1, i]), rf"and lengths: \[ ?1 +{i}\], \[2 1\]") for i in (-1, 1, 4)),
    ("srl", (TWO, [0]), r"one predicate for each sentence.*: 1, 2"),
    ("srl", (TWO[:1], [[0]]), r"predicate must be int32 of shape \(None,\)"),
    ("coref", {"tokens": TWO, "speakers": [["A"]]}, r"Shapes \(1, 2\) and \(2, 2\) are incompat"),
    ("coref", {"tokens": TWO, "genre": TWO}, r"The input genre must be string of shape \(1,\)"),
]


@pytest.mark.parametrize(("kind", "inputs", "message"), INPUTS)
def test_invalid_inputs_are_refused(kind, inputs, message):
    with pytest.raises((TypeError, ValueError), match=message):
        new_model(kind)(inputs)


def test_layers_of_another_bilm_are_refused(bilm):
    tokens, layers = padded(SENTENCES), bilm(SENTENCES)["layers"]

    with pytest.raises(ValueError, match=r"must have shape \(batch, 3, token, .* \(4, 2, 6, "):
        new_model("tagger", bilm)({"tokens": tokens, "layers": layers[:, :2]})
    with pytest.raises(ValueError, match="must have the keys tokens, and with an `elmo`"):
        new_model("tagger")({"tokens": tokens, "layers": layers})


def test_invalid_targets_are_refused():
    tagger, classifier = new_model("tagger"), new_model("classifier")
    outputs = tagger(SENTENCES)

    with pytest.raises(ValueError, match=r"no label 'B-Y'. Labels: O, B-X, I-X"):
        tagger.label_ids(["O", "B-Y"])
    with pytest.raises(ValueError, match=r"tags after the last token.*: 6, \[\[0"):
        tagger.per_example_loss(np.zeros((4, 7)), outputs)
    with pytest.raises(ValueError, match=r"indices -1 to 2, of O, B-X, I-X. Received: \[3\]"):
        tagger.per_example_loss(np.full((4, 6), 3), outputs)
    with pytest.raises(ValueError, match=r"must be a label for each token.* shape \(4,\)"):
        tagger.per_example_loss(["O"] * 4, outputs)
    with pytest.raises(ValueError, match=r"must be labels, .* of bad, good. .*: \[b'fair'\]"):
        classifier.per_example_loss(["good", "fair"], outputs)
    with pytest.raises(ValueError, match=r"labels or their indices, \(batch,\)\. .*: \(4, 2\)"):
        classifier.per_example_loss(np.ones((4, 2)), outputs)
    with pytest.raises(ValueError, match=r"one weight per example. Weights and examples: 8, 4"):
        classifier.compute_loss(None, [0, 1, 1, 0], classifier(SENTENCES), np.ones((4, 2)))
    shorter, longer, with_hole = truth("tagger"), truth("tagger"), truth("tagger")
    shorter[0, -1], longer[1, 1], with_hole[0, 4] = -1, 0, -1
    for y, counts in ((shorter, "5 1 0 3"), (longer, "6 2 0 3"), (with_hole, "5 1 0 3")):
        message = rf"-1 for padding only.*: \[6 1 0 3\], \[{counts}\]"
        with pytest.raises(ValueError, match=message):
            tagger.per_example_loss(y, outputs, SENTENCES)
    srl, inputs = new_model("srl"), some_inputs("srl", SENTENCES)
    with pytest.raises(ValueError, match=r"-1 for padding only.*: \[6 1 0 3\], \[6 6 6 6\]"):
        srl.per_example_loss(np.maximum(truth("srl"), 0), srl(inputs), inputs)
    with pytest.raises(tf.errors.InvalidArgumentError, match="-1 for padding only"):
        tf.function(tagger.per_example_loss)(shorter, outputs, padded(SENTENCES))
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be the index of a token of its"):
        srl.tag((TWO, [1, 1]))  # in a graph
    classifier.compile("sgd")
    with pytest.raises(ValueError, match=r"indices 0 to 1, of bad, good. Received: \[2\]"):
        classifier.fit(SENTENCES, [1, 2, 1, 2])
