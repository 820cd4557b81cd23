import json
import os
import shutil

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file

from elmo_tf import BiLM, BiLMConfig, CharCNNConfig, LSTMConfig, Vocabulary, load_bilm, save_bilm
from elmo_tf.checkpoints.load import load_language_model
from elmo_tf.checkpoints.published import save_language_model
from elmo_tf.models.copies import copied_bilm, model_digest
from elmo_tf.models.language_model import LanguageModel
from elmo_tf.saved_models.exporting.signatures import Exported
from nested_arrays import assert_close
from reference import checkpoint

SENTENCES = ["the cat sat", "", "한국어 abcdefghijklmnop"]
SHAPES = {
    "as published": {},
    "tanh, no highway": {"activation": "tanh", "n_highway": 0},
    "one highway, one layer": {"n_highway": 1, "n_layers": 1},
    "no projection of the characters": {"filters": ((1, 2), (3, 4))},
    "no projection of the state": {"dim": 8, "projection_dim": 8},
    "no clips": {"cell_clip": None, "proj_clip": None, "use_skip_connections": False},
}


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    ("format", "read"), [("hdf5", checkpoint.read_hdf5), ("safetensors", load_file)]
)
def test_both_formats_hold_the_rounded_arrays_and_load_as_float32(
    tmp_path, bilm, options, weights, format, read, dtype
):
    save_bilm(bilm, tmp_path, format, dtype)
    copy = tmp_path / "new" / "copy"
    save_bilm(load_bilm(tmp_path), copy)

    assert sorted(os.listdir(copy)) == ["options.json", "weights.hdf5"]
    assert json.loads((copy / "options.json").read_text()) == options
    found = read(tmp_path / f"weights.{format}")
    again = checkpoint.read_hdf5(copy / "weights.hdf5")
    assert found.keys() == again.keys() == weights.keys()
    for name, array in weights.items():
        assert (found[name].dtype, again[name].dtype) == (dtype, "float32")
        np.testing.assert_array_equal(found[name], array.astype(dtype))
        np.testing.assert_array_equal(again[name], found[name])


def test_the_newest_weights_are_loaded_if_both_formats_exist(bilm, tmp_path):
    """An interrupted save leaves files of both formats."""
    for time, format in enumerate(("hdf5", "safetensors", "hdf5")):
        other = BiLM(bilm.config)
        save_bilm(other, tmp_path / format, format=format)
        name = f"weights.{format}"
        os.replace(tmp_path / format / name, tmp_path / name)
        os.utime(tmp_path / name, (time, time))
        shutil.copy(tmp_path / format / "options.json", tmp_path)
        assert model_digest(load_bilm(tmp_path)) == model_digest(other)


@pytest.mark.parametrize("other", ["elmo_options.json", "model.hdf5", "encoder.pkl", "a.index"])
def test_a_directory_of_another_checkpoint_is_refused(bilm, tmp_path, other):
    """The other one would be loaded, or none of the two."""
    (tmp_path / other).touch()
    with pytest.raises(FileExistsError, match=f"another checkpoint.*: {other}"):
        save_bilm(bilm, tmp_path)
    assert os.listdir(tmp_path) == [other]


def test_unknown_formats_and_values_beyond_the_range_are_refused(tmp_path, fresh_bilm):
    bilm = fresh_bilm()
    projection = bilm.token_encoder.projection
    projection.bias.assign(np.full(projection.bias.shape, 70_000.0))

    for arguments, message in (
        ({"dtype": "float16"}, r"`token_encoder/.*bias` has values beyond ±65504"),
        ({"dtype": "int8"}, r"`dtype` must be one of .*float16.* Received: 'int8'"),
        ({"format": "pickle"}, "`format` must be one of hdf5, safetensors"),
    ):
        with pytest.raises(ValueError, match=message):
            save_bilm(bilm, tmp_path, **arguments)
    save_bilm(bilm, tmp_path)


@pytest.mark.parametrize("change", ["quantize", "enable_lora"])
def test_quantized_and_adapted_weights_are_refused(tmp_path, fresh_bilm, change):
    bilm = fresh_bilm()
    getattr(bilm.token_encoder.projection, change)("int8" if change == "quantize" else 2)

    for use in (lambda: save_bilm(bilm, tmp_path), lambda: copied_bilm(bilm, "bfloat16")):
        with pytest.raises(ValueError, match=r"quantized or LoRA weights .* cannot be saved"):
            use()
    with pytest.raises(ValueError, match="or exported"):
        Exported(bilm)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_a_saved_bilm_loads_with_the_same_config_and_outputs(tmp_path, shape):
    options = checkpoint.options(**shape)
    bilm = BiLM(BiLMConfig.from_options(options))
    bilm.trainable = False  # frozen weights are saved too
    save_bilm(bilm, tmp_path)

    loaded = load_bilm(tmp_path)

    assert loaded.config == bilm.config
    np.testing.assert_array_equal(loaded(SENTENCES)["layers"], bilm(SENTENCES)["layers"])
    found = {name: a.shape for name, a in checkpoint.read_hdf5(tmp_path / "weights.hdf5").items()}
    assert found == checkpoint.shapes(options)


def test_token_embeddings_in_a_file_replace_the_char_cnn(tmp_path, checkpoint_directory, bilm):
    vocabulary = Vocabulary.build(["the cat sat on 한국어", "unseen"])
    vocabulary.save(tmp_path / "words.txt")
    rows = bilm.boundary_embeddings(), bilm.token_embeddings(list(vocabulary.tokens[2:]))
    checkpoint.write_hdf5(tmp_path / "table.hdf5", {"embedding": np.concatenate(rows)})

    files = {"token_embeddings": tmp_path / "table.hdf5", "vocabulary": tmp_path / "words.txt"}
    loaded = load_bilm(checkpoint_directory, **files)

    sentences = ["the cat sat", "", "on 한국어"]
    np.testing.assert_allclose(loaded(sentences)["layers"], bilm(sentences)["layers"], atol=1e-6)
    assert loaded.config.char_cnn is None


WORDS = Vocabulary.build(["the cat sat"])
CHAR_CNN = CharCNNConfig(((1, 2), (2, 3)), embedding_dim=5, num_highway=1, max_chars=14)
LSTM = LSTMConfig(dim=7, projection_dim=4)
LANGUAGE_MODELS = {
    "characters": BiLMConfig(CHAR_CNN, LSTM),
    "characters, forward alone": BiLMConfig(CHAR_CNN, LSTM, bidirectional=False),
    "words": BiLMConfig(None, LSTM, 6),
    "words, tied": BiLMConfig(None, LSTM, 6, tie_softmax=True),
    "words, tied, forward alone": BiLMConfig(None, LSTM, 6, bidirectional=False, tie_softmax=True),
}


def assert_same_weights(model, other):
    assert_close(*([weight.numpy() for weight in each.weights] for each in (model, other)))


@pytest.mark.parametrize("config", LANGUAGE_MODELS.values(), ids=LANGUAGE_MODELS.keys())
def test_a_saved_language_model_loads_unchanged(tmp_path, config):
    model = LanguageModel.create(config, WORDS, 3)
    model.softmax.bias.assign(tf.range(6.0))

    save_language_model(model, tmp_path)
    loaded = load_language_model(tmp_path)

    files = {"options.json", "weights.hdf5", "vocab.txt", "softmax.hdf5"}
    if config.char_cnn is None:
        files.add("token_embeddings.hdf5")
    assert set(os.listdir(tmp_path)) == files
    assert loaded.bilm.config == config
    assert loaded.vocabulary == WORDS
    np.testing.assert_array_equal(loaded.bilm(SENTENCES)["layers"], model.bilm(SENTENCES)["layers"])
    assert_same_weights(loaded, model)
    written = checkpoint.read_hdf5(tmp_path / "softmax.hdf5")
    np.testing.assert_array_equal(written["W"], model.softmax.kernel)
    np.testing.assert_array_equal(written["b"], model.softmax.bias)

    save_language_model(model, tmp_path, format="safetensors")
    files = {name.replace(".hdf5", ".safetensors") for name in files}
    assert set(os.listdir(tmp_path)) == files
    assert_same_weights(load_language_model(tmp_path), model)
