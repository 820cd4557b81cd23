"""Small task models of every kind; all their widths differ."""

import inspect

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf import Elmo
from elmo_tf.tasks import (
    BCN,
    ESIM,
    BiDAF,
    BiLSTMClassifier,
    CharacterEmbedding,
    CoreferenceModel,
    CRFTagger,
    SRLTagger,
    WordEmbedding,
)

WORDS = ("the", "cat", "sat", "on", "mat", "ein", "Zürich")
SENTENCES = ["the cat sat on the mat", "ein", "", "Zürich cat 서울"]
WITH_TOKENS = [0, 1, 3]  # indices of the sentences with tokens
NOT_EMPTY = [SENTENCES[index] for index in WITH_TOKENS]
# For each kind of model: its class and the settings of a small model.
KINDS = {
    "tagger": (CRFTagger, {"labels": ["O", "B-X", "I-X"], "units": (5, 4), "scheme": "BIO"}),
    "classifier": (BiLSTMClassifier, {"labels": ["bad", "good"], "units": 6}),
    "bcn": (BCN, {"labels": ["bad", "good"], "units": 6}),
    "esim": (ESIM, {"labels": ["no", "maybe", "yes"], "units": 6}),
    "bidaf": (BiDAF, {"units": 5, "dropout": 0.0, "max_answer": 3}),
    "srl": (
        SRLTagger,
        {
            "labels": ["O", "B-A0", "I-A0", "B-V", "I-V"],
            "units": 5,
            "num_layers": 3,
            "predicate_dim": 6,
        },
    ),
    # An input is the sentences of one document.
    "coref": (
        CoreferenceModel,
        {
            "units": 5,
            "hidden_units": 6,
            "feature_dim": 3,
            "max_width": 4,
            "span_ratio": 0.8,
            "max_antecedents": 7,
            "genres": ["news", "web"],
        },
    ),
}
every_model = pytest.mark.parametrize("kind", KINDS)
# All but those of documents, which have no output per sentence.
every_kind = pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "coref"])


def embeddings():
    return [WordEmbedding(WORDS, 7), CharacterEmbedding(((2, 3), (3, 8)), embedding_dim=4)]


def new_model(kind, bilm=None, placement="input", **kwargs):
    """A model of a kind, with ELMo if there is a biLM; its mixing weights are unequal."""
    model_class, settings = KINDS[kind]
    elmo = None
    if bilm is not None:
        elmo = Elmo(bilm, num_mixes=2 if placement == "both" else 1, dropout=0.0)
    model = model_class(
        embeddings=embeddings(), elmo=elmo, placement=placement, **{**settings, **kwargs}
    )
    for index, mix in enumerate(model.elmo.mixes if model.elmo else ()):
        mix.layer_weights.assign(np.array([0.4, -0.8, 0.9]) + index)
        mix.scaling.assign(1.3 + index)
    return model


def with_random_weights(model, scale=0.5, seed=3):
    """Sets all task weights, including biases, to random values; variances are positive."""
    rng = np.random.default_rng(seed)
    of_elmo = {id(weight) for weight in (model.elmo.weights if model.elmo else ())}
    for weight in model.weights:
        if id(weight) not in of_elmo and "seed_generator" not in weight.path:
            drawn = rng.normal(scale=scale, size=weight.shape)
            weight.assign(np.abs(drawn) if weight.path.endswith("variance") else drawn)
    return model


def predicate_tagger(bilm, seed=0):
    """A tagger with random weights that finds some tokens of `SENTENCES` to be predicates."""
    tagger, tags = new_model("tagger", bilm, labels=["O", "V"], scheme=None), set()
    while len(tags) < 2:
        tags = set().union(*with_random_weights(tagger, 1.0, seed).tag(SENTENCES))
        seed += 100
    return tagger


def reference_weights(model):
    """The weights in float64, under the names that `reference` uses."""
    return {
        weight.path.partition("/")[2]: weight.numpy().astype(np.float64) for weight in model.weights
    }


def some_inputs(kind, sentences):
    """Inputs for a kind of model; a pair is a sentence and the preceding sentence."""
    if kind in ("esim", "bidaf"):
        return sentences, [sentences[index - 1] for index in range(len(sentences))]
    if kind == "srl":
        return sentences, [len(sentence.split()) // 2 for sentence in sentences]
    return sentences


def no_dropout(kind):
    """The dropout rates of a kind of model, all zero."""
    names = inspect.signature(KINDS[kind][0]).parameters
    return {name: 0.0 for name in names if name.endswith("dropout")}


def label_lists(model, rows=slice(None)):
    """The targets of `SENTENCES` as lists of labels."""
    y = truth(next(kind for kind, (each, _) in KINDS.items() if isinstance(model, each)))[rows]
    if not model.labels:
        return y.tolist()
    if y.ndim == 1:
        return [model.labels[index] for index in y]
    return [[model.labels[index] for index in row if index >= 0] for row in y]


def real_outputs(kind, outputs, sentences):
    """The outputs of each sentence, without padding."""
    rows = list(np.asarray(outputs))
    if kind in ("tagger", "srl", "bidaf"):
        axis = 1 if kind == "bidaf" else 0
        lengths = [len(sentence.split()) for sentence in sentences]
        return [row.take(range(n), axis) for row, n in zip(rows, lengths, strict=True)]
    return rows


def padded(sentences):
    return tf.ragged.constant([sentence.split() for sentence in sentences]).to_tensor("")


def truth(kind):
    """Targets of `SENTENCES`."""
    if kind in ("tagger", "srl"):
        return np.array([[0, 1, 2, 2, 0, 1], [1] + [-1] * 5, [-1] * 6, [0, 0, 1] + [-1] * 3])
    if kind == "bidaf":
        return np.array([[1, 3], [0, 0], [0, 0], [2, 2]])
    return np.array([0, 1, 1, 0])
