import functools
import http.server
import threading

import pytest

from reference import tf1_training


@pytest.fixture
def trained(tmp_path):
    """A training directory with a biLM that reads characters."""
    options = tf1_training.options()
    return tf1_training.write(tmp_path / "trained", options, tf1_training.weights(options))


@pytest.fixture
def website(tmp_path, monkeypatch):
    """A folder, and the address at which it is served."""
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "home"))
    folder = tmp_path / "website"
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
