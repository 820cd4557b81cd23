import pickle

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf import Embedder
from elmo_tf.pipelines import EmbeddingHandler, KeyedEmbeddingHandler
from elmo_tf.pipelines.local_copies import local_tree

pytestmark = pytest.mark.more

SENTENCES = ["the cat sat", "", ["서울", "a"], [b"\xff", "cat"], b"a \xff", "a b c d e f g h i"]
PLAIN = [item.decode("utf-8", "surrogateescape") if i == 4 else item for i, item in
         enumerate(SENTENCES)]  # fmt: skip


def results(handler, sentences):
    return list(handler.run_inference(sentences, handler.load_model()))


def assert_same(found, expected):
    for result, array in zip(found, expected, strict=True):
        assert result.inference.dtype == np.float32
        assert result.inference.shape == array.shape
        np.testing.assert_allclose(result.inference, array, atol=1e-5)


@pytest.mark.parametrize("layers", ["all", "mix"])
def test_an_exported_elmo_gives_the_vectors_of_its_source(elmo, exported_elmo, layers):
    handler = EmbeddingHandler(exported_elmo, layers, batch_tokens=12)

    found = results(handler, SENTENCES)

    assert [result.example for result in found] == SENTENCES
    assert_same(found, Embedder(elmo, layers).embed(PLAIN))


@pytest.mark.parametrize("layers", ["all", "top", "average"])
def test_an_exported_forward_bilm_gives_the_vectors_of_its_source(
    forward_bilm, exported_forward_bilm, layers
):
    found = results(EmbeddingHandler(exported_forward_bilm, layers), SENTENCES)

    assert_same(found, Embedder(forward_bilm, layers).embed(PLAIN))


def test_a_pickled_handler_loads_a_checkpoint_given_as_two_files(
    checkpoint_directory, bilm, remote
):
    pair = checkpoint_directory / "options.json", remote(checkpoint_directory / "weights.hdf5")
    handler = pickle.loads(pickle.dumps(EmbeddingHandler(pair, "top", batch_tokens=12)))

    assert_same(results(handler, SENTENCES), Embedder(bilm, "top").embed(PLAIN))


def test_the_model_path_can_be_updated_to_a_remote_path(
    checkpoint_directory, bilm, remote, tmp_path
):
    handler = EmbeddingHandler(tmp_path / "nowhere")
    handler.update_model_path(remote(checkpoint_directory))
    handler.update_model_path(None)

    assert_same(results(handler, SENTENCES), Embedder(bilm).embed(PLAIN))


def test_batches_are_sized_in_tokens_and_sentence_sizes_are_capped(checkpoint_directory):
    handler = EmbeddingHandler(checkpoint_directory, batch_tokens=4)

    for kwargs, example in (
        (handler.batch_elements_kwargs(), lambda sentence: sentence),
        (KeyedEmbeddingHandler(handler).batch_elements_kwargs(), lambda sentence: (7, sentence)),
    ):
        size = kwargs["element_size_fn"]
        assert kwargs["min_batch_size"] == kwargs["max_batch_size"] == 32
        assert [size(example(s)) for s in ("", "the cat", ["a b"], b"a " * 99)] == [2, 4, 3, 32]


def test_metrics_have_a_namespace_and_processes_can_share_a_model(checkpoint_directory):
    handler = EmbeddingHandler(checkpoint_directory)

    assert handler.get_metrics_namespace() == "BeamML_elmo_tf"
    assert not handler.share_model_across_processes()
    assert EmbeddingHandler(checkpoint_directory, large_model=True).share_model_across_processes()


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"layers": "bottom"}, r"`layers` must be one of all.*Received: 'bottom'"),
        ({"precision": "float8"}, r"`precision` must be one of float32.*Received: 'float8'"),
        ({"batch_tokens": 0}, r"`batch_tokens` must be an integer of at least 1"),
        ({"precision": "bfloat16"}, r"is an exported model, whose precision .*bfloat16"),
    ],
)
def test_arguments_are_checked_before_a_run(exported_elmo, kwargs, message):
    with pytest.raises(ValueError, match=message):
        EmbeddingHandler(exported_elmo, **kwargs)


def test_the_precision_of_a_remote_export_is_checked_when_loaded(exported_elmo, remote):
    handler = EmbeddingHandler(remote(exported_elmo), precision="bfloat16")

    with pytest.raises(ValueError, match=r"whose precision was chosen at export"):
        handler.load_model()


def test_a_saved_model_without_the_tokens_signature_is_refused(tmp_path):
    tf.saved_model.save(tf.Module(), str(tmp_path / "other"))

    with pytest.raises(ValueError, match=r"no signature `tokens` with the outputs elmo, "):
        EmbeddingHandler(tmp_path / "other").load_model()


def test_an_error_names_a_missing_remote_path(remote, tmp_path):
    with (
        pytest.raises(FileNotFoundError, match=r"copied://.*nowhere does not exist"),
        local_tree(remote(tmp_path / "nowhere")),
    ):
        pass
