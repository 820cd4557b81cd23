"""An embedder that all tests share."""

import pytest

from elmo_tf import Embedder


@pytest.fixture(scope="session")
def embedder(bilm):
    return Embedder(bilm)
