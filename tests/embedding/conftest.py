import pytest

from elmo_tf import Elmo, Embedder


@pytest.fixture(scope="session")
def elmo(bilm):
    """With a mix that is no average. None may change it."""
    elmo = Elmo(bilm)
    elmo.build()
    elmo.mixes[0].layer_weights.assign([0.4, -1.1, 0.9])
    elmo.mixes[0].scaling.assign(1.7)
    return elmo


@pytest.fixture(scope="session")
def embedder(bilm):
    return Embedder(bilm, batch_tokens=64)
