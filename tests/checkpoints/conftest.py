import dataclasses
import functools
import http.server
import threading
from pathlib import Path

import pytest

from elmo_tf.checkpoints.named_models import MODELS
from reference import manylangs as manylangs_reference
from reference import tf1_training
from torch_files import legacy_file


@pytest.fixture
def trained(tmp_path):
    """A TensorFlow 1 training directory of a character-based biLM."""
    options = tf1_training.options()
    return tf1_training.write(tmp_path / "trained", options, tf1_training.weights(options))


@pytest.fixture
def manylangs(tmp_path):
    """A checkpoint of ELMoForManyLangs with a lexicon, which a test may change."""
    shape = manylangs_reference.SHAPE
    weights = manylangs_reference.random_weights(shape)
    manylangs_reference.write(tmp_path / "manylangs", shape, weights, legacy_file)
    return tmp_path / "manylangs"


@pytest.fixture
def website(tmp_path, monkeypatch):
    """A folder and the URL at which it is served."""
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "home"))
    folder = tmp_path / "website"
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        arguments = {"poll_interval": 0.01}  # shutdown waits up to this long
        threading.Thread(target=server.serve_forever, kwargs=arguments, daemon=True).start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def serve_named(website, monkeypatch):
    """A function that moves the files of a named model to the website, and returns their paths."""
    folder, address = website

    def serve(name):
        files = [folder / Path(file).name for file in MODELS[name].addresses]
        addresses = tuple(f"{address}/{file.name}" for file in files)
        monkeypatch.setitem(MODELS, name, dataclasses.replace(MODELS[name], addresses=addresses))
        return files

    return serve
