"""All checkpoint formats load, convert, and name what is wrong with a file."""

import json
import re

import h5py
import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from elmo_tf import load_bilm, save_bilm
from elmo_tf.models.copies import model_digest
from reference import checkpoint, manylangs, tf1_training
from torch_files import legacy_file, zip_file

SENTENCES = ["the cat sat", "", "한국어"]


class Published:
    files = ("options.json", "weights.hdf5")
    name = "RNN_1/RNN/MultiRNNCell/Cell0/LSTMCell/W_0"

    def arrays(self):
        return checkpoint.random_weights(checkpoint.options())

    def write(self, folder, arrays):
        checkpoint.write(folder, checkpoint.options(), arrays)


class Safetensors(Published):
    files = ("options.json", "weights.safetensors")

    def write(self, folder, arrays):
        folder.mkdir(exist_ok=True)
        (folder / "options.json").write_text(json.dumps(checkpoint.options()))
        save_file(arrays, folder / "weights.safetensors")


class TF1:
    prefix = tf1_training.PREFIX
    files = ("options.json", f"{prefix}.index", f"{prefix}.data-00000-of-00001")
    name = "lm/RNN_1/rnn/multi_rnn_cell/cell_0/lstm_cell/kernel"

    def arrays(self):
        options = tf1_training.options()
        weights = tf1_training.weights(options)
        return {tf1_training.trained_name(name, options): a for name, a in weights.items()}

    def write(self, folder, arrays):
        options = tf1_training.options()
        tf1_training.write(folder, options, tf1_training.weights(options))
        tf1_training.save(folder / self.prefix, arrays)


class ManyLangs:
    files = ("config.json", "char.dic", "word.dic", "shape.json", "encoder.pkl")
    name = "encoder.pkl/backward_layer_0.input_linearity.weight"
    write_state = staticmethod(legacy_file)

    def arrays(self):
        weights = manylangs.random_weights(manylangs.SHAPE)
        return {f"{file}.pkl/{name}": a for file, s in weights.items() for name, a in s.items()}

    def write(self, folder, arrays):
        states = {"encoder": {}, "token_embedder": {}}
        for path, array in arrays.items():
            file, _, name = path.partition(".pkl/")
            states[file][name] = array
        manylangs.write(folder, manylangs.SHAPE, states, self.write_state)


class ZippedManyLangs(ManyLangs):
    write_state = staticmethod(zip_file)


KINDS = (Published(), Safetensors(), TF1(), ManyLangs(), ZippedManyLangs())


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: type(kind).__name__)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def loaded(kind, tmp_path_factory):
    """The biLM of an undamaged checkpoint."""
    folder = tmp_path_factory.mktemp("formats")
    kind.write(folder, kind.arrays())
    return load_bilm(folder)


def check_refused(folder, message, error=ValueError):
    """Loading raises a one-line error."""
    with pytest.raises(error, match=message) as caught:
        load_bilm(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("suffix", ["hdf5", "safetensors"])
def test_a_converted_checkpoint_has_the_same_weights_and_vectors(loaded, tmp_path, suffix):
    save_bilm(loaded, tmp_path, format=suffix)

    again = load_bilm(tmp_path)

    assert model_digest(again) == model_digest(loaded)
    np.testing.assert_array_equal(again(SENTENCES)["layers"], loaded(SENTENCES)["layers"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda array: None, "does not fit the model: the file lacks `{}`. Were "),
        (lambda array: array.T.copy(), "Cannot load `{}` into .* has .*, the model expects"),
        (lambda array: array[..., None], r"Cannot load `{}` into .* has .*, 1\), the model"),
        (lambda array: np.full_like(array, np.nan), r"`{}` in .* has NaN or infinite .*: (\d+) of"),
    ],
    ids=["missing", "transposed", "another axis", "NaN"],
)
def test_the_error_names_a_wrong_array(kind, tmp_path, change, message):
    arrays = kind.arrays()
    changed = change(arrays.pop(kind.name))
    kind.write(tmp_path, arrays if changed is None else {**arrays, kind.name: changed})

    check_refused(tmp_path, message.format(re.escape(kind.name)))


def test_the_error_names_an_unknown_array(kind, tmp_path):
    other = kind.name.replace("0", "7")
    arrays = kind.arrays()
    kind.write(tmp_path, {**arrays, other: arrays[kind.name]})

    check_refused(tmp_path, f"the model does not use `{re.escape(other)}`")


@pytest.mark.parametrize("keep", [0, 50, 0.5, 0.9])
def test_the_error_names_a_truncated_file(kind, tmp_path, keep):
    kind.write(tmp_path, kind.arrays())
    path = tmp_path / kind.files[-1]
    content = path.read_bytes()
    path.write_bytes(content[: int(keep if keep > 1 else keep * len(content))])

    check_refused(tmp_path, rf"Cannot (open|read) .*{path.stem.partition('.data')[0]}")


def test_token_embeddings_replace_the_characters_of_published_formats_only(kind, tmp_path):
    kind.write(tmp_path, kind.arrays())
    error, message = ValueError, "`token_embeddings` is not supported .* Convert the checkpoint"
    if isinstance(kind, Published):
        error, message = FileNotFoundError, "There is no weight file any.hdf5"

    with pytest.raises(error, match=message):
        load_bilm(tmp_path, token_embeddings="any.hdf5")


def test_the_error_names_a_missing_file(kind, tmp_path):
    for name in kind.files:
        kind.write(tmp_path, kind.arrays())
        (tmp_path / name).unlink()
        pattern = rf"{name}|\*{name}" if "weights" not in name else "weights"
        check_refused(tmp_path, pattern, (FileNotFoundError, ValueError))


def test_floats_of_any_size_are_read_as_float32_but_integers_are_refused(tmp_path, weights):
    arrays = {name: array.astype(np.float64) for name, array in weights.items()}
    arrays["CNN_proj/b_proj"] = arrays["CNN_proj/b_proj"].astype(np.float16)
    Published().write(tmp_path, arrays)

    encoder = load_bilm(tmp_path).token_encoder

    np.testing.assert_array_equal(encoder.char_cnn.char_embedding, weights["char_embed"])
    assert encoder.projection.bias.dtype == "float32"
    (tmp_path / "weights.hdf5").unlink()
    bfloats = {name: array.astype(ml_dtypes.bfloat16) for name, array in weights.items()}
    Safetensors().write(tmp_path, bfloats)
    encoder = load_bilm(tmp_path).token_encoder
    rounded = bfloats["char_embed"].astype(np.float32)
    np.testing.assert_array_equal(encoder.char_cnn.char_embedding, rounded)
    (tmp_path / "weights.safetensors").unlink()
    integers = weights[Published.name].astype(np.int32)
    Published().write(tmp_path, {**weights, Published.name: integers})
    message = rf"`{Published.name}` in .*weights.hdf5 must contain floats. Received: int32"
    check_refused(tmp_path, message)


def test_a_file_that_another_process_writes_is_not_called_damaged(tmp_path, bilm, weights, locked):
    Published().write(tmp_path, weights)
    message = r"weights\.hdf5 is open for writing in another process\. Wait until"

    with locked(tmp_path / "weights.hdf5"):
        check_refused(tmp_path, message, BlockingIOError)
    assert model_digest(load_bilm(tmp_path)) == model_digest(bilm)


def external_storage(file, name, shape, secret):
    file.create_dataset(name, shape, "f4", external=[(str(secret), 0, secret.stat().st_size)])


def virtual_dataset(file, name, shape, secret):
    layout = h5py.VirtualLayout(shape, "f4")
    layout[...] = h5py.VirtualSource(secret, "w", shape)
    file.create_virtual_dataset(name, layout)


def external_link(file, name, shape, secret):
    file[name] = h5py.ExternalLink(secret, "w")


def link_to_external_link(file, name, shape, secret):
    external_link(file, "hidden/link", shape, secret)
    file[name] = h5py.SoftLink("/hidden/link")


@pytest.mark.parametrize(
    "foreign", [external_storage, virtual_dataset, external_link, link_to_external_link]
)
def test_numbers_of_other_files_are_not_read(tmp_path, weights, foreign):
    Published().write(tmp_path, weights)
    array = weights[Published.name]
    checkpoint.write_hdf5(tmp_path / "secret", {"w": array})
    with h5py.File(tmp_path / "weights.hdf5", "a") as file:
        del file[Published.name]
        foreign(file, Published.name, array.shape, tmp_path / "secret")

    check_refused(tmp_path, r"` in .*weights\.hdf5 refers to another file")


def test_links_within_a_file_are_followed(tmp_path, weights):
    Published().write(tmp_path, weights)
    with h5py.File(tmp_path / "weights.hdf5", "a") as file:
        del file["RNN_1"], file["CNN/b_cnn_0"]
        file["RNN_1"] = h5py.SoftLink("/RNN_0")
        file["CNN/b_cnn_0"] = weights["CNN/b_cnn_0"]
        cell = "RNN/MultiRNNCell/Cell0/LSTMCell"
        bias = file[f"RNN_0/{cell}/B"]
        del file[f"RNN_0/{cell}/B"]
        file[f"RNN_0/{cell}/B"] = bias  # a hard link

    stacks = load_bilm(tmp_path).lstm_stacks
    for forward, backward in zip(*(stack.weights for stack in stacks), strict=True):
        np.testing.assert_array_equal(forward, backward)
    with h5py.File(tmp_path / "weights.hdf5", "a") as file:
        file["CNN/broken"] = h5py.SoftLink("/nowhere")
    load_bilm(tmp_path)
