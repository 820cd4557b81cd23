import json

import h5py
import numpy as np
import pytest

from elmo_tf import load_bilm
from elmo_tf.checkpoints.load import load_config, load_language_model
from elmo_tf.layers.sampled_softmax import TiedSoftmax
from reference import tf1_training
from reference.tf1_training import PREFIX, TOKENS


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"n_layers": 1, "dim": 6},
        {"n_layers": 3, "n_highway": 0, "filters": ((1, 2), (2, 4))},
        {"bidirectional": False},
        {"bidirectional": False, "n_layers": 1},
        {"char_cnn": False},
        {"char_cnn": False, "share_embedding_softmax": True, "bidirectional": False},
    ],
    ids=str,
)
def test_a_training_directory_gives_the_same_weights_as_published_files(tmp_path, changes):
    options = tf1_training.options(**changes)
    weights = tf1_training.weights(options)
    published = load_bilm(tf1_training.published(tmp_path / "published", options, weights))
    bilm = load_bilm(tf1_training.write(tmp_path / "trained", options, weights))

    assert bilm.config == published.config
    for weight, wanted in zip(bilm.weights, published.weights, strict=True):
        np.testing.assert_array_equal(weight, wanted)


def test_a_prefix_selects_one_of_several_checkpoints(trained):
    options = tf1_training.options()
    other = tf1_training.weights(options, seed=5)
    tf1_training.write(trained, options, other, "model.ckpt-16")
    newest, first = load_bilm(trained), load_bilm(str(trained / PREFIX))

    table = newest.token_encoder.char_cnn.char_embedding.numpy()
    np.testing.assert_array_equal(table, other["char_embed"])
    assert not np.array_equal(first.token_encoder.char_cnn.char_embedding, table)
    by_index = load_bilm(trained / f"{PREFIX}.index").token_encoder.char_cnn.char_embedding
    np.testing.assert_array_equal(by_index, first.token_encoder.char_cnn.char_embedding)


@pytest.mark.parametrize("content", [None, "", "nothing {", b"\xff\xfe"])
def test_a_single_index_is_found_without_a_valid_checkpoint_file(trained, content):
    (trained / "checkpoint").unlink()
    if content is not None:
        content = content if isinstance(content, bytes) else content.encode()
        (trained / "checkpoint").write_bytes(content)

    assert load_config(trained).lstm.dim == 10


@pytest.mark.parametrize("bidirectional", [False, True])
def test_directions_missing_in_options_are_inferred_from_variable_names(tmp_path, bidirectional):
    options = tf1_training.options(bidirectional=bidirectional)
    folder = tf1_training.write(tmp_path / "trained", options, tf1_training.weights(options))
    del options["bidirectional"]
    (folder / "options.json").write_text(json.dumps(options))

    assert load_bilm(folder).config.bidirectional is bidirectional


def test_hdf5_weights_in_the_same_directory_take_precedence(trained):
    options = tf1_training.options()
    weights = tf1_training.weights(options, seed=5)
    tf1_training.published(trained, options, weights)

    table = load_bilm(trained).token_encoder.char_cnn.char_embedding.numpy()
    np.testing.assert_array_equal(table, weights["char_embed"])


@pytest.mark.parametrize(
    ("changes", "by_prefix"),
    [
        ({}, False),
        ({"char_cnn": False}, True),
        ({"char_cnn": False, "share_embedding_softmax": True, "bidirectional": False}, False),
    ],
    ids=str,
)
def test_a_language_model_is_loaded_with_softmax_and_vocabulary(tmp_path, changes, by_prefix):
    options = tf1_training.options(**changes)
    weights = tf1_training.weights(options)
    folder = tf1_training.write(tmp_path / "trained", options, weights)
    model = load_language_model(folder / PREFIX if by_prefix else folder)

    kernel = weights.get("softmax/W", weights.get("embedding"))
    np.testing.assert_array_equal(model.softmax.kernel, kernel)
    np.testing.assert_array_equal(model.softmax.bias, weights["softmax/b"])
    assert model.vocabulary.tokens == TOKENS
    assert isinstance(model.softmax, TiedSoftmax) is ("share_embedding_softmax" in changes)


def test_a_token_bilm_and_a_language_model_require_a_vocabulary(tmp_path):
    options = tf1_training.options(char_cnn=False)
    folder = tf1_training.write(tmp_path / "trained", options, tf1_training.weights(options))
    (folder / "vocab.txt").rename(tmp_path / "words.txt")

    for load in (load_bilm, load_language_model):
        with pytest.raises(FileNotFoundError, match=r"There is no vocab.txt in .*trained"):
            load(folder)
    assert load_bilm(folder, vocabulary=tmp_path / "words.txt").vocabulary.tokens == TOKENS


@pytest.mark.parametrize(
    "changes", [{}, {"char_cnn": False, "share_embedding_softmax": True}], ids=str
)
def test_convert_writes_a_complete_language_model(tmp_path, command, changes):
    options = tf1_training.options(**changes)
    folder = tf1_training.write(tmp_path / "trained", options, tf1_training.weights(options))
    target = tmp_path / "converted"
    command("convert", folder, target)
    command("convert", folder / PREFIX, target, "--overwrite")

    before, after = load_language_model(folder), load_language_model(target)
    for one, other in zip(before.weights, after.weights, strict=True):
        np.testing.assert_array_equal(one, other)
    assert (target / "vocab.txt").read_bytes() == (folder / "vocab.txt").read_bytes()


def test_convert_copies_only_a_vocabulary_named_vocab_txt(tmp_path, command, trained):
    (trained / "vocab.txt").rename(trained / "words.txt")
    target = tmp_path / "converted"
    command("convert", trained, target)

    names = {path.name for path in target.iterdir()}
    assert names == {"options.json", "weights.hdf5", "softmax.hdf5"}
    with h5py.File(target / "softmax.hdf5") as file:
        assert file["W"].shape == (len(TOKENS), 6)
