"""Third-party clients get the same vectors as Python."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.saved_models.server.server import serve

pytestmark = pytest.mark.slow

SENTENCES = ["The bank of the river", "Jürgen 한국어", "", "I like it ."]
NODE = Path(__file__).parents[3] / "examples" / "node"


@pytest.fixture(scope="module")
def server(exported_elmo):
    with serve(Path(exported_elmo).parent, port=0, rest_port=0) as server:
        yield server


@pytest.fixture(scope="module")
def expected(exported_elmo):
    outputs = tf.saved_model.load(exported_elmo).signatures["serving_default"](
        strings=tf.constant(SENTENCES)
    )
    return {name: array.numpy() for name, array in outputs.items()}


def run_or_skip(command, **kwargs):
    """Runs an installation command; skips the test if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, **kwargs)
    if done.returncode:
        pytest.skip(f"cannot be installed here: {done.stderr.strip()[-300:]}")


def test_node_gets_vectors_and_prints_the_servers_error(tmp_path, server, expected):
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}")
    folder = tmp_path / "copy"
    shutil.copytree(NODE, folder, ignore=shutil.ignore_patterns("node_modules", "*.bin"))
    run_or_skip(["npm", "install"], cwd=folder)
    describe = [sys.executable, "descriptors.py", "tensorflow_serving.bin"]
    subprocess.run(describe, cwd=folder, check=True)
    call = ["node", "embed.js", f"127.0.0.1:{server.port}"]
    options = {"cwd": folder, "capture_output": True, "text": True, "timeout": 60}

    done = subprocess.run([*call, *SENTENCES], **options)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(SENTENCES)
    for i, answer in enumerate(answers):
        length = len(SENTENCES[i].split())
        tokens = np.reshape(answer["elmo"], (length, expected["elmo"].shape[-1]))
        np.testing.assert_allclose(tokens, expected["elmo"][i, :length], atol=1e-5)
        np.testing.assert_allclose(answer["default"], expected["default"][i], atol=1e-5)
    done = subprocess.run([*call, *["a " * 40_000] * 2], **options)
    assert done.returncode == 1
    assert "INVALID_ARGUMENT: The request has 2 sentences, the longest with" in done.stderr
