"""Small task models of every kind, with all widths different."""

import numpy as np
import tensorflow as tf

from elmo_tf import Elmo
from elmo_tf.tasks import BCN, ESIM, BiLSTMClassifier, CharacterEmbedding, CRFTagger, WordEmbedding

WORDS = ("the", "cat", "sat", "on", "mat", "ein", "Zürich")
# Of each kind of model: its class, and what makes it small.
KINDS = {
    "tagger": (CRFTagger, {"labels": ["O", "B-X", "I-X"], "units": (5, 4), "scheme": "BIO"}),
    "classifier": (BiLSTMClassifier, {"labels": ["bad", "good"], "units": 6}),
    "bcn": (BCN, {"labels": ["bad", "good"], "units": 6}),
    "esim": (ESIM, {"labels": ["no", "maybe", "yes"], "units": 6}),
}


def embeddings():
    return [WordEmbedding(WORDS, 7), CharacterEmbedding(((2, 3), (3, 8)), embedding_dim=4)]


def new_model(kind, bilm=None, placement="input", **kwargs):
    """A model of a kind, with ELMo if there is a biLM; its mixes are no averages."""
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


def some_inputs(kind, sentences):
    """What a model of a kind takes: of a pair, each sentence with the one before it."""
    if kind != "esim":
        return sentences
    return sentences, [sentences[index - 1] for index in range(len(sentences))]


def real_outputs(kind, outputs, sentences):
    """The outputs of each sentence, without those of padding."""
    if kind != "tagger":
        return list(np.asarray(outputs))
    lengths = [len(sentence.split()) for sentence in sentences]
    return [row[:length] for row, length in zip(np.asarray(outputs), lengths, strict=True)]


def padded(sentences):
    return tf.ragged.constant([sentence.split() for sentence in sentences]).to_tensor("")
