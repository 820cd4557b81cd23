"""The options of `elmo-tf serve` reach the server."""

import signal
import subprocess
import sys

import pytest

from elmo_tf.saved_models.config_protos import METRICS_PATH
from elmo_tf.saved_models.server import server
from elmo_tf.saved_models.server.batching import DEFAULT_BATCHING
from elmo_tf.saved_models.server.limits import Limits


@pytest.fixture
def arguments_of(command, monkeypatch):
    """Runs the command without a server; returns the arguments of `serve`."""

    def run(*options):
        calls = []

        def serve(*arguments, **named):
            calls.append((arguments, named))
            raise KeyboardInterrupt  # as Ctrl-C would

        monkeypatch.setattr(server, "serve", serve)
        monkeypatch.setattr(signal, "signal", lambda *arguments: None)
        status, _, err = command("serve", *options)
        assert status == 0, err
        (call,) = calls
        return call

    return run


def test_options_are_passed_on(arguments_of):
    arguments, named = arguments_of("exported", "--port", 0, "--rest-port", 9, "--name", "mine")
    assert arguments == ("exported", "mine", 0, 9, "127.0.0.1")
    assert named == {
        "models_config": None,
        "batching": DEFAULT_BATCHING,
        "limits": Limits(),
        "poll_seconds": 1.0,
        "metrics_path": METRICS_PATH,
        "access_log": False,
    }
    _, named = arguments_of(
        *("--models-config", "models.config", "--no-batching", "--poll-seconds", 0),
        *("--max-request-mb", 2, "--max-sentences", 3, "--max-tokens", 4, "--access-log"),
    )
    assert named == {
        "models_config": "models.config",
        "batching": None,
        "limits": Limits(2 * 2**20, 3, 4),
        "poll_seconds": None,
        "metrics_path": METRICS_PATH,
        "access_log": True,
    }


def test_options_override_tf_servings_batching_file(arguments_of, tmp_path):
    path = tmp_path / "batching_parameters.txt"
    path.write_text("max_batch_size { value: 7 } num_batch_threads { value: 2 }")
    _, named = arguments_of("exported", "--max-batch-size", 9)
    assert named["batching"].max_batch_size == 9
    options = "--batching-parameters", path, "--batch-timeout-micros", 5
    batching = arguments_of("exported", *options)[1]["batching"]
    found = batching.max_batch_size, batching.num_batch_threads, batching.batch_timeout_micros
    assert found == (7, 2, 5)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('prometheus_config { enable: true path: "/here" }', "/here"),
        ("prometheus_config { enable: true }", METRICS_PATH),
        ('prometheus_config { path: "/here" }', None),
        ("", None),
    ],
)
def test_the_metrics_path_is_read_from_tf_servings_file(arguments_of, tmp_path, content, expected):
    path = tmp_path / "monitoring.config"
    path.write_text(content)
    _, named = arguments_of("exported", "--monitoring-config", path)
    assert named["metrics_path"] == expected


def test_the_process_ends_while_the_model_still_computes():
    code = (
        "import threading, time\n"
        "from elmo_tf.commands.serve import _end_after\n"
        "threading.Thread(target=time.sleep, args=(100,)).start()\n"
        "_end_after(0.0)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=30, check=False).returncode == 0
