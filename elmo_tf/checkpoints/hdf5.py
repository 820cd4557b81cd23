"""HDF5 files ↔ variables, by the tables of `names`."""

import os
from collections.abc import Callable, Iterable, Sequence

import h5py
import keras
import numpy as np

from elmo_tf.checkpoints.names import WeightRule
from elmo_tf.files import atomic_file
from elmo_tf.layers.large_tables import take_rows
from elmo_tf.layers.sampled_softmax import SampledSoftmax

_CHUNK_SIZE = 2**24  # numbers: 64 MiB of float32


def read_weights(
    path: str | os.PathLike,
    rules: Sequence[WeightRule],
    variables: dict[str, keras.Variable],
    ignore: Iterable[str] = (),
) -> None:
    """Loads variables from an HDF5 file. If that fails, no variable is changed.

    Args:
        path: the file.
        rules: the table.
        variables: variables by path, see `variables_by_path`. The table must contain all trainable
            ones.
        ignore: further datasets that the file may contain.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the file is damaged, or a dataset is missing, unknown or has the wrong shape; or
            a variable is not in the table.
    """
    with _open(path) as file:

        def read(dataset: str) -> np.ndarray:
            try:
                return file[dataset][()]
            except OSError as error:
                raise ValueError(
                    f"Cannot read `{dataset}` from {os.fspath(path)}: {error}. The file is "
                    "damaged: download or write it again."
                ) from None

        fill_variables(path, rules, variables, _dataset_names(file) - set(ignore), read)


def fill_variables(
    path: str | os.PathLike,
    rules: Sequence[WeightRule],
    variables: dict[str, keras.Variable],
    found: set[str],
    read: Callable[[str], np.ndarray],
) -> None:
    """Loads variables from any file of named arrays. If that fails, no variable is changed.

    Args:
        path, rules, variables: see `read_weights`; the path is for error messages.
        found: names of the arrays in the file; the table must contain all of them.
        read: returns an array by its name.

    Raises:
        ValueError: see `read_weights`.
    """
    rules = [rule for rule in rules if rule.dataset in found or not rule.is_optional]
    _check_names(path, found, {rule.dataset for rule in rules})
    values: dict[str, np.ndarray] = {}
    for rule in rules:
        values.update(_convert(path, rule, read(rule.dataset), variables))
    unset = sorted(n for n, v in variables.items() if v.trainable and n not in values)
    if unset:
        raise ValueError(f"{os.fspath(path)} has no values for the variables {', '.join(unset)}.")
    for name, value in values.items():
        variables[name].assign(value)


def write_weights(
    path: str | os.PathLike,
    rules: Sequence[WeightRule],
    variables: dict[str, keras.Variable],
    dtype: str = "float32",
) -> None:
    """Writes variables to an HDF5 file, atomically.

    Args:
        path: the file.
        rules: the table.
        variables: variables by path, see `variables_by_path`.
        dtype: "float32" or "float16", the dtype of the file.

    Raises:
        ValueError: see `check_range`.
    """
    check_range(variables, dtype)
    with atomic_file(path) as part, h5py.File(part, "w") as file:
        for rule in rules:
            targets = [variables[name] for name in rule.variables]
            if len(targets) == 1 and len(targets[0].shape) == 2 and rule.is_plain:
                _write_rows(file, rule.dataset, targets[0], dtype)
                continue
            arrays = [_converted(target.numpy(), dtype) for target in targets]
            if rule.is_optional and not any(map(np.any, arrays)):
                continue
            file.create_dataset(rule.dataset, data=rule.to_file(arrays))


def check_range(variables: dict[str, keras.Variable], dtype: str) -> None:
    """Raises `ValueError` if a finite value is out of the range of a dtype."""
    if dtype == "float32":
        return
    largest = np.finfo(dtype).max
    for name, variable in variables.items():
        array = np.asarray(variable.numpy(), np.float32)
        if np.any(np.isfinite(array) & (np.abs(array) > largest)):
            raise ValueError(f"`{name}` has values beyond ±{largest:g}, the range of {dtype}.")


def _write_rows(file: h5py.File, name: str, table: keras.Variable, dtype: str) -> None:
    """Writes a table in chunks of rows, to save memory."""
    num_rows, width = table.shape
    dataset = file.create_dataset(name, table.shape, dtype)
    size = max(1, _CHUNK_SIZE // width)
    for start in range(0, num_rows, size):
        rows = take_rows(table, np.arange(start, min(start + size, num_rows)))
        dataset[start : start + size] = _converted(np.asarray(rows), dtype)


def _converted(array: np.ndarray, dtype: str) -> np.ndarray:
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(array, np.float32).astype(dtype)


def variables_by_path(layer: keras.layers.Layer) -> dict[str, keras.Variable]:
    """All weights of a layer, by their path within the layer."""
    prefix = f"{layer.name}/"
    return {weight.path.removeprefix(prefix): weight for weight in layer.weights}


def softmax_variables(softmax: SampledSoftmax) -> dict[str, keras.Variable]:
    """The weights of a softmax, by their names in `softmax_rules`."""
    return {"W": softmax.kernel, "b": softmax.bias}


def _open(path: str | os.PathLike) -> h5py.File:
    if not os.path.isfile(path):
        raise FileNotFoundError(f"There is no weight file {os.fspath(path)}.")
    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise ValueError(
            f"Cannot open {os.fspath(path)} as HDF5: {error}. It is not an HDF5 file, or the copy "
            "is incomplete."
        ) from None


def _dataset_names(file: h5py.File) -> set[str]:
    names: set[str] = set()
    file.visititems(lambda name, item: names.add(name) if isinstance(item, h5py.Dataset) else None)
    return names


def _check_names(path: str | os.PathLike, found: set[str], wanted: set[str]) -> None:
    missing, unknown = sorted(wanted - found), sorted(found - wanted)
    problems = []
    if missing:
        problems.append(f"the file lacks {', '.join(f'`{name}`' for name in missing)}")
    if unknown:
        problems.append(f"the model does not use {', '.join(f'`{name}`' for name in unknown)}")
    if problems:
        raise ValueError(
            f"{os.fspath(path)} does not fit the model: {'; '.join(problems)}. Was this "
            "options.json written for these weights?"
        )


def _convert(
    path: str | os.PathLike,
    rule: WeightRule,
    array: np.ndarray,
    variables: dict[str, keras.Variable],
) -> dict[str, np.ndarray]:
    # The inverse conversion of the variables yields the expected shape.
    expected = rule.to_file([np.empty(variables[name].shape, bool) for name in rule.variables])
    if array.shape != expected.shape:
        raise ValueError(
            f"Cannot load `{rule.dataset}` into {', '.join(f'`{n}`' for n in rule.variables)}: "
            f"{os.fspath(path)} has {array.shape}, the model expects {expected.shape}. "
            "Was this options.json written for these weights?"
        )
    if array.dtype.kind != "f":
        raise ValueError(
            f"`{rule.dataset}` in {os.fspath(path)} must contain floats. Received: {array.dtype}"
        )
    return dict(zip(rule.variables, rule.from_file(array), strict=True))
