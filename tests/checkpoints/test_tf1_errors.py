import json

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf import Vocabulary, load_bilm
from elmo_tf.checkpoints.load import load_language_model
from reference import tf1_training
from reference.tf1_training import PREFIX, TOKENS


def change(folder, tensors=(), drop=()):
    """Rewrites the checkpoint with some tensors replaced or dropped."""
    reader = tf.train.load_checkpoint(str(folder / PREFIX))
    old = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
    kept = {name: array for name, array in (old | dict(tensors)).items() if name not in drop}
    tf1_training.save(folder / PREFIX, kept)


def test_the_error_names_a_missing_index(trained):
    (trained / "model.ckpt-8.index").unlink()

    with pytest.raises(FileNotFoundError, match=r"no model.ckpt-8.index in .*`checkpoint` names"):
        load_bilm(trained)


def test_several_checkpoints_without_a_checkpoint_file_are_refused(trained):
    options = tf1_training.options()
    tf1_training.write(trained, options, tf1_training.weights(options), "model.ckpt-16")
    (trained / "checkpoint").unlink()

    with pytest.raises(ValueError, match=r"contains 2 checkpoints .*-16, model.ckpt-8. Pass a pre"):
        load_bilm(trained)


def test_the_error_names_a_data_file_with_a_wrong_checksum(trained):
    path = trained / f"{PREFIX}.data-00000-of-00001"
    content = bytearray(path.read_bytes())
    start = bytes(content).index(
        tf1_training.weights(tf1_training.options())["char_embed"].tobytes()
    )
    content[start] ^= 255
    path.write_bytes(content)

    with pytest.raises(ValueError, match=r"Cannot read `lm/.*` from .*ckpt-8: .* is damaged"):
        load_bilm(trained)


@pytest.mark.parametrize("length", [0, 100])
def test_the_error_names_a_damaged_index(trained, length):
    path = trained / f"{PREFIX}.index"
    path.write_bytes(path.read_bytes()[:length])

    with pytest.raises(ValueError, match=r"Cannot open .*ckpt-8.index: .* is damaged"):
        load_bilm(trained)


@pytest.mark.parametrize("name", ["lm/softmax/W", "lm/softmax/b"])
def test_the_error_names_a_missing_softmax_variable(trained, name):
    change(trained, drop=[name, f"{name}/Adagrad"])

    load_bilm(trained)
    with pytest.raises(ValueError, match=rf"ckpt-8 does not fit the model: .* lacks `{name}`"):
        load_language_model(trained)


def test_a_vocabulary_of_another_size_is_refused(trained):
    Vocabulary(TOKENS[:-1]).save(trained / "vocab.txt")

    with pytest.raises(ValueError, match=r"`lm/softmax/W`.* has \(7, 6\), .* expects \(6, 6\)"):
        load_language_model(trained)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_layers": 3}, r"the file lacks `lm/RNN_0/rnn/multi_rnn_cell/cell_2/lstm_cell/bias`"),
        (
            {"bidirectional": False},
            r"does not use `lm/RNN_0/rnn/multi_rnn_cell/cell_0/lstm_cell/bi",
        ),
        ({"char_cnn": False}, r"lacks `lm/embedding`; the model does not use `lm/CNN/W_cnn_0`"),
    ],
    ids=str,
)
def test_options_of_another_model_are_refused(trained, changes, message):
    (trained / "options.json").write_text(json.dumps(tf1_training.options(**changes)))

    with pytest.raises(ValueError, match=message):
        load_bilm(trained)


def test_a_checkpoint_of_another_program_is_refused(trained):
    tf1_training.save(trained / PREFIX, {"bilm/char_embed": np.zeros((262, 5), np.float32)})

    with pytest.raises(ValueError, match=r"ckpt-8 contains no variables in `lm/`"):
        load_bilm(trained)
