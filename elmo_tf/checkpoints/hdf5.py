"""Walks a table of names: HDF5 file → variables, and variables → HDF5 file."""

import os
from collections.abc import Iterable, Sequence

import h5py
import keras
import numpy as np

from elmo_tf.checkpoints.names import WeightRule
from elmo_tf.files import atomic_file


def read_weights(
    path: str | os.PathLike,
    rules: Sequence[WeightRule],
    variables: dict[str, keras.Variable],
    ignore: Iterable[str] = (),
) -> None:
    """Fills variables from an HDF5 file, or changes none of them.

    Args:
        path: the file.
        rules: the table.
        variables: by their path, see `variables_by_path`. All that can be trained must be in the
            table.
        ignore: datasets that the file may hold beside those of the table.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is damaged, lacks a dataset, holds one that the table does not know, or
            one of another shape; or a variable is not in the table.
    """
    file = _open(path)
    with file:
        found = _dataset_names(file)
        _check_names(path, found - set(ignore), {rule.dataset for rule in rules})
        values: dict[str, np.ndarray] = {}
        for rule in rules:
            try:
                array = file[rule.dataset][()]
            except OSError as error:
                raise ValueError(
                    f"Cannot read `{rule.dataset}` from {os.fspath(path)}: {error}. The file is "
                    "damaged; fetch or write it again."
                ) from None
            values.update(_convert(path, rule, array, variables))
    unset = sorted(n for n, v in variables.items() if v.trainable and n not in values)
    if unset:
        raise ValueError(f"{os.fspath(path)} holds nothing for the variables {', '.join(unset)}.")
    for name, value in values.items():
        variables[name].assign(value)


def write_weights(
    path: str | os.PathLike, rules: Sequence[WeightRule], variables: dict[str, keras.Variable]
) -> None:
    """Writes variables to an HDF5 file, as float32; it appears when it is complete."""
    with atomic_file(path) as part, h5py.File(part, "w") as file:
        for rule in rules:
            arrays = [np.asarray(variables[name].numpy(), np.float32) for name in rule.variables]
            file.create_dataset(rule.dataset, data=rule.to_file(arrays))


def variables_by_path(layer: keras.layers.Layer) -> dict[str, keras.Variable]:
    """The weights of a layer, frozen or not, by their path below it."""
    prefix = f"{layer.name}/"
    return {weight.path.removeprefix(prefix): weight for weight in layer.weights}


def _open(path: str | os.PathLike) -> h5py.File:
    if not os.path.isfile(path):
        raise FileNotFoundError(f"There is no weight file {os.fspath(path)}.")
    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise ValueError(
            f"Cannot open {os.fspath(path)} as HDF5: {error}. It is another kind of file, or was "
            "cut short while it was copied."
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
        problems.append(f"the model has no use for {', '.join(f'`{name}`' for name in unknown)}")
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
    # What the file should hold is told by the model's own shapes, taken the other way.
    expected = rule.to_file([np.empty(variables[name].shape, bool) for name in rule.variables])
    if array.shape != expected.shape:
        raise ValueError(
            f"Cannot load `{rule.dataset}` into {', '.join(f'`{n}`' for n in rule.variables)}: "
            f"{os.fspath(path)} has {array.shape}, the model expects {expected.shape}. "
            "Was this options.json written for these weights?"
        )
    if array.dtype.kind != "f":
        raise ValueError(
            f"`{rule.dataset}` in {os.fspath(path)} must hold floats. Received: {array.dtype}"
        )
    return dict(zip(rule.variables, rule.from_file(array), strict=True))
