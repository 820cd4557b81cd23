"""Programs that others wrote, or that are not Python, on an exported model."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from elmo_tf import char_ids

TOKENS = [["the", "cat", "한국어"]]
LIBRARY = Path(tf.__file__).parent
PROGRAM = Path(__file__).resolve().parents[2] / "examples" / "embed.c"


@pytest.fixture
def ids():
    return char_ids(TOKENS, 14).numpy()


@pytest.fixture
def expected(bilm):
    """The mix of a biLM alone is the mean of its layers."""
    return bilm(TOKENS)["layers"].numpy().mean(axis=1)


def saved_model_cli(*arguments):
    """TensorFlow's own tool."""
    tool = Path(sys.executable).with_name("saved_model_cli")
    result = subprocess.run(
        [tool, *map(str, arguments)], capture_output=True, text=True, timeout=240, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_saved_model_cli_shows_the_signatures(exported_bilm):
    shown = saved_model_cli("show", "--dir", exported_bilm, "--all")

    for name in ("default", "serving_default", "tokens", "char_ids"):
        assert f"signature_def['{name}']:" in shown
    assert "inputs['sequence_len'] tensor_info:\n        dtype: DT_INT32" in shown
    assert "outputs['lstm_outputs2'] tensor_info:\n        dtype: DT_FLOAT" in shown


def test_saved_model_cli_runs_a_signature(exported_bilm, tmp_path, ids, expected):
    np.save(tmp_path / "ids.npy", ids)

    saved_model_cli(
        *("run", "--dir", exported_bilm, "--tag_set", "serve", "--signature_def", "char_ids"),
        *("--inputs", f"char_ids={tmp_path / 'ids.npy'}", "--outdir", tmp_path),
    )

    np.testing.assert_allclose(np.load(tmp_path / "elmo.npy"), expected, atol=1e-5)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")
def test_a_c_program_runs_it(exported_bilm, tmp_path, ids, expected):
    libraries = [f"-l:{file.name}" for file in sorted(LIBRARY.glob("libtensorflow_*.so.2"))]
    folders = [f"-I{LIBRARY}/include", f"-L{LIBRARY}", f"-Wl,-rpath,{LIBRARY}"]
    compiled = ["gcc", PROGRAM, *folders, *libraries, "-o", tmp_path / "embed"]
    subprocess.run(compiled, check=True, timeout=240)
    content = saved_model_pb2.SavedModel()
    content.ParseFromString((Path(exported_bilm) / "saved_model.pb").read_bytes())
    signature = content.meta_graphs[0].signature_def["char_ids"]
    asked = signature.inputs["char_ids"].name.split(":")[0]
    numbers = f"{ids.shape[1]} {ids.shape[2]} {' '.join(map(str, ids.ravel()))}"

    result = subprocess.run(
        [tmp_path / "embed", exported_bilm, asked, *signature.outputs["elmo"].name.split(":")],
        input=numbers,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )

    assert result.returncode == 0, result.stderr
    vectors = np.array(result.stdout.split(), np.float32).reshape(expected.shape)
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
