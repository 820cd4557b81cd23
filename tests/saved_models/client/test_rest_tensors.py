"""Tensors in JSON, where TF Serving omits names, shapes or types."""

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.saved_models.client.calls import ServerError
from elmo_tf.saved_models.client.rest import response_arrays
from serving_requests import infos


@pytest.mark.parametrize(("value", "shape"), [([], (0, 0, 4)), ([[], []], (2, 0, 4))])
def test_axes_after_an_empty_axis_come_from_the_signature(value, shape):
    known = infos(elmo=("float32", [None, None, 4]), n=("int32", [None]))
    array = response_arrays({"outputs": {"elmo": value, "n": []}}, ["elmo"], known)["elmo"]
    assert (array.shape, array.dtype) == (shape, np.float32)


@pytest.mark.parametrize(
    ("wanted", "known", "name"),
    [([], infos(y=("float32", [None])), "y"), (["y"], {}, "y"), ([], {}, "outputs")],
)
def test_a_single_output_without_a_name_is_read(wanted, known, name):
    (pair,) = response_arrays({"outputs": [1.5, 2.0]}, wanted, known).items()
    assert (pair[0], pair[1].tolist(), pair[1].dtype) == (name, [1.5, 2.0], np.float32)


def test_a_single_output_may_be_bytes():
    known = infos(y=("string", []))
    assert response_arrays({"outputs": {"b64": "/w=="}}, [], known)["y"].tolist() == b"\xff"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int8", "uint64", "bool"])
def test_types_come_from_the_signature(dtype):
    known = infos(y=(dtype, [None]), z=("int32", []))
    array = response_arrays({"outputs": {"y": [0, 1], "z": 5}}, ["y"], known)["y"]
    assert array.dtype == tf.as_dtype(dtype).as_numpy_dtype
    np.testing.assert_array_equal(array.astype(np.float32), [0, 1])


def test_a_missing_output_is_an_error_that_lists_the_others():
    with pytest.raises(ServerError, match=r"signature: c Outputs .* in the set \{a,b\}"):
        response_arrays({"outputs": {"b": [1], "a": [2]}}, ["c"], {})


def test_a_string_in_a_float_output_is_a_value_error():
    with pytest.raises(ValueError, match="could not convert string to float"):
        response_arrays({"outputs": [["x"]]}, ["y"], infos(y=("float32", [None, 1])))
