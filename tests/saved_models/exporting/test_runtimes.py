"""Exports for ONNX Runtime, LiteRT and OpenVINO, run there; also by Keras's own export."""

import sys
from importlib.util import find_spec
from pathlib import Path

import keras
import numpy as np
import onnxruntime
import openvino
import pytest
from ai_edge_litert.interpreter import Interpreter

from elmo_tf import BiLM, Elmo, load_bilm
from elmo_tf.checkpoints.named_models import find_named_model
from elmo_tf.layers.scalar_mix import MeanOverTokens
from elmo_tf.portability import is_portable
from elmo_tf.saved_models import export
from reference import manylangs
from reference import scalar_mix as reference
from torch_files import legacy_file

FILES = {"onnx": "model.onnx", "litert": "model.tflite", "openvino": "model.xml"}
formats = pytest.mark.parametrize("format", FILES)
# Keras 3.10 has only ONNX.
formats_of_keras = pytest.mark.parametrize(
    "format", [name for name in FILES if find_spec(f"keras.src.export.{name}")]
)
WORDS = ["the", "cat", "The", "ö", "zzz", "한국어", "x" * 30, "on", "it"]
MIXES = ([0.4, -1.1, 0.9], 1.7), ([2.0, 0.0, -0.5], 0.6)  # of the fixture `elmo_of_two_mixes`


def opened(path):
    """A function that runs a file in its runtime."""
    if path.suffix == ".onnx":
        session = onnxruntime.InferenceSession(path)
        names = [output.name for output in session.get_outputs()]
        return lambda **inputs: dict(zip(names, session.run(None, inputs), strict=True))
    if path.suffix == ".tflite":
        return Interpreter(str(path)).get_signature_runner()
    # By default, OpenVINO computes in bfloat16 on processors that can.
    model = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return lambda **inputs: {out.any_name: value for out, value in model(inputs).items()}


def batches(bilm, words=WORDS, count=100):
    """Batches of ids, with any ids after the tokens of a sentence, and their lengths."""
    rng = np.random.default_rng(0)
    for _ in range(count):
        shape = rng.integers(1, 9), rng.integers(1, 61)
        if bilm.config.char_cnn is None:
            ids = rng.integers(1, bilm.config.num_tokens + 1, shape, np.int32)
        else:
            ids = bilm.char_ids(rng.choice(words, shape)).numpy()
        yield ids, rng.integers(0, shape[1] + 1, shape[0], np.int32)


def assert_equal_layers(run, bilm, mixes, batches):
    """Also the mixes, by their formula, and their means."""
    name = "token_ids" if bilm.config.char_cnn is None else "char_ids"
    for ids, lengths in batches:
        layers = bilm(ids, lengths=lengths)["layers"].numpy()
        outputs = run(**{name: ids, "lengths": lengths})
        # In float32, the layers of `BiLM` itself are not closer to those in float64.
        atol = 1e-5 * max(1, np.abs(layers).max())
        np.testing.assert_allclose(outputs.pop("layers"), layers, rtol=0, atol=atol)
        for suffix, mix in zip(("", "_1"), mixes, strict=False):
            elmo = reference.scalar_mix(layers, *mix)
            default = elmo.sum(axis=1) / np.maximum(lengths, 1)[:, np.newaxis]
            np.testing.assert_allclose(outputs.pop(f"elmo{suffix}"), elmo, atol=atol)
            np.testing.assert_allclose(outputs.pop(f"default{suffix}"), default, atol=atol)
        assert not outputs


@formats
def test_the_layers_and_mixes_of_100_batches(bilm, elmo_of_two_mixes, tmp_path, format):
    path = export(elmo_of_two_mixes, tmp_path, 3, format=format)

    assert path == str(tmp_path / "3")
    assert_equal_layers(opened(Path(path, FILES[format])), bilm, MIXES, batches(bilm))


@formats
def test_a_lexicon_is_stored_beside_the_model(tmp_path, format):
    weights = manylangs.random_weights(manylangs.SHAPE)
    manylangs.write(tmp_path / "source", manylangs.SHAPE, weights, legacy_file)
    bilm = load_bilm(tmp_path / "source")

    path = Path(export(bilm, tmp_path / "exported", format=format))

    assert {"char.dic", "word.dic", "options.json"} < {file.name for file in path.iterdir()}
    run = opened(path / FILES[format])
    assert_equal_layers(run, bilm, [([0.0] * 3, 1.0)], batches(bilm))


@formats
def test_token_ids_of_a_forward_bilm_with_a_warm_start(word_bilm, tmp_path, format):
    config = word_bilm.config.to_options() | {"bidirectional": False}
    bilm = BiLM(type(word_bilm.config).from_options(config), vocabulary=word_bilm.vocabulary)
    bilm.warm_start(["a b a", "b"])

    path = Path(export(Elmo(bilm, top_only=True), tmp_path, format=format))

    assert (path / "vocab.txt").is_file()
    run = opened(path / FILES[format])
    for ids, lengths in batches(bilm, count=9):
        outputs = run(token_ids=ids, lengths=lengths)
        layers = bilm(ids, lengths=lengths)["layers"]
        np.testing.assert_allclose(outputs["layers"], layers, atol=1e-5)
        np.testing.assert_allclose(outputs["elmo"], layers[:, -1], atol=1e-5)


@pytest.mark.more
@pytest.mark.parametrize("name", ["small-en", "small-ko"])
@formats
def test_an_included_model(name, tmp_path, format):
    bilm = load_bilm(name)
    vocabulary = find_named_model(name).folder / "vocab.txt"
    words = vocabulary.read_text(encoding="utf-8").split("\n")[3:-1]

    path = export(bilm, tmp_path, format=format)

    run = opened(Path(path, FILES[format]))
    assert_equal_layers(run, bilm, [([0.0] * 3, 1.0)], batches(bilm, words))


def test_a_file_that_differs_from_the_live_model_is_discarded(bilm, tmp_path):
    class Differs(BiLM):
        def layers_of_vectors(self, vectors, mask, training=False):
            outputs = super().layers_of_vectors(vectors, mask, training)
            return outputs | {"layers": outputs["layers"] + 3e-5 * is_portable()}

    with pytest.raises(RuntimeError, match=r"wrong: the output \w+ of model\.xml differs"):
        export(Differs(bilm.config), tmp_path / "exported", format="openvino")

    assert not list(tmp_path.iterdir())


def test_the_command_replaces_a_saved_model(command, checkpoint_directory, bilm, tmp_path):
    export(bilm, tmp_path, check=False)
    call = "export", checkpoint_directory, tmp_path, "--format", "litert"

    assert command(*call)[0] == 2
    assert command(*call, "--overwrite") == (0, f"{tmp_path / '1'}\n", "")
    assert {file.name for file in (tmp_path / "1").iterdir()} == {"model.tflite", "options.json"}


@formats
def test_a_missing_package_is_named(command, checkpoint_directory, tmp_path, format, monkeypatch):
    package = {"onnx": "tf2onnx", "litert": "ai_edge_litert", "openvino": "openvino"}[format]
    monkeypatch.setitem(sys.modules, package, None)

    status, _, error = command("export", checkpoint_directory, tmp_path / "x", "--format", format)

    assert (status, error.count("\n")) == (1, 1)
    assert f"pip install '.[{format}]'" in error
    assert not list(tmp_path.iterdir())


@formats_of_keras
def test_keras_exports_a_model_over_char_ids(elmo, tmp_path, format):
    char_ids = keras.Input((None, 14), dtype="int32", name="char_ids")
    vectors = elmo(char_ids)
    model = keras.Model(char_ids, keras.layers.Dense(3)(MeanOverTokens()(vectors)))
    path = tmp_path / FILES[format]
    model(np.zeros((1, 1, 14), np.int32))  # Keras requires a call

    model.export(str(path), format=format, verbose=False)

    run = opened(path)
    for ids, _ in batches(elmo.bilm, count=9):
        output = next(iter(run(char_ids=ids).values()))  # OpenVINO returns further tensors
        np.testing.assert_allclose(output, model(ids), atol=1e-5)


@formats_of_keras
def test_keras_cannot_export_a_model_over_strings(elmo, tmp_path, format):
    sentences = keras.Input((), dtype="string")
    model = keras.Model(sentences, elmo(sentences))
    model(np.array(["a b"], object))

    with pytest.raises(ValueError, match=r"have no strings: the inputs must be char ids, keras"):
        model.export(str(tmp_path / FILES[format]), format=format, verbose=False)
