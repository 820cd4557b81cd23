import json

import h5py
import numpy as np
import pytest
import tensorflow as tf

from elmo_tf import BiLMConfig, Vocabulary, cli, load_bilm
from elmo_tf.checkpoints.load import load_language_model, load_softmax
from elmo_tf.checkpoints.save import save_bilm
from elmo_tf.checkpoints.tf1 import find_tf1_checkpoint, tf1_rules, tf1_softmax_rules
from elmo_tf.layers.sampled_softmax import TiedSoftmax
from reference import checkpoint

SENTENCES = ["the cat sat", "", "한국어"]
TOKENS = ("<S>", "</S>", "<UNK>", "the", "cat", "sat", "on")
PREFIX = "model.ckpt-8"
OWN = ("bidirectional", "share_embedding_softmax")
# What the original's trainer adds to the shape.
TRAINING = {
    "bidirectional": True,
    "dropout": 0.1,
    "batch_size": 3,
    "unroll_steps": 4,
    "n_negative_samples_batch": 5,
    "all_clip_norm_val": 10.0,
    "n_epochs": 1,
    "n_train_tokens": 100,
    "n_tokens_vocab": len(TOKENS),
}


def trained_options(char_cnn=True, **changes):
    """The options.json of a training run; `changes` are of its shape or of its own settings."""
    own = {name: changes.pop(name) for name in OWN if name in changes}
    options = {**checkpoint.options(**changes), **TRAINING, **own}
    options["char_cnn"]["n_characters"] = 261
    if not char_cnn:
        del options["char_cnn"]
    return options


def published_weights(options, seed=0):
    """Random weights by their published names, and those of the embedding and the softmax."""
    weights = checkpoint.random_weights(options, seed)
    if not options.get("bidirectional"):
        weights = {name: array for name, array in weights.items() if "RNN_1" not in name}
    rng = np.random.default_rng(seed + 1)
    table = (len(TOKENS), options["lstm"]["projection_dim"])
    if "char_cnn" not in options:
        weights["embedding"] = rng.normal(size=table).astype(np.float32)
    if not options.get("share_embedding_softmax"):
        weights["softmax/W"] = rng.normal(size=table).astype(np.float32)
    weights["softmax/b"] = rng.normal(size=table[:1]).astype(np.float32)
    return weights


def trained_name(name, options):
    """What the original's graph calls a weight."""
    parts = name.split("/")
    if parts[0].startswith("RNN_"):
        direction, _, _, cell, _, weight = parts
        layer = cell.removeprefix("Cell")
        weight = {"W_0": "kernel", "B": "bias", "W_P_0": "projection/kernel"}[weight]
        scope = f"{direction}/" if options.get("bidirectional") else ""
        cells = f"multi_rnn_cell/cell_{layer}/" if options["lstm"]["n_layers"] > 1 else ""
        name = f"{scope}rnn/{cells}lstm_cell/{weight}"
    return f"lm/{name}"


def save(prefix, tensors):
    names = sorted(tensors)
    values = [tf.convert_to_tensor(tensors[name]) for name in names]
    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        tensors=values,
    )


def write(folder, options, weights, prefix=PREFIX):
    """A training directory of the original, with all that its trainer saves."""
    folder.mkdir(parents=True, exist_ok=True)
    variables = {trained_name(name, options): array for name, array in weights.items()}
    slots = {f"{name}/Adagrad": np.full_like(array, 9) for name, array in variables.items()}
    others = {"global_step": np.float32(8), "train_perplexity": np.float32(7)}
    save(folder / prefix, variables | slots | others)
    (folder / "options.json").write_text(json.dumps(options))
    # The original writes the path that the run had.
    (folder / "checkpoint").write_text(f'model_checkpoint_path: "/elsewhere/{prefix}"\n')
    Vocabulary(TOKENS).save(folder / "vocab.txt")
    return folder


def published(folder, options, weights):
    """The same weights as the published files hold them."""
    kept = {name: array for name, array in weights.items() if not name.startswith("softmax")}
    embedding = kept.pop("embedding", None)
    checkpoint.write(folder, options, kept)
    if embedding is not None:
        checkpoint.write_hdf5(folder / "token_embeddings.hdf5", {"embedding": embedding})
        Vocabulary(TOKENS).save(folder / "vocab.txt")
    return folder


@pytest.fixture
def trained(tmp_path):
    """A training directory with a biLM that reads characters."""
    options = trained_options()
    return write(tmp_path / "trained", options, published_weights(options))


def change(folder, tensors=(), drop=()):
    """Writes the checkpoint again, with other tensors or without some."""
    reader = tf.train.load_checkpoint(str(folder / PREFIX))
    old = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
    kept = {name: array for name, array in (old | dict(tensors)).items() if name not in drop}
    save(folder / PREFIX, kept)


def test_the_table_has_the_names_of_the_original_trainer():
    config = BiLMConfig.from_options(trained_options(filters=((1, 2),), n_highway=1, n_layers=2))
    cells = [f"lm/RNN_{d}/rnn/multi_rnn_cell/cell_{i}/lstm_cell" for d in (0, 1) for i in (0, 1)]
    names = {rule.dataset for rule in tf1_rules(config) + tf1_softmax_rules(config)}

    assert names == {
        "lm/char_embed",
        "lm/CNN/W_cnn_0",
        "lm/CNN/b_cnn_0",
        "lm/CNN_high_0/W_carry",
        "lm/CNN_high_0/b_carry",
        "lm/CNN_high_0/W_transform",
        "lm/CNN_high_0/b_transform",
        "lm/CNN_proj/W_proj",
        "lm/CNN_proj/b_proj",
        *(f"{cell}/kernel" for cell in cells),
        *(f"{cell}/bias" for cell in cells),
        *(f"{cell}/projection/kernel" for cell in cells),
        "lm/softmax/W",
        "lm/softmax/b",
    }


def test_one_layer_in_one_direction_has_shorter_names():
    options = trained_options(char_cnn=False, n_layers=1, dim=6, bidirectional=False)
    names = {rule.dataset for rule in tf1_rules(BiLMConfig.from_options(options))}

    assert names == {"lm/embedding", "lm/rnn/lstm_cell/kernel", "lm/rnn/lstm_cell/bias"}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"n_layers": 1},
        {"n_layers": 3, "n_highway": 0},
        {"dim": 6},
        {"filters": ((1, 2), (2, 4))},
        {"bidirectional": False},
        {"bidirectional": False, "n_layers": 1},
        {"char_cnn": False},
        {"char_cnn": False, "share_embedding_softmax": True},
        {"char_cnn": False, "bidirectional": False},
    ],
    ids=str,
)
def test_a_training_directory_gives_the_vectors_of_the_published_files(tmp_path, changes):
    options = trained_options(**changes)
    weights = published_weights(options)
    expected = load_bilm(published(tmp_path / "published", options, weights))(SENTENCES)
    bilm = load_bilm(write(tmp_path / "trained", options, weights))

    np.testing.assert_array_equal(bilm(SENTENCES)["layers"], expected["layers"])


def test_a_prefix_names_one_checkpoint_of_several(trained):
    options = trained_options()
    other = published_weights(options, seed=5)
    write(trained, options, other, "model.ckpt-16")
    newest, first = load_bilm(trained), load_bilm(str(trained / PREFIX))

    table = newest.token_encoder.char_cnn.char_embedding.numpy()
    np.testing.assert_array_equal(table, other["char_embed"])
    assert not np.array_equal(first.token_encoder.char_cnn.char_embedding, table)
    assert find_tf1_checkpoint(trained / f"{PREFIX}.index").prefix == trained / PREFIX


@pytest.mark.parametrize("content", [None, "", "nothing {", b"\xff\xfe"])
def test_one_index_needs_no_file_that_names_it(trained, content):
    (trained / "checkpoint").unlink()
    if content is not None:
        content = content if isinstance(content, bytes) else content.encode()
        (trained / "checkpoint").write_bytes(content)

    assert find_tf1_checkpoint(trained).prefix == trained / PREFIX


def test_arguments_reach_the_bilm(trained):
    bilm = load_bilm(trained, stateful=True, keep_boundaries=True)

    assert (bilm.stateful, bilm.keep_boundaries) == (True, True)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_names_tell_the_directions_where_options_do_not(tmp_path, bidirectional):
    options = trained_options(bidirectional=bidirectional)
    folder = write(tmp_path / "trained", options, published_weights(options))
    del options["bidirectional"]
    (folder / "options.json").write_text(json.dumps(options))

    assert load_bilm(folder).config.bidirectional is bidirectional


def test_weights_as_hdf5_in_the_same_directory_are_read_instead(trained):
    options = trained_options()
    weights = published_weights(options, seed=5)
    published(trained, options, weights)

    table = load_bilm(trained).token_encoder.char_cnn.char_embedding.numpy()
    np.testing.assert_array_equal(table, weights["char_embed"])


@pytest.mark.parametrize("by_prefix", [False, True])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"char_cnn": False},
        {"char_cnn": False, "share_embedding_softmax": True, "bidirectional": False},
    ],
    ids=str,
)
def test_a_language_model_has_the_softmax_and_the_vocabulary(tmp_path, changes, by_prefix):
    options = trained_options(**changes)
    weights = published_weights(options)
    folder = write(tmp_path / "trained", options, weights)
    model = load_language_model(folder / PREFIX if by_prefix else folder)

    kernel = weights.get("softmax/W", weights.get("embedding"))
    np.testing.assert_array_equal(model.softmax.kernel, kernel)
    np.testing.assert_array_equal(model.softmax.bias, weights["softmax/b"])
    assert model.vocabulary.tokens == TOKENS
    assert isinstance(model.softmax, TiedSoftmax) is ("share_embedding_softmax" in changes)


def test_a_shared_table_without_its_bilm_is_copied(tmp_path):
    options = trained_options(char_cnn=False, share_embedding_softmax=True)
    weights = published_weights(options)
    softmax = load_softmax(write(tmp_path / "trained", options, weights), len(TOKENS))

    np.testing.assert_array_equal(softmax.kernel, weights["embedding"])


def test_a_language_model_needs_the_vocabulary(trained):
    (trained / "vocab.txt").unlink()

    with pytest.raises(FileNotFoundError, match=r"There is no vocab.txt in .*trained"):
        load_language_model(trained)


def test_a_bilm_of_words_needs_the_vocabulary(tmp_path):
    options = trained_options(char_cnn=False)
    folder = write(tmp_path / "trained", options, published_weights(options))
    (folder / "vocab.txt").rename(tmp_path / "words.txt")

    with pytest.raises(FileNotFoundError, match=r"There is no vocabulary .*trained/vocab.txt"):
        load_bilm(folder)
    assert load_bilm(folder, vocabulary=tmp_path / "words.txt").vocabulary.tokens == TOKENS


def test_token_embeddings_and_a_vocabulary_go_with_other_checkpoints(trained):
    with pytest.raises(ValueError, match=r"`token_embeddings` goes with .* HDF5.*model.ckpt-8"):
        load_bilm(trained, token_embeddings="table.hdf5", vocabulary=trained / "vocab.txt")
    with pytest.raises(ValueError, match=r"`vocabulary` is for a biLM without a character CNN"):
        load_bilm(trained, vocabulary=trained / "vocab.txt")


@pytest.mark.parametrize(
    "changes", [{}, {"char_cnn": False, "share_embedding_softmax": True}], ids=str
)
def test_convert_writes_all_that_a_language_model_needs(tmp_path, changes):
    options = trained_options(**changes)
    folder = write(tmp_path / "trained", options, published_weights(options))
    target = tmp_path / "converted"
    cli._main(cli._parse(["elmo-tf", "convert", str(folder), str(target)]))
    cli._main(cli._parse(["elmo-tf", "convert", str(folder / PREFIX), str(target), "--overwrite"]))

    before, after = load_language_model(folder), load_language_model(target)
    for one, other in zip(before.weights, after.weights, strict=True):
        np.testing.assert_array_equal(one, other)
    assert (target / "vocab.txt").read_bytes() == (folder / "vocab.txt").read_bytes()


def test_convert_copies_no_vocabulary_of_another_name(tmp_path, trained):
    (trained / "vocab.txt").rename(trained / "words.txt")
    target = tmp_path / "converted"
    cli._main(cli._parse(["elmo-tf", "convert", str(trained), str(target)]))

    names = {path.name for path in target.iterdir()}
    assert names == {"options.json", "weights.hdf5", "softmax.hdf5"}
    with h5py.File(target / "softmax.hdf5") as file:
        assert file["W"].shape == (len(TOKENS), 6)


def test_a_converted_bilm_is_saved_as_the_published_ones(tmp_path, trained):
    save_bilm(load_bilm(trained), tmp_path / "saved")

    weights = published_weights(trained_options())
    with h5py.File(tmp_path / "saved" / "weights.hdf5") as file:
        for name in checkpoint.shapes(trained_options()):
            np.testing.assert_array_equal(file[name], weights[name])


def test_a_directory_of_another_kind_is_none_of_these(tmp_path, checkpoint_directory):
    paths = (checkpoint_directory, tmp_path, tmp_path / "none", ("options.json", "weights.hdf5"))

    assert [find_tf1_checkpoint(path) for path in paths] == [None] * 4


def test_options_must_stand_beside_the_checkpoint(trained):
    (trained / "options.json").unlink()

    with pytest.raises(FileNotFoundError, match=r"no options.json in .*beside model.ckpt-8"):
        load_bilm(trained)


def test_a_checkpoint_that_is_named_must_be_there(trained):
    (trained / f"{PREFIX}.index").unlink()

    with pytest.raises(FileNotFoundError, match=r"no model.ckpt-8.index in .*`checkpoint` names"):
        load_bilm(trained)


def test_several_checkpoints_of_which_none_is_named_are_refused(trained):
    options = trained_options()
    write(trained, options, published_weights(options), "model.ckpt-16")
    (trained / "checkpoint").unlink()

    with pytest.raises(ValueError, match=r"holds 2 checkpoints, .*-16, model.ckpt-8. Pass a pre"):
        load_bilm(trained)


def test_a_missing_data_file_is_named(trained):
    (trained / f"{PREFIX}.data-00000-of-00001").unlink()

    with pytest.raises(FileNotFoundError, match=r"There is no model.ckpt-8.data-00000-of-00001 in"):
        load_bilm(trained)


@pytest.mark.parametrize("damage", ["cut", "changed", "emptied"])
def test_a_damaged_data_file_is_named(trained, damage):
    path = trained / f"{PREFIX}.data-00000-of-00001"
    content = bytearray(path.read_bytes())
    start = bytes(content).index(published_weights(trained_options())["char_embed"].tobytes())
    content[start] ^= 255
    path.write_bytes({"cut": content[:start], "changed": content, "emptied": b""}[damage])

    with pytest.raises(ValueError, match=r"Cannot read `lm/.*` from .*ckpt-8: .* is damaged"):
        load_bilm(trained)


@pytest.mark.parametrize("length", [0, 100])
def test_a_damaged_index_is_named(trained, length):
    path = trained / f"{PREFIX}.index"
    path.write_bytes(path.read_bytes()[:length])

    with pytest.raises(ValueError, match=r"Cannot open .*ckpt-8.index: .* is damaged"):
        load_bilm(trained)


def test_a_missing_variable_is_named(trained):
    change(trained, drop=["lm/CNN_proj/b_proj", "lm/CNN_proj/b_proj/Adagrad"])

    with pytest.raises(ValueError, match=r"ckpt-8 does not fit .* lacks `lm/CNN_proj/b_proj`"):
        load_bilm(trained)


@pytest.mark.parametrize("name", ["lm/softmax/W", "lm/softmax/b"])
def test_a_missing_variable_of_the_softmax_is_named(trained, name):
    change(trained, drop=[name, f"{name}/Adagrad"])

    load_bilm(trained)
    with pytest.raises(ValueError, match=rf"ckpt-8 does not fit the model: .* lacks `{name}`"):
        load_language_model(trained)


def test_a_variable_of_another_shape_is_named(trained):
    change(trained, {"lm/CNN_proj/b_proj": np.zeros(5, np.float32)})

    with pytest.raises(
        ValueError, match=r"`lm/CNN_proj/b_proj` into .*ckpt-8 has \(5,\), .* expects \(6,\)"
    ):
        load_bilm(trained)


def test_a_vocabulary_of_another_size_is_refused(trained):
    Vocabulary(TOKENS[:-1]).save(trained / "vocab.txt")

    with pytest.raises(ValueError, match=r"`lm/softmax/W`.* has \(7, 6\), .* expects \(6, 6\)"):
        load_language_model(trained)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_highway": 1}, r"the model has no use for `lm/CNN_high_1/W_carry`"),
        ({"n_layers": 3}, r"the file lacks `lm/RNN_0/rnn/multi_rnn_cell/cell_2/lstm_cell/bias`"),
        ({"bidirectional": False}, r"no use for `lm/RNN_0/rnn/multi_rnn_cell/cell_0/lstm_cell/bi"),
        ({"char_cnn": False}, r"lacks `lm/embedding`; the model has no use for `lm/CNN/W_cnn_0`"),
    ],
    ids=str,
)
def test_options_of_another_model_are_refused(trained, changes, message):
    (trained / "options.json").write_text(json.dumps(trained_options(**changes)))

    with pytest.raises(ValueError, match=message):
        load_bilm(trained)


def test_a_checkpoint_of_another_program_is_refused(trained):
    save(trained / PREFIX, {"bilm/char_embed": np.zeros((262, 5), np.float32)})

    with pytest.raises(ValueError, match=r"ckpt-8 holds no variable below `lm/`"):
        load_bilm(trained)
