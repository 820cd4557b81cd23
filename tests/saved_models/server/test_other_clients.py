"""Third-party clients get the same vectors as Python."""

import json
import os
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


@pytest.fixture(scope="module")
def ovmsclient(tmp_path_factory, server):
    """Runs a call of a client in a new Python process; returns its answer."""
    folder = tmp_path_factory.mktemp("ovmsclient")
    install = [sys.executable, "-m", "pip", "install", "--no-deps", "--target", folder]
    run_or_skip([*install, "ovmsclient==2023.1"])
    addresses = {"grpc": server.port, "http": server.rest_port}

    def ask(transport, call):
        program = f"""if True:
            import json
            import numpy
            import ovmsclient
            client = ovmsclient.make_{transport}_client("127.0.0.1:{addresses[transport]}")
            sentences = {SENTENCES!r}
            try:
                answer = client.{call}
            except ovmsclient.ModelServerError as error:
                answer = str(error)
            print(json.dumps(answer, default=lambda array: array.tolist()))
        """
        environment = {**os.environ, "PYTHONPATH": str(folder)}
        command = [sys.executable, "-c", program]
        return json.loads(subprocess.check_output(command, env=environment, timeout=60))

    return ask


def run_or_skip(command, **kwargs):
    """Runs an installation command; skips the test if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, **kwargs)
    if done.returncode:
        pytest.skip(f"cannot be installed here: {done.stderr.strip()[-300:]}")


@pytest.mark.parametrize("transport", ["grpc", "http"])
def test_ovmsclient_gets_outputs_status_and_metadata(ovmsclient, expected, transport):
    for strings in ("sentences", "numpy.array([sentence.encode() for sentence in sentences])"):
        outputs = ovmsclient(transport, f"predict({{'strings': {strings}}}, 'elmo', 3)")
        assert sorted(outputs) == sorted(expected)
        for name, array in expected.items():
            np.testing.assert_allclose(outputs[name], array, atol=1e-5, err_msg=name)
    states = ovmsclient(transport, "get_model_status('elmo', 3)")
    assert states == {"3": {"state": "AVAILABLE", "error_code": 0, "error_message": ""}}
    metadata = ovmsclient(transport, "get_model_metadata('elmo', 3)")
    if transport == "grpc":
        assert metadata["inputs"] == {"strings": {"shape": [-1], "dtype": "DT_STRING"}}
        assert sorted(metadata["outputs"]) == sorted(expected)
    else:  # it expects keys that TF Serving does not use, and returns the answer unchanged
        assert metadata["model_spec"] == {"name": "elmo", "version": "3", "signature_name": ""}


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    """Runs `embed.js` in a copy of its folder, as a user would."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}")
    folder = tmp_path_factory.mktemp("node") / "copy"
    shutil.copytree(NODE, folder, ignore=shutil.ignore_patterns("node_modules", "*.bin"))
    run_or_skip(["npm", "install"], cwd=folder)
    subprocess.run(
        [sys.executable, "descriptors.py", "tensorflow_serving.bin"], cwd=folder, check=True
    )

    def run(*arguments):
        command = ["node", "embed.js", *arguments]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)

    return run


def test_node_gets_vectors_and_prints_the_servers_error(node, server, expected):
    done = node(f"127.0.0.1:{server.port}", *SENTENCES)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(SENTENCES)
    for i, answer in enumerate(answers):
        length = expected["sequence_len"][i]
        assert len(answer["elmo"]) == length == len(SENTENCES[i].split())
        tokens = np.reshape(answer["elmo"], (length, expected["elmo"].shape[-1]))
        np.testing.assert_allclose(tokens, expected["elmo"][i, :length], atol=1e-5)
        np.testing.assert_allclose(answer["default"], expected["default"][i], atol=1e-5)
    done = node(f"127.0.0.1:{server.port}", *["a " * 40_000] * 2)
    assert done.returncode == 1
    assert "INVALID_ARGUMENT: The request has 2 sentences, the longest with" in done.stderr
