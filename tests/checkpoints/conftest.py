import pytest

from reference import tf1_training


@pytest.fixture
def trained(tmp_path):
    """A training directory with a biLM that reads characters."""
    options = tf1_training.options()
    return tf1_training.write(tmp_path / "trained", options, tf1_training.weights(options))
