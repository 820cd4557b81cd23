"""Weight files that are damaged or belong to another model."""

import h5py
import numpy as np
import pytest

from elmo_tf import BiLM, BiLMConfig
from elmo_tf.checkpoints.names import WeightRule, weight_rules
from elmo_tf.checkpoints.weight_files import read_weights, variables_by_path, write_weights
from reference import checkpoint

PATH = "RNN_1/RNN/MultiRNNCell/Cell0/LSTMCell/W_0"


@pytest.fixture(scope="module")
def target(options):
    """Weight rules and the variables that they fill."""
    config = BiLMConfig.from_options(options)
    return weight_rules(config), variables_by_path(BiLM(config))


def written(tmp_path, arrays):
    checkpoint.write_hdf5(tmp_path / "weights.hdf5", arrays)
    return tmp_path / "weights.hdf5"


def check_refused(target, path, message, error=ValueError):
    rules, variables = target
    before = {name: variable.numpy() for name, variable in variables.items()}
    with pytest.raises(error, match=message):
        read_weights(path, rules, variables)
    for name, variable in variables.items():
        np.testing.assert_array_equal(variable, before[name])


def test_floats_of_any_size_are_read_as_float32_but_integers_are_refused(tmp_path, target, weights):
    rules, variables = target
    arrays = {name: array.astype(np.float64) for name, array in weights.items()}
    arrays["CNN_proj/b_proj"] = arrays["CNN_proj/b_proj"].astype(np.float16)

    read_weights(written(tmp_path, arrays), rules, variables)

    table = variables["token_encoder/char_cnn/char_embedding"].numpy()
    np.testing.assert_array_equal(table, weights["char_embed"])
    assert variables["token_encoder/projection/bias"].dtype == "float32"
    path = written(tmp_path, {**weights, PATH: weights[PATH].astype(np.int32)})
    message = rf"`{PATH}` in .*weights.hdf5 must contain floats. Received: int32"
    check_refused(target, path, message)


def test_a_file_that_another_process_writes_is_not_called_damaged(
    tmp_path, target, weights, locked
):
    path = written(tmp_path, weights)
    message = r"weights\.hdf5 is open for writing in another process\. Wait until"

    with locked(path):
        check_refused(target, path, message, BlockingIOError)
    read_weights(path, *target)


def test_the_error_names_a_damaged_dataset(tmp_path, target, weights):
    path = tmp_path / "weights.hdf5"
    with h5py.File(path, "w") as file:
        for name, array in weights.items():
            file.create_dataset(name, data=array, fletcher32=True, chunks=array.shape)
    content = path.read_bytes()
    value = weights[PATH].tobytes()
    assert content.count(value) == 1
    path.write_bytes(content.replace(value, b"\x01" + value[1:]))

    check_refused(target, path, rf"Cannot read `{PATH}` from .*weights\.hdf5.*damaged: download")


def test_the_error_names_a_variable_without_a_rule(tmp_path, target, weights):
    rules, variables = target
    rules = [rule for rule in rules if rule.dataset != PATH]
    arrays = {name: array for name, array in weights.items() if name != PATH}

    check_refused(
        (rules, variables),
        written(tmp_path, arrays),
        r"has no values for the variables backward_lstm/lstm_0/cell/kernel, backward_lstm",
    )


def test_a_failed_write_leaves_the_old_file(tmp_path, bilm):
    path = tmp_path / "weights.hdf5"
    path.write_bytes(b"old")
    rules = [*weight_rules(bilm.config), WeightRule("extra", ("no/such/variable",))]

    with pytest.raises(KeyError, match=r"no/such/variable"):
        write_weights(path, rules, variables_by_path(bilm))

    assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["weights.hdf5"]
