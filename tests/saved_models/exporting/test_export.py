"""Exported models on disk, loaded by Python, in a session and by Keras."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from exported_models import asked_in_a_session, asked_in_python

from elmo_tf import Elmo, char_ids, load_bilm
from elmo_tf.saved_models import export
from elmo_tf.saved_models.exporting import export as exporting
from elmo_tf.saved_models.exporting.signatures import Exported
from elmo_tf.saved_models.exporting.verify import verify
from reference import scalar_mix as reference

SENTENCES = [
    "the cat sat on it",
    "",
    "x" * 60,
    "한국어 \N{GRINNING FACE} \N{THUMBS UP SIGN}\N{EMOJI MODIFIER FITZPATRICK TYPE-4}",
    b"\xff\xfe a\xc3",
]
ROWS = [sentence.split() for sentence in SENTENCES]
LENGTHS = np.array([len(row) for row in ROWS], np.int32)
TOKENS = tf.ragged.constant(ROWS, dtype=tf.string).to_tensor("")
MIX = [0.4, -1.1, 0.9], 1.7  # that of the fixture `elmo`
INPUTS = {
    "default": {"strings": np.array(SENTENCES, object)},
    "serving_default": {"strings": np.array(SENTENCES, object)},
    "tokens": {"tokens": TOKENS.numpy(), "sequence_len": LENGTHS},
    "char_ids": {"char_ids": char_ids(TOKENS, 14).numpy()},
}
signatures = pytest.mark.parametrize("name", INPUTS)


@pytest.fixture(scope="module")
def loaded(exported_elmo):
    return tf.saved_model.load(exported_elmo)


@pytest.fixture(scope="module", params=[asked_in_python, asked_in_a_session])
def ask(request, exported_elmo):
    """Asks a signature of the exported Elmo."""
    return request.param(exported_elmo)


@pytest.fixture(scope="module")
def live(bilm):
    """The expected outputs, from the biLM's layers and the formula of the mix."""
    outputs = bilm(SENTENCES)
    layers = outputs["layers"].numpy()
    mix = reference.scalar_mix(layers, *MIX)
    counts = np.maximum(LENGTHS, 1)[:, np.newaxis]
    return {
        "word_emb": layers[:, 0, :, :6],
        "lstm_outputs1": layers[:, 1],
        "lstm_outputs2": layers[:, 2],
        "elmo": mix,
        "default": mix.sum(axis=1) / counts,
        "sequence_len": LENGTHS,
    }


@signatures
def test_every_signature_equals_the_live_model(ask, live, name):
    outputs = ask(name, **INPUTS[name])

    assert set(outputs) == set(live)
    for key, expected in live.items():
        assert outputs[key].shape == expected.shape
        np.testing.assert_allclose(outputs[key], expected, rtol=1e-5, atol=1e-5, err_msg=key)


def test_padding_tokens_do_not_change_the_outputs(ask, live):
    # A server that batches pads with the first element, not with the empty token.
    padded = np.where(TOKENS.numpy() == b"", b"the", TOKENS.numpy())
    wider = np.pad(padded, ((0, 0), (0, 2)), constant_values=b"the")

    outputs = ask("tokens", tokens=wider, sequence_len=LENGTHS)

    np.testing.assert_allclose(outputs["elmo"][:, :5], live["elmo"], atol=1e-5)
    assert not outputs["elmo"][:, 5:].any()
    np.testing.assert_allclose(outputs["default"], live["default"], atol=1e-5)
    ids = INPUTS["char_ids"]["char_ids"]
    wider = np.pad(ids, ((0, 0), (0, 3), (0, 0)), constant_values=ids.flat[0])
    outputs = ask("char_ids", char_ids=wider)
    np.testing.assert_array_equal(outputs["sequence_len"], LENGTHS)
    np.testing.assert_allclose(outputs["elmo"][:, :5], live["elmo"], atol=1e-5)
    assert not outputs["elmo"][:, 5:].any()


@signatures
def test_an_empty_batch_has_an_empty_answer(ask, name):
    outputs = ask(name, **{key: value[:0] for key, value in INPUTS[name].items()})

    assert outputs["default"].shape == (0, 12)
    assert outputs["elmo"].shape[::2] == (0, 12)
    assert outputs["sequence_len"].shape == (0,)


def some_tokens(tokens, length):
    return {"tokens": np.array([tokens], object), "sequence_len": np.array([length], np.int32)}


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (some_tokens(["a", "b"], 3), r"`lengths` must be between 0 and the number of token posi"),
        (some_tokens(["a", ""], 2), r"empty token .* within `lengths`"),
        ({"char_ids": np.full((1, 1, 14), 262, np.int32)}, r"Ids must be between 0 and 261\. Rec"),
    ],
)
def test_invalid_inputs_are_refused_with_a_reason(ask, inputs, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        ask(next(iter(inputs)), **inputs)


def test_the_mix_has_two_named_variables(loaded):
    values = {variable.name: variable.numpy() for variable in loaded.variables[-2:]}

    np.testing.assert_allclose(values["aggregation/weights:0"], MIX[0])
    np.testing.assert_allclose(values["aggregation/scaling:0"], MIX[1])


def test_training_has_no_dropout_and_a_gradient_for_every_weight(loaded, fresh_bilm):
    (penalty,) = loaded.regularization_losses
    assert penalty().numpy() == pytest.approx(0.3 * np.sum(np.square(MIX[0])))
    with tf.GradientTape() as tape:
        vectors = loaded(tf.constant(SENTENCES), training=True)["elmo"]
        loss = tf.reduce_sum(vectors**2) + penalty()

    np.testing.assert_allclose(vectors, loaded(tf.constant(SENTENCES))["elmo"], atol=1e-6)
    gradients = tape.gradient(loss, loaded.trainable_variables)

    assert len(gradients) == len(fresh_bilm().trainable_weights) + 2
    for variable, gradient in zip(loaded.trainable_variables, gradients, strict=True):
        assert gradient is not None, variable.name
        assert np.abs(tf.convert_to_tensor(gradient)).max() > 0, variable.name


def assert_evenly_mixed(bilm, path):
    sentences = np.array(["a b unknown", *SENTENCES], object)
    layers = bilm(sentences)["layers"].numpy()
    width = bilm.config.lstm.projection_dim
    for asked in (asked_in_python, asked_in_a_session):
        outputs = asked(path)("serving_default", strings=sentences)
        np.testing.assert_allclose(outputs["word_emb"], layers[:, 0, :, :width], atol=1e-5)
        np.testing.assert_allclose(outputs["lstm_outputs2"], layers[:, 2], atol=1e-5)
        np.testing.assert_allclose(outputs["elmo"], layers.mean(axis=1), atol=1e-5)
        assert outputs["default"].shape == (6, layers.shape[-1])


def test_a_forward_bilm_keeps_its_warm_start(forward_directory, tmp_path):
    forward = load_bilm(forward_directory)
    forward.warm_start(["the cat sat", "on a mat"])

    assert_evenly_mixed(forward, export(forward, tmp_path, check=False))


def test_a_bilm_of_words_replaces_all_files_of_a_version(word_bilm, tmp_path):
    (tmp_path / "0" / "assets.extra").mkdir(parents=True)
    (tmp_path / "0" / "assets.extra" / "README.md").touch()

    path = export(word_bilm, tmp_path, version=0, overwrite=True, check=False)

    assert Path(path) == tmp_path / "0"
    assert not (tmp_path / "0" / "assets.extra").exists()
    assert [folder.name for folder in tmp_path.iterdir()] == ["0"]
    loaded = tf.saved_model.load(path)
    assert "char_ids" not in loaded.signatures
    assert len(loaded.regularization_losses) == 0
    assert_evenly_mixed(word_bilm, path)


def test_an_export_that_differs_from_the_live_model_is_discarded(bilm, tmp_path, monkeypatch):
    def changed_between(path, exported):
        exported.variables[-1].assign(2.0)  # aggregation/scaling
        verify(path, exported)

    monkeypatch.setattr(exporting, "verify", changed_between)
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "saved_model.pb").write_bytes(b"kept")

    with pytest.raises(RuntimeError, match=r"exported model is wrong: the output \w+ of signature"):
        export(bilm, tmp_path, version=1, overwrite=True)

    assert [path.name for path in tmp_path.rglob("*")] == ["1", "saved_model.pb"]
    assert (tmp_path / "1" / "saved_model.pb").read_bytes() == b"kept"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        *(
            ({"version": version}, ValueError, r"`version` must be an integer from 0 to 2⁶³")
            for version in (-1, 1.0, 2**63)
        ),
        ({"tokenizer": "regex"}, TypeError, r"a method split_with_offsets.*Received: 'regex'"),
        ({"precision": "float16"}, ValueError, "`precision` must be one of float32, bfloat16. Rec"),
        ({"format": "tflite"}, ValueError, "`format` must be one of onnx, litert, openvino. Rec"),
        ({"format": "onnx", "precision": "bfloat16"}, ValueError, "for SavedModels, not for form"),
    ],
)
def test_an_invalid_option_is_refused(bilm, tmp_path, arguments, error, message):
    with pytest.raises(error, match=message):
        export(bilm, tmp_path, **arguments)


@pytest.mark.parametrize(("layer_norm", "num_warnings"), [(True, 1), (False, 0)])
def test_layer_norm_causes_a_warning(bilm, exported_bilm, caplog, layer_norm, num_warnings):
    with pytest.raises(FileExistsError):
        export(Elmo(bilm, layer_norm=layer_norm), Path(exported_bilm).parent)

    assert caplog.text.count("depend on the other sentences of the batch") == num_warnings


@pytest.mark.parametrize(
    ("kind", "shares"),
    [("top_only", [0.0]), ("average", [0.0, 0.0, 0.0]), ("layer_norm", [0.3, -1.0, 0.8])],
)
def test_an_exported_mix_equals_the_reference_after_later_changes(bilm, kind, shares):
    elmo = Elmo(bilm, **{kind: True})
    never_called = Exported(elmo)
    np.testing.assert_array_equal(never_called.mixes[0].layer_weights, np.zeros(len(shares)))
    elmo.mixes[0].layer_weights.assign(shares)
    elmo.mixes[0].scaling.assign(1.7)
    exported = Exported(elmo)
    elmo.mixes[0].scaling.assign(0.0)

    vectors = exported(tf.constant(SENTENCES))["elmo"]

    layers = bilm(SENTENCES)["layers"].numpy().astype(np.float64)[:, -len(shares) :]
    if kind == "layer_norm":
        layers = reference.normalized(layers, np.arange(5) < LENGTHS[:, np.newaxis])
    atol = 1e-4 if kind == "layer_norm" else 1e-5
    np.testing.assert_allclose(vectors, reference.scalar_mix(layers, shares, 1.7), atol=atol)
    trained = {variable.ref() for variable in exported.trainable_variables}
    assert exported.mixes[0].scaling.value.ref() in trained
    assert (exported.mixes[0].layer_weights.value.ref() in trained) == (kind != "average")


@pytest.mark.parametrize("option", ["stateful", "keep_boundaries"])
def test_a_stateful_bilm_or_one_with_boundaries_is_refused(fresh_bilm, option):
    bilm = fresh_bilm(**{option: True})
    with pytest.raises(ValueError, match=f"{option}=True cannot be exported.*{option}=False"):
        Exported(bilm)


def test_other_objects_are_refused():
    for source in ("checkpoint", None, tf.Module()):
        with pytest.raises(TypeError, match=r"A BiLM or an Elmo can be exported. Received: .*of t"):
            Exported(source)
