"""A small model with the signatures of an exported one, and a server that serves it."""

import json
import shutil

import pytest
import tensorflow as tf

from elmo_tf import Elmo
from elmo_tf.saved_models import export, serve
from elmo_tf.saved_models.server.batching import Limits
from elmo_tf.saved_models.server.model import LoadedVersion
from elmo_tf.text.inputs import with_a_token

PROJECTION_DIM = 3
STRINGS = [tf.TensorSpec([None], tf.string, "strings")]
TOKENS = [
    tf.TensorSpec([None, None], tf.string, "tokens"),
    tf.TensorSpec([None], tf.int32, "sequence_len"),
]


class Lengths(tf.Module):
    """Its vectors are the lengths of the tokens in bytes, times 1, 2, 3, … and times `scale`."""

    def __init__(self, scale):
        self.scale = tf.Variable(scale, name="scale")

    def vectors(self, tokens, sequence_len):
        tokens = with_a_token(tokens)
        mask = tf.sequence_mask(sequence_len, tf.shape(tokens)[1])
        lengths = tf.where(mask, tf.cast(tf.strings.length(tokens), tf.float32), 0.0)[..., None]
        elmo = self.scale * lengths * tf.range(1.0, 2 * PROJECTION_DIM + 1)  # (B, T, 2P)
        counts = tf.cast(tf.maximum(sequence_len, 1), tf.float32)[:, None]
        return {
            "word_emb": lengths * tf.range(1.0, PROJECTION_DIM + 1),
            "elmo": elmo,
            "default": tf.reduce_sum(elmo, axis=1) / counts,
            "sequence_len": sequence_len,
        }

    @tf.function(input_signature=STRINGS)
    def of_sentences(self, strings):
        tokens = tf.strings.split(strings)
        return self.vectors(tokens.to_tensor(""), tf.cast(tokens.row_lengths(), tf.int32))

    @tf.function(input_signature=TOKENS)
    def of_tokens(self, tokens, sequence_len):
        tf.debugging.assert_less_equal(
            sequence_len, tf.shape(tokens)[1], "sequence_len is longer than the sentence"
        )
        return self.vectors(tokens, sequence_len)

    @tf.function(input_signature=STRINGS)
    def split(self, strings):
        tokens = tf.strings.split(strings)
        return {"tokens": with_a_token(tokens.to_tensor("")), "sequence_len": tokens.row_lengths()}


def save(directory, version, scale):
    """Writes a model with this `scale` to `directory/<version>`."""
    model = Lengths(scale)
    signatures = {"serving_default": model.of_sentences, "tokens": model.of_tokens}
    signatures["split"] = model.split
    tf.saved_model.save(model, str(directory / str(version)), signatures)


@pytest.fixture(scope="session")
def model_directory(tmp_path_factory):
    """Versions 1 (scale 10) and 2 (scale 100)."""
    directory = tmp_path_factory.mktemp("model")
    save(directory, 1, 10.0)
    save(directory, 2, 100.0)
    return directory


@pytest.fixture(scope="session")
def server(model_directory):
    with serve(model_directory, port=0, rest_port=0) as server:
        yield server


@pytest.fixture(scope="session")
def version(model_directory):
    version = LoadedVersion(2, model_directory / "2", Limits())
    yield version
    version.close()


@pytest.fixture(scope="session")
def exported_bilm(tmp_path_factory, bilm):
    """The path of version 1 of a biLM without an Elmo."""
    return export(bilm, tmp_path_factory.mktemp("exported_bilm"), check=False)


@pytest.fixture(scope="session")
def naming_tokenizer(tmp_path_factory, exported_bilm):
    """A function that returns a folder with that biLM, which names a tokenizer."""

    def copied(code):
        folder = tmp_path_factory.mktemp("naming")
        options = shutil.copytree(exported_bilm, folder / "1") / "assets/options.json"
        options.write_text(json.dumps({**json.loads(options.read_text()), "tokenizer": code}))
        return folder

    return copied


@pytest.fixture(scope="session")
def exported_elmo(tmp_path_factory, elmo):
    """The path of version 3 of `elmo`."""
    return export(elmo, tmp_path_factory.mktemp("exported_elmo"), version=3)


@pytest.fixture(scope="session")
def elmo_of_two_mixes(bilm):
    """Tests must not change it."""
    elmo = Elmo(bilm, num_mixes=2, l2=0.3)
    mixes = ([0.4, -1.1, 0.9], 1.7), ([2.0, 0.0, -0.5], 0.6)
    for mix, (weights, scaling) in zip(elmo.mixes, mixes, strict=True):
        mix.layer_weights.assign(weights)
        mix.scaling.assign(scaling)
    return elmo
