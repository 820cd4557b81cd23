"""The command `elmo-tf convert`."""

import re
import shutil
from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
import pytest

from elmo_tf import Vocabulary, load_bilm, load_language_model
from elmo_tf.checkpoints.published import save_language_model
from elmo_tf.layers import SampledSoftmax
from elmo_tf.models.language_model import LanguageModel
from reference.checkpoint import read_hdf5

LINES = ["the cat sat .", "a dog saw the cat !", "the dog sat ."]


@pytest.mark.parametrize(
    ("extra", "file"), [((), "weights.hdf5"), (("--format", "safetensors"), "weights.safetensors")]
)
def test_convert_writes_the_same_weights(command, checkpoint_directory, extra, file):
    assert command("convert", checkpoint_directory, "new", *extra)[0] == 0
    assert {path.name for path in Path("new").iterdir()} == {"options.json", file}
    assert command("convert", "new/options.json", f"new/{file}", "again")[0] == 0
    expected = load_bilm(checkpoint_directory).get_weights()
    for array, wanted in zip(load_bilm("again").get_weights(), expected, strict=True):
        np.testing.assert_array_equal(array, wanted)


# After an error of HDF5, this process could not read other files.
@pytest.mark.parametrize("words", ["convert --format safetensors", "export"])
def test_a_full_disk_is_named_and_nothing_is_left(
    command, checkpoint_directory, files_limited_to, words
):
    name, *options = words.split()
    with files_limited_to(4_000):
        status, _, log = command(name, checkpoint_directory, "a/new", *options)

    assert status == 1
    assert re.search(r"elmo-tf: Cannot write \S+/a/new\S*: File too large\.$", log.strip())
    assert not Path("a").exists()


def test_an_array_that_the_memory_does_not_hold_is_named(
    command, checkpoint_directory, monkeypatch
):
    monkeypatch.setattr("h5py.Dataset.__getitem__", MagicMock(side_effect=MemoryError))

    _, _, log = command("convert", checkpoint_directory, "new")

    expected = r"Out of memory: `char_embed` of \S+weights.hdf5 needs more memory than there is"
    assert re.search(expected, log)


def test_convert_saves_the_state_of_a_warm_start(stdout_of, checkpoint_directory):
    stdout_of("convert", checkpoint_directory, "warm", "--warm-start", "text.*")
    warm = load_bilm("warm")
    again = load_bilm(checkpoint_directory)
    assert np.abs(warm.initial_state).max() > 0
    again.warm_start(LINES)
    np.testing.assert_allclose(warm.initial_state, again.initial_state, atol=1e-6)


def test_convert_keeps_softmax_and_vocabulary(command, bilm, caplog):
    vocabulary = Vocabulary.build(LINES)
    softmax = SampledSoftmax(len(vocabulary))
    softmax.build((None, bilm.config.lstm.projection_dim))
    save_language_model(LanguageModel(bilm, softmax, vocabulary), "run")
    shutil.make_archive("run", "zip", "run")
    assert command("convert", "run.zip", "half", "--dtype", "float16")[0] == 0
    arrays = read_hdf5("half/weights.hdf5").values()
    assert {array.dtype for array in arrays} == {np.dtype("float16")}
    found = load_language_model("half")
    assert found.vocabulary.tokens == vocabulary.tokens
    kernel = softmax.kernel.numpy()
    Path("half/vocab.txt").unlink()
    assert command("convert", "half", "without")[0] == 0
    Path("half/vocab.txt").write_text("the\ncat\n")
    assert command("convert", "half", "damaged")[0] == 1  # the softmax needs it
    Path("half/softmax.hdf5").unlink()
    assert command("convert", "half", "characters")[0] == 0
    assert "The vocabulary is left out: half/vocab.txt has no line <S>" in caplog.text
    assert not Path("characters/vocab.txt").exists()
    names = {path.name for path in Path("without").iterdir()}
    assert names == {"options.json", "softmax.hdf5", "weights.hdf5"}
    np.testing.assert_allclose(found.softmax.kernel, kernel, rtol=2**-9 + 2**-11, atol=1e-6)
