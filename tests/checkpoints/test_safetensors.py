"""Checkpoints whose weights are in safetensors files."""

import os
import shutil
import sys

import numpy as np
import pytest
from safetensors.numpy import load_file

from elmo_tf import BiLM, load_bilm, save_bilm
from elmo_tf.extras import MissingExtraError
from reference import checkpoint


@pytest.fixture(scope="module")
def folder(bilm, tmp_path_factory):
    """A checkpoint that tests must not change."""
    folder = tmp_path_factory.mktemp("safetensors")
    save_bilm(bilm, folder, format="safetensors")
    return folder


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_both_formats_hold_the_same_arrays(dtype, bilm, tmp_path):
    for name in ("hdf5", "safetensors"):
        save_bilm(bilm, tmp_path / name, name, dtype)

    found = load_file(tmp_path / "safetensors" / "weights.safetensors")
    wanted = checkpoint.read_hdf5(tmp_path / "hdf5" / "weights.hdf5")
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype == dtype
    loaded = [load_bilm(tmp_path / name).get_weights() for name in ("hdf5", "safetensors")]
    for array, other in zip(*loaded, strict=True):
        np.testing.assert_array_equal(array, other)


def test_the_newest_weights_are_loaded_if_both_formats_exist(folder, bilm, tmp_path):
    """An interrupted save leaves files of both formats."""
    for number, format in enumerate(("hdf5", "safetensors", "hdf5")):
        other = BiLM(bilm.config)
        save_bilm(other, tmp_path / format, format=format)
        name = f"weights.{format}"
        os.replace(tmp_path / format / name, tmp_path / name)
        os.utime(tmp_path / name, (number, number))
        shutil.copy(tmp_path / format / "options.json", tmp_path)
        loaded = load_bilm(tmp_path)
        for array, wanted in zip(loaded.get_weights(), other.get_weights(), strict=True):
            np.testing.assert_array_equal(array, wanted)


def test_the_error_for_missing_safetensors_names_the_extra(folder, bilm, tmp_path, monkeypatch):
    for name in ("safetensors", "safetensors.numpy"):
        monkeypatch.setitem(sys.modules, name, None)
    message = r"format safetensors needs safetensors.*elmo_tf\[huggingface\]"

    with pytest.raises(MissingExtraError, match=message):
        load_bilm(folder)
    with pytest.raises(MissingExtraError, match=message):
        save_bilm(bilm, tmp_path, format="safetensors")
