import keras
import pytest


@pytest.fixture(autouse=True)
def seed():
    keras.utils.set_random_seed(0)
