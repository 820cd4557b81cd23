"""The options of `elmo-tf serve` reach the server."""

import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from elmo_tf import cli
from elmo_tf.commands.serve import _batching, _metrics_path
from elmo_tf.saved_models.server.batching import DEFAULT_BATCHING
from elmo_tf.saved_models.server.server import METRICS_PATH
from running_server import running


def parsed(*options):
    return cli.build_parser().parse_args(["serve", "exported", *options])


def test_batching_comes_from_options_and_from_tf_servings_file(tmp_path):
    path = tmp_path / "batching_parameters.txt"
    path.write_text("max_batch_size { value: 7 } num_batch_threads { value: 2 }")
    assert _batching(parsed()) == DEFAULT_BATCHING
    assert _batching(parsed("--no-batching")) is None
    assert _batching(parsed("--max-batch-size=9")).max_batch_size == 9
    batching = _batching(parsed(f"--batching-parameters={path}", "--batch-timeout-micros=5"))
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
def test_metrics_are_where_tf_servings_file_says(tmp_path, content, expected):
    (tmp_path / "monitoring.config").write_text(content)
    assert _metrics_path(tmp_path / "monitoring.config") == expected
    assert _metrics_path(None) == METRICS_PATH


def test_a_running_server_keeps_to_its_options(model_directory, tmp_path):
    (tmp_path / "monitoring.config").write_text("")
    options = ("--max-tokens=3", f"--monitoring-config={tmp_path / 'monitoring.config'}")
    with running(model_directory, *options) as server:
        url = f"http://127.0.0.1:{server.rest_port}"
        body = b'{"instances": ["a b c d"]}'
        for path, data in (("/v1/models/elmo:predict", body), (METRICS_PATH, None)):
            with pytest.raises(urllib.error.HTTPError, match="400") as refused:
                urllib.request.urlopen(url + path, data, timeout=10)
            refused.value.close()
        ok = urllib.request.urlopen(f"{url}/v1/models/elmo:predict", body.replace(b" d", b""))
        with ok:
            assert ok.status == 200
        server.terminate()
        assert server.result() == 0


def test_the_process_ends_though_the_model_still_computes():
    code = (
        "import threading, time\n"
        "from elmo_tf.commands.serve import _end_after\n"
        "threading.Thread(target=time.sleep, args=(100,)).start()\n"
        "_end_after(0.0)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=30, check=False).returncode == 0
