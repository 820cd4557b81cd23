import numpy as np
import pytest
import tensorflow as tf

from elmo_tf import Embedder
from elmo_tf.pipelines.exported_embedder import load_embedder
from elmo_tf.saved_models import export

pytestmark = pytest.mark.more

SENTENCES = [["the", "cat", "sat"], [], ["서울", "a"], ["\udcff", "cat"], list("abcdefghi")]


@pytest.fixture(scope="session")
def exported_elmo(tmp_path_factory, elmo):
    """A folder of two versions; version 1 is not a valid model."""
    directory = tmp_path_factory.mktemp("exported")
    export(elmo, directory, version=2, check=False)
    (directory / "1").mkdir()
    (directory / "1" / "saved_model.pb").touch()
    return directory


@pytest.fixture(scope="session")
def exported_forward_bilm(tmp_path_factory, forward_bilm):
    """The folder of one version."""
    return export(forward_bilm, tmp_path_factory.mktemp("exported_forward"), check=False)


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == np.float32
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("layers", ["all", "mix", "concat", 1])
def test_an_exported_elmo_gives_the_vectors_of_its_source(elmo, exported_elmo, layers):
    found = load_embedder(exported_elmo, layers, batch_tokens=12).embed(SENTENCES)

    assert_same(found, Embedder(elmo, layers).embed(SENTENCES))


@pytest.mark.parametrize("layers", ["all", "average"])
def test_an_exported_forward_bilm_gives_the_vectors_of_its_source(
    forward_bilm, exported_forward_bilm, layers
):
    found = load_embedder(exported_forward_bilm, layers).embed(SENTENCES)

    assert_same(found, Embedder(forward_bilm, layers).embed(SENTENCES))


def test_a_checkpoint_is_embedded_by_an_embedder(checkpoint_directory):
    assert isinstance(load_embedder(checkpoint_directory, "top"), Embedder)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("bottom",), r"`layers` must be one of all.*Received: 'bottom'"),
        ((3,), r"`layers` must be at most 2"),
        (("all", "bfloat16"), r"is an exported model, whose precision .*bfloat16"),
    ],
)
def test_invalid_arguments_are_refused(exported_elmo, arguments, message):
    with pytest.raises(ValueError, match=message):
        load_embedder(exported_elmo, *arguments)


def test_a_saved_model_without_the_tokens_signature_is_refused(tmp_path):
    tf.saved_model.save(tf.Module(), str(tmp_path / "other"))

    with pytest.raises(ValueError, match=r"no signature `tokens` with the outputs elmo, "):
        load_embedder(tmp_path / "other")
