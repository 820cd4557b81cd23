"""Exported models on disk, loaded by Python, in a session and by Keras."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from exported_models import asked_in_a_session, asked_in_python

from elmo_tf import Elmo, char_ids, load_bilm
from elmo_tf.saved_models import export
from elmo_tf.saved_models.exporting import export as exporting
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


@pytest.fixture(scope="module")
def exported_over_another(tmp_path_factory, word_bilm):
    """Version 0 of `word_bilm`, which replaced an older one."""
    directory = tmp_path_factory.mktemp("words")
    (directory / "0").mkdir()
    (directory / "0" / "assets.extra").touch()
    return export(word_bilm, directory, version=0, overwrite=True, check=False)


def graph_variables(path):
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        tf.compat.v1.saved_model.load(session, ["serve"], path)
        handles = [op for op in graph.get_operations() if op.type == "VarHandleOp"]
    return [op.get_attr("shared_name").decode() for op in handles]


def contents(directory):
    return {path: path.is_dir() or path.read_bytes() for path in Path(directory).rglob("*")}


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


@signatures
def test_an_empty_batch_has_an_empty_answer(ask, name):
    outputs = ask(name, **{key: value[:0] for key, value in INPUTS[name].items()})

    assert outputs["default"].shape == (0, 12)
    assert outputs["elmo"].shape[::2] == (0, 12)
    assert outputs["sequence_len"].shape == (0,)


@pytest.mark.parametrize(
    ("tokens", "sequence_len", "message"),
    [
        ([["a", "b"]], [3], r"`lengths` must be between 0 and the number of token positions"),
        ([["a", "b"]], [-1], r"`lengths` must be between 0 and the number of token positions"),
        ([["", "b"]], [2], r"empty token .* precedes a real token"),
        ([["a", ""]], [2], r"empty token .* within `lengths`"),
    ],
)
def test_invalid_tokens_are_refused_with_a_reason(ask, tokens, sequence_len, message):
    sequence_len = np.array(sequence_len, np.int32)

    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        ask("tokens", tokens=np.array(tokens, object), sequence_len=sequence_len)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (np.full((1, 2, 14), 262), r"Ids must be between 0 and 261\. Received"),
        (np.array([[[0] * 14, [1, 2] * 7]]), r"empty token .* precedes a real token"),
    ],
)
def test_invalid_char_ids_are_refused_with_a_reason(ask, ids, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        ask("char_ids", char_ids=ids.astype(np.int32))


def test_the_mix_has_two_named_variables(exported_elmo, loaded):
    names = graph_variables(exported_elmo)

    assert names.count("aggregation/weights") == names.count("aggregation/scaling") == 1
    values = {variable.name: variable.numpy() for variable in loaded.variables}
    np.testing.assert_allclose(values["aggregation/weights:0"], MIX[0])
    np.testing.assert_allclose(values["aggregation/scaling:0"], MIX[1])


def test_a_gradient_reaches_every_trainable_weight(loaded, bilm):
    (penalty,) = loaded.regularization_losses
    assert penalty().numpy() == pytest.approx(0.3 * np.sum(np.square(MIX[0])))
    with tf.GradientTape() as tape:
        vectors = loaded(tf.constant(SENTENCES), training=True)["elmo"]
        loss = tf.reduce_sum(vectors**2) + penalty()

    gradients = tape.gradient(loss, loaded.trainable_variables)

    assert len(gradients) == len(bilm.trainable_weights) + 2
    for variable, gradient in zip(loaded.trainable_variables, gradients, strict=True):
        assert gradient is not None, variable.name
        assert np.abs(tf.convert_to_tensor(gradient)).max() > 0, variable.name


def test_a_bilm_without_elmo_is_mixed_evenly(bilm, exported_bilm):
    loaded = tf.saved_model.load(exported_bilm)

    outputs = loaded(tf.constant(SENTENCES))

    layers = bilm(SENTENCES)["layers"].numpy()
    np.testing.assert_allclose(outputs["elmo"], layers.mean(axis=1), atol=1e-5)
    assert len(loaded.regularization_losses) == 0


def test_a_bilm_with_token_embeddings_is_exported_with_its_vocabulary(
    word_bilm, exported_over_another
):
    sentences = np.array(["a b unknown", "", "b"], object)
    layers = word_bilm(sentences)["layers"]

    for ask in (asked_in_python(exported_over_another), asked_in_a_session(exported_over_another)):
        outputs = ask("serving_default", strings=sentences)
        np.testing.assert_allclose(outputs["lstm_outputs1"], layers[:, 1], atol=1e-5)
    assert "char_ids" not in tf.saved_model.load(exported_over_another).signatures


def test_a_forward_only_model_is_exported_with_its_warm_start(tmp_path, forward_directory):
    bilm = load_bilm(forward_directory)
    bilm.warm_start(["the cat sat", "on a mat"])

    path = export(bilm, tmp_path, check=False)

    expected = bilm(np.array(SENTENCES, object))["layers"]
    for ask in (asked_in_python(path), asked_in_a_session(path)):
        outputs = ask("serving_default", strings=np.array(SENTENCES, object))
        np.testing.assert_allclose(outputs["word_emb"], expected[:, 0], atol=1e-5)
        np.testing.assert_allclose(outputs["lstm_outputs2"], expected[:, 2], atol=1e-5)
        assert outputs["elmo"].shape[-1] == outputs["default"].shape[-1] == 6


def test_overwrite_replaces_all_files_of_a_version(exported_over_another):
    path = Path(exported_over_another)

    assert path.name == "0"
    assert (path / "saved_model.pb").is_file()
    assert (path / "assets.extra").is_dir()  # it was a file
    assert [folder.name for folder in path.parent.iterdir()] == ["0"]


def test_an_existing_version_is_refused_and_unchanged(bilm, exported_bilm):
    before = contents(exported_bilm)

    with pytest.raises(
        FileExistsError,
        match=r"1 exists\. Add `--version 2` or `--overwrite` \(in Python: version=2 or over",
    ):
        export(bilm, Path(exported_bilm).parent, version=1)

    assert contents(Path(exported_bilm).parent) == {Path(exported_bilm): True, **before}


def test_an_export_that_differs_from_the_live_model_is_discarded(bilm, tmp_path, monkeypatch):
    def changed_between(path, exported):
        exported.variables[-1].assign(2.0)  # aggregation/scaling
        verify(path, exported)

    monkeypatch.setattr(exporting, "verify", changed_between)
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "saved_model.pb").write_bytes(b"kept")

    with pytest.raises(RuntimeError, match=r"exported model is wrong: the output \w+ of signature"):
        export(bilm, tmp_path, version=1, overwrite=True)

    assert contents(tmp_path) == {tmp_path / "1": True, tmp_path / "1" / "saved_model.pb": b"kept"}


def test_a_write_error_names_the_folder(bilm, tmp_path, monkeypatch):
    def full_disk(*arguments, **keywords):
        raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")

    monkeypatch.setattr(tf.saved_model, "save", full_disk)

    with pytest.raises(OSError, match=r"Cannot write .*1: No space left on device"):
        export(bilm, tmp_path)

    assert contents(tmp_path) == {}


@pytest.mark.parametrize("version", [-1, 1.0, True])
def test_a_version_must_be_a_non_negative_integer(bilm, tmp_path, version):
    with pytest.raises(ValueError, match=r"`version` must be an integer of at least 0. Received: "):
        export(bilm, tmp_path, version=version)


@pytest.mark.parametrize(("layer_norm", "num_warnings"), [(True, 1), (False, 0)])
def test_layer_norm_causes_a_warning(bilm, exported_bilm, caplog, layer_norm, num_warnings):
    with pytest.raises(FileExistsError):
        export(Elmo(bilm, layer_norm=layer_norm), Path(exported_bilm).parent)

    assert caplog.text.count("depend on the other sentences of the batch") == num_warnings
