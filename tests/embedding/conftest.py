import functools

import pytest

from elmo_tf import Embedder


@pytest.fixture(scope="session")
def embedder(bilm):
    return Embedder(bilm, batch_tokens=64)


@pytest.fixture(scope="session")
def embedder_of(bilm):
    """Embedders of `bilm` by their `layers`, shared by all tests: each traces its graphs once."""
    return functools.cache(functools.partial(Embedder, bilm))
