import json

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf import Vocabulary, load_bilm
from elmo_tf.checkpoints.load import load_config, load_language_model
from elmo_tf.checkpoints.published import save_bilm, save_language_model
from elmo_tf.evaluation.perplexity import perplexity
from elmo_tf.layers.sampled_softmax import TiedSoftmax
from elmo_tf.models.copies import model_digest
from reference import bilm as reference_bilm
from reference import tf1_training
from reference.softmax import full_loss
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
    assert model_digest(bilm) == model_digest(published)


def test_dump_weights_names_the_cell_of_a_single_layer_without_its_number(tmp_path):
    options = tf1_training.options(n_layers=1)
    weights = tf1_training.weights(options)
    dumped = {name.replace("MultiRNNCell/Cell0/", ""): array for name, array in weights.items()}
    usual = load_bilm(tf1_training.published(tmp_path / "usual", options, weights))
    other = load_bilm(tf1_training.published(tmp_path / "dumped", options, dumped))
    assert model_digest(usual) == model_digest(other)


def test_a_prefix_selects_one_of_several_checkpoints(trained):
    options = tf1_training.options()
    first, newest = tf1_training.weights(options), tf1_training.weights(options, seed=5)
    tf1_training.write(trained, options, newest, "model.ckpt-16")

    prefix = trained / PREFIX
    for path, wanted in ((trained, newest), (str(prefix), first), (f"{prefix}.index", first)):
        table = load_bilm(path).token_encoder.char_cnn.char_embedding
        np.testing.assert_array_equal(table, wanted["char_embed"])


@pytest.mark.parametrize("content", [b"", b"\xff{", rb'model_checkpoint_path: "D:\\model.ckpt-8"'])
def test_a_single_index_is_found_without_a_valid_checkpoint_file(trained, content):
    (trained / "checkpoint").write_bytes(content)
    (trained / f"._{PREFIX}.index").touch()  # of macOS
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
    bilm = load_bilm(tf1_training.published(trained, options, weights))
    np.testing.assert_array_equal(bilm.token_encoder.char_cnn.char_embedding, weights["char_embed"])


# Seven rows, as `TOKENS` has.
UNORDERED = ["the", "</S> ", "!!!MAXTERMID", "<S>", "cat", "\u00a0the", "<UNK>", "10\u00a0000"]
ROWS = {"the": 4, "cat": 3, "10\u00a0000": 6, "<S>": 2, "</S>": 1}


def oracle(sentence, options, weights):
    """The perplexities of a sentence, with the tables in the order of the file."""
    tokens = ["<S>", *sentence.split(), "</S>"]
    ids = np.array([ROWS.get(token, 5) for token in tokens])
    if "char_cnn" in options:
        vectors = reference_bilm.token_vectors(tokens[1:-1], options, weights)
    else:
        vectors = weights["embedding"][ids]
    layers, _ = reference_bilm.layers_of_vectors(vectors, options, weights)
    forward, backward = np.split(layers[-1], 2, axis=1)
    table = weights.get("softmax/W", weights.get("embedding")), weights["softmax/b"]
    return {
        "forward": np.exp(full_loss(forward[:-1], ids[1:], *table).mean()),
        "backward": np.exp(full_loss(backward[1:], ids[:-1], *table).mean()),
    }


@pytest.mark.parametrize("is_converted", [False, True])
@pytest.mark.parametrize(
    "changes",
    [{}, {"char_cnn": False}, {"char_cnn": False, "share_embedding_softmax": True}],
    ids=str,
)
def test_a_vocabulary_in_any_order_gives_the_perplexity_of_the_original(
    tmp_path, changes, is_converted
):
    options = tf1_training.options(**changes)
    weights = tf1_training.weights(options)
    folder = tf1_training.write(tmp_path / "trained", options, weights)
    (folder / "vocab.txt").write_text("\n".join(UNORDERED), "utf-8")
    (tmp_path / "text.txt").write_text("the cat is the 10 cat")
    model = load_language_model(folder / PREFIX if is_converted else folder)
    assert isinstance(model.softmax, TiedSoftmax) is ("share_embedding_softmax" in changes)
    if is_converted:
        save_language_model(model, tmp_path / "converted")
        model = load_language_model(tmp_path / "converted")

    found = perplexity(model, [tmp_path / "text.txt"], shown=False)

    expected = oracle("the cat is the 10 cat", options, weights)
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-5)
    if changes:
        vectors = model.bilm([["10\u00a0000", "the", "?"]])["layers"][0, 0, :, :6]
        np.testing.assert_array_equal(vectors, weights["embedding"][[6, 4, 5]])


def test_without_a_vocabulary_a_token_bilm_reads_ids_and_a_language_model_is_refused(tmp_path):
    options = tf1_training.options(char_cnn=False)
    folder = tf1_training.write(tmp_path / "trained", options, tf1_training.weights(options))
    (folder / "vocab.txt").rename(tmp_path / "words.txt")

    with pytest.raises(FileNotFoundError, match=r"There is no vocab.txt in .*trained"):
        load_language_model(folder)
    bilm = load_bilm(folder)
    save_bilm(bilm, tmp_path / "saved")
    ids = np.array([[4, 5]], np.int32)
    again = load_bilm(tmp_path / "saved")
    np.testing.assert_array_equal(again(ids)["layers"], bilm(ids)["layers"])
    assert load_bilm(folder, vocabulary=tmp_path / "words.txt").vocabulary.tokens == TOKENS


def test_several_checkpoints_without_a_checkpoint_file_are_refused(trained):
    options = tf1_training.options()
    tf1_training.write(trained, options, tf1_training.weights(options), "model.ckpt-16")
    (trained / "checkpoint").unlink()

    with pytest.raises(ValueError, match=r"several checkpoints .*-16, model.ckpt-8. Pass a pre"):
        load_bilm(trained)


@pytest.mark.parametrize("length", [100, 0])
def test_the_error_names_a_damaged_index(trained, length):
    path = trained / f"{PREFIX}.index"
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(ValueError, match=r"Cannot open .*ckpt-8.index: "):
        load_bilm(trained)


def test_a_missing_softmax_and_a_vocabulary_of_another_size_are_refused(trained):
    reader = tf.train.load_checkpoint(str(trained / PREFIX))
    names = reader.get_variable_to_shape_map().keys() - {"lm/softmax/b", "lm/softmax/b/Adagrad"}
    arrays = {name: reader.get_tensor(name) for name in names}
    Vocabulary(TOKENS[:-1]).save(trained / "vocab.txt")

    message = r"vocab\.txt has 6 tokens, but `W` of the checkpoint has 7 rows. Is it the vocabulary"
    with pytest.raises(ValueError, match=message):
        load_language_model(trained)
    tf1_training.save(trained / PREFIX, arrays)
    load_bilm(trained)
    with pytest.raises(ValueError, match=r"ckpt-8 does not fit the model: .* lacks `lm/softmax/b`"):
        load_language_model(trained)
