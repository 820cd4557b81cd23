"""A tiny checkpoint with random weights, its biLM, and fixtures that all tests share."""

import contextlib
import ctypes
import fcntl
import gc
import io
import os
import resource
import signal

import numpy as np
import pytest

# Before TensorFlow starts: the test processes share the cores, so each operation uses one thread.
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import elmo_tf
from reference import checkpoint


def pytest_addoption(parser):
    parser.addoption(
        "--quick",
        action="store_true",
        help="run graphs without optimizing them (Grappler), which takes a third of the time of "
        "most tests",
    )


def pytest_configure(config):
    if config.getoption("quick"):
        os.environ["QUICK"] = "1"  # for `launching`
        _optimize_graphs(False)


def _optimize_graphs(is_on):
    import tensorflow as tf

    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": not is_on})


@pytest.fixture
def optimized_graphs(request):
    """Runs a test with optimized graphs, as users do, even with `--quick`."""
    _optimize_graphs(True)
    yield
    _optimize_graphs(not request.config.getoption("quick"))


@pytest.fixture(scope="session", autouse=True)
def ctrl_c_interrupts():
    """Restores SIGINT, which processes in the background of a shell and their children ignore."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def cache_of_the_tests(tmp_path_factory):
    """A temporary folder for downloads and stored layers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KERAS_HOME", str(tmp_path_factory.mktemp("keras")))
        yield


@pytest.fixture(scope="module", autouse=True)
def small_heap():
    """Returns the memory of reference cycles to the operating system after each module.

    The remaining objects are frozen, so that they are not searched after each module. Modules that
    train run eagerly, because tracing takes longer than a few steps.
    """
    yield
    gc.collect()
    gc.freeze()
    with contextlib.suppress(OSError, AttributeError):  # only glibc has it
        ctypes.CDLL("libc.so.6").malloc_trim(0)


@pytest.fixture(autouse=True)
def log_level_is_warning():
    """Resets the log level and the warnings that appear once, which an earlier test changed."""
    from absl import logging

    from elmo_tf import logs

    logging.set_verbosity(logging.WARNING)
    logs._warned.clear()


@pytest.fixture(scope="session")
def options():
    return checkpoint.options()


@pytest.fixture(scope="session")
def weights(options):
    return checkpoint.random_weights(options)


@pytest.fixture(scope="session")
def checkpoint_directory(tmp_path_factory, options, weights):
    return checkpoint.write(tmp_path_factory.mktemp("checkpoint"), options, weights)


@pytest.fixture(scope="session")
def bilm(checkpoint_directory):
    """Shared by all tests: do not change it."""
    return elmo_tf.load_bilm(checkpoint_directory)


@pytest.fixture(scope="session")
def word_bilm():
    """Reads whole tokens: `a` is token 3, `b` is token 4. Shared by all tests: do not change it."""
    lstm = elmo_tf.LSTMConfig(dim=7, projection_dim=4)
    config = elmo_tf.BiLMConfig(None, lstm, num_tokens=5)
    return elmo_tf.BiLM(config, vocabulary=elmo_tf.Vocabulary.build(["a a b"]))


@pytest.fixture(scope="session")
def elmo(bilm):
    """An `Elmo` with unequal mixing weights. Shared by all tests: do not change it."""
    elmo = elmo_tf.Elmo(bilm, l2=0.3)
    elmo.mixes[0].layer_weights.assign([0.4, -1.1, 0.9])
    elmo.mixes[0].scaling.assign(1.7)
    return elmo


@pytest.fixture
def fresh_bilm(checkpoint_directory):
    """Loads a new biLM, which a test may change."""
    return lambda **kwargs: elmo_tf.load_bilm(checkpoint_directory, **kwargs)


@pytest.fixture(scope="session")
def forward_directory(tmp_path_factory, options, weights):
    """The forward direction of the same checkpoint."""
    forward = {name: array for name, array in weights.items() if not name.startswith("RNN_1")}
    directory = tmp_path_factory.mktemp("forward")
    return checkpoint.write(directory, {**options, "bidirectional": False}, forward)


@pytest.fixture(scope="session")
def forward_bilm(forward_directory):
    """The forward half of `bilm`. Shared by all tests: do not change it."""
    return elmo_tf.load_bilm(forward_directory)


@pytest.fixture(scope="session")
def new_language_model():
    """Adds a softmax over a small vocabulary to a biLM, with random weights."""
    from elmo_tf.layers import SampledSoftmax
    from elmo_tf.models.language_model import LanguageModel

    vocabulary = elmo_tf.Vocabulary.build(["the the cat cat sat on"])

    def new(bilm):
        model = LanguageModel(bilm, SampledSoftmax(len(vocabulary), 3), vocabulary)
        rng = np.random.default_rng(0)
        for weight in model.softmax.trainable_weights:
            weight.assign(rng.normal(size=weight.shape))
        return model

    return new


@pytest.fixture(scope="session")
def language_model(bilm, new_language_model):
    """Shared by all tests: do not change it."""
    return new_language_model(bilm)


@pytest.fixture(scope="session")
def forward_model(forward_bilm, language_model):
    """The forward direction of `language_model`. Shared by all tests: do not change it."""
    from elmo_tf.models.language_model import LanguageModel

    return LanguageModel(forward_bilm, language_model.softmax, language_model.vocabulary)


@pytest.fixture
def unverified_exports(monkeypatch):
    """Skips the comparison of an export with its model, which takes most of the time."""
    from elmo_tf.saved_models.exporting import export, task_exporting

    monkeypatch.setattr(export, "verify", lambda *arguments: None)
    monkeypatch.setattr(task_exporting, "compare_signatures", lambda *arguments: None)


def _eagerly():
    """Runs functions without tracing them, which is faster for a few calls.

    Task models predict with concrete functions, which `run_functions_eagerly` does not affect.
    """
    import tensorflow as tf

    from elmo_tf.tasks import TaskModel

    def call_itself(model, function):
        return lambda inputs: function(model.named_inputs(inputs))

    before = tf.config.functions_run_eagerly()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TaskModel, "as_graph", call_itself)
        tf.config.run_functions_eagerly(True)
        yield
        tf.config.run_functions_eagerly(before)


eager_module = pytest.fixture(_eagerly, scope="module", name="eager_module")
eager_functions = pytest.fixture(_eagerly, name="eager_functions")


@pytest.fixture
def locked():
    """A context manager that locks a file as HDF5 does while it writes the file."""

    @contextlib.contextmanager
    def lock(path):
        with open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    return lock


@pytest.fixture
def files_limited_to():
    """A context in which the process cannot write files larger than a number of bytes."""

    @contextlib.contextmanager
    def limit(size):
        _, most = limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write fails instead
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            signal.signal(signal.SIGXFSZ, handler)

    return limit


@pytest.fixture
def keras_round_trip(tmp_path):
    """Saves a model as `.keras` and loads it."""
    import keras

    def save_and_load(model):
        path = tmp_path / "model.keras"
        model.save(path)
        return keras.saving.load_model(path)

    return save_and_load


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """A small checkpoint that the command trained."""
    from elmo_tf import cli
    from runs import LINES

    folder = tmp_path_factory.mktemp("trained")
    text, vocab, run = (str(folder / name) for name in ("text.txt", "vocab.txt", "run"))
    (folder / "text.txt").write_text("\n".join(LINES) + "\n")
    options = "--preset tiny --steps 4 --seed 5 --batch-size 2 --unroll 3"
    for arguments in (
        f"vocab {text} --output {vocab} --max-size 9",
        f"train --corpus {text} --vocab {vocab} --workdir {run} --valid {text} {options}",
    ):
        with contextlib.contextmanager(_eagerly)():
            assert cli.main(arguments.split()) == 0
    return folder / "run"


@pytest.fixture
def command(capsys):
    """Calls the command in this process; returns its status, stdout and stderr."""
    from elmo_tf import cli

    def call(*arguments):
        capsys.readouterr()
        try:
            status = cli.main([*map(str, arguments)])
        except SystemExit as exit:
            status = exit.code
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


@pytest.fixture
def stdout_of(command):
    """Calls the command, which must succeed; returns its stdout."""

    def call(*arguments):
        status, out, err = command(*arguments)
        assert status == 0, err
        return out

    return call


@pytest.fixture
def stdin(monkeypatch):
    """Sets the bytes that the command reads from stdin."""

    def set_to(content):
        stream = io.BytesIO(content)
        stream.name = "<stdin>"
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(stream))

    return set_to
