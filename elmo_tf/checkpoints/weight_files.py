"""HDF5 and safetensors files ↔ variables, by tables of `WeightRule`s."""

import collections
import contextlib
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import h5py
import keras
import numpy as np

from elmo_tf.files import atomic_file, check_space
from elmo_tf.layers.sampled_softmax import SampledSoftmax
from elmo_tf.layers.weights import take_entries
from elmo_tf.lazy import require_extra

# Formats of weight files, which are also their suffixes.
FORMATS = ("hdf5", "safetensors")
# Names of the weight file in a checkpoint directory.
WEIGHT_PATTERNS = ("*weights.hdf5", "*weights.safetensors", "model.hdf5")

_CHUNK_SIZE = 2**24  # numbers: 64 MiB of float32
_MAX_LINKS = 400  # to one group, and from the root to a dataset
_MAX_EXPANSION = 100  # bytes of datasets per byte of their file, which may be compressed
_REMEDY = "Were these options written for these weights?"


class WeightRule(NamedTuple):
    """A dataset of a file and its variables."""

    dataset: str  # its name in the file
    variables: tuple[str, ...]  # paths within the `BiLM`
    shape: tuple[int | None, ...]  # of the array in the file; None: any number
    # Converts the array of the file to that of the variable, or to a list of several.
    from_file: Callable[[np.ndarray], np.ndarray | list[np.ndarray]] = lambda array: array
    # Converts the arrays of the variables to that of the file.
    to_file: Callable[..., np.ndarray] = lambda array: array
    is_optional: bool = False  # whether the dataset is omitted if it is all zeros


def read_weights(
    path: str | os.PathLike, rules: Iterable[WeightRule], ignore: tuple[str, ...] = ()
) -> dict[str, np.ndarray]:
    """Reads a file, `.safetensors` or else HDF5. Returns float32 arrays by their variables.

    An array without a rule is an error, unless its name begins with one of `ignore`.

    Raises:
        FileNotFoundError: the file does not exist.
        BlockingIOError: another process writes the file.
        ValueError: the file is damaged, or an array is missing, unknown, has the wrong shape, or
            has NaN or infinite values.
    """
    with _arrays_in(path) as (shapes, read):
        return read_arrays(path, rules, shapes, read, ignore)


def read_arrays(
    path: str | os.PathLike,
    rules: Iterable[WeightRule],
    shapes: Mapping[str, Sequence[int]],
    read: Callable[[str], np.ndarray],
    ignore: tuple[str, ...] = (),
) -> dict[str, np.ndarray]:
    """Reads any file of named arrays. For the rest, see `read_weights`.

    `shapes` are those of all arrays in the file, and `read` returns an array by its name.
    """
    used: dict[str, WeightRule] = {}
    for rule in rules:  # to the first difference: wrong options may yield endless rules
        name = rule.dataset
        if name in shapes:
            _check_shape(path, rule, tuple(shapes[name]))
            used[name] = rule
        elif not rule.is_optional:
            raise _misfit(path, f"the file lacks `{name}`")
    others = [name for name in shapes if name not in used and not name.startswith(ignore)]
    if others:
        raise _misfit(path, f"the model does not use {', '.join(f'`{n}`' for n in others[:5])}")
    values: dict[str, np.ndarray] = {}
    for rule in used.values():
        try:
            array = read(rule.dataset)
        except MemoryError:
            name = f"`{rule.dataset}` of {os.fspath(path)}"
            raise MemoryError(f"{name} needs more memory than there is.") from None
        except Exception as error:  # of h5py, safetensors or TensorFlow
            reason = " ".join(str(error).split())
            raise ValueError(
                f"Cannot read `{rule.dataset}` from {os.fspath(path)}: {reason}. The file is "
                "damaged: copy it again."
            ) from None
        values.update(_convert(path, rule, array))
    return values


def _check_shape(path: str | os.PathLike, rule: WeightRule, shape: tuple[int, ...]) -> None:
    fits = (wanted in (size, None) for size, wanted in zip(shape, rule.shape, strict=False))
    if len(shape) != len(rule.shape) or not all(fits):
        expected = str(rule.shape).replace("None", "any")
        raise ValueError(
            f"Cannot load `{rule.dataset}` into {', '.join(f'`{n}`' for n in rule.variables)}: "
            f"{os.fspath(path)} has {shape}, the model expects {expected}. {_REMEDY}"
        )


def _misfit(path: str | os.PathLike, problem: str) -> ValueError:
    return ValueError(f"{os.fspath(path)} does not fit the model: {problem}. {_REMEDY}")


def open_hdf5(path: str | os.PathLike) -> h5py.File:
    """Opens an HDF5 file for reading. All readers of HDF5 files use this function.

    Raises:
        BlockingIOError: another process writes the file.
        ValueError: the file is damaged or of another format.
    """
    try:
        return h5py.File(path, "r")
    except BlockingIOError:
        raise BlockingIOError(
            f"{os.fspath(path)} is open for writing in another process. Wait until it is closed."
        ) from None
    except OSError as error:
        raise ValueError(
            f"Cannot open {os.fspath(path)} as HDF5: {error}. It is not an HDF5 file, or the copy "
            "is incomplete."
        ) from None


def hdf5_datasets(file: h5py.File) -> Iterator[tuple[str, h5py.Dataset]]:
    """Yields the names and datasets of a file, also those of soft and hard links.

    Raises:
        ValueError: see `local_dataset`; all datasets are too large together; or links do not end.
    """
    total = 0
    visits: collections.Counter[int] = collections.Counter()  # of groups, by address

    def datasets(
        group: h5py.Group, prefix: str, parents: tuple[int, ...]
    ) -> Iterator[tuple[str, h5py.Dataset]]:
        nonlocal total
        address = h5py.h5o.get_info(group.id).addr
        visits[address] += 1
        # Endless, or exponentially many names.
        if address in parents or max(visits[address], len(parents)) > _MAX_LINKS:
            raise ValueError(f"The links in {file.filename} at `{prefix}` do not end.")
        for name in group:
            if isinstance(group.get(name, getlink=True), h5py.ExternalLink):
                raise _foreign(file, f"{prefix}{name}")
            item = group.get(name)  # None at the end of a broken link
            if isinstance(item, h5py.Group):
                yield from datasets(item, f"{prefix}{name}/", (*parents, address))
            elif isinstance(item, h5py.Dataset):
                dataset = local_dataset(file, item)
                total += item.nbytes
                _check_size(file, f"{prefix}{name}", total)
                yield f"{prefix}{name}", dataset

    return datasets(file, "", ())


def local_dataset(file: h5py.File, dataset: h5py.Dataset) -> h5py.Dataset:
    """Returns a dataset of a file whose numbers are in this file.

    With external storage, a virtual dataset or an external link, a file from elsewhere could make
    any file of this machine a part of the weights.

    Raises:
        ValueError: the numbers are in another file, or are far too many for this one.
    """
    if dataset.external or dataset.is_virtual or dataset.file.filename != file.filename:
        raise _foreign(file, dataset.name.lstrip("/"))
    _check_size(file, dataset.name, dataset.nbytes)
    return dataset


def _check_size(file: h5py.File, name: str, num_bytes: int) -> None:
    size = file.id.get_filesize()
    if num_bytes > _MAX_EXPANSION * size:
        raise ValueError(
            f"The datasets of {file.filename} up to `{name.lstrip('/')}` are {num_bytes:,} bytes "
            f"long, but the file only {size:,}."
        )


def _foreign(file: h5py.File, name: str) -> ValueError:
    return ValueError(
        f"`{name}` in {file.filename} refers to another file (external storage, a virtual dataset "
        "or an external link). For security, only the file itself is read."
    )


def write_weights(
    path: str | os.PathLike,
    rules: Sequence[WeightRule],
    variables: dict[str, keras.Variable],
    dtype: str = "float32",
) -> None:
    """Writes variables to a file, atomically.

    The suffix of the file is one of `FORMATS`, its dtype "float32" or "float16".
    """
    _check_range(variables, dtype)
    if os.fspath(path).endswith(".safetensors"):
        numpy = require_extra("safetensors.numpy", "huggingface", "The format safetensors")
        with atomic_file(path) as part:
            numpy.save_file(dict(_arrays(rules, variables, dtype)), part)
        return
    size = sum(math.prod(each.shape) for each in variables.values()) * np.dtype(dtype).itemsize
    with atomic_file(path) as part:
        check_space(part.parent, size)
        with h5py.File(part, "w") as file:
            for rule in rules:
                table = variables[rule.variables[0]]
                is_plain = rule.to_file is WeightRule._field_defaults["to_file"]
                if is_plain and len(table.shape) == 2:
                    _write_rows(file, rule.dataset, table, dtype)
                else:
                    for name, array in _arrays([rule], variables, dtype):
                        file.create_dataset(name, data=array)


def _arrays(
    rules: Sequence[WeightRule], variables: dict[str, keras.Variable], dtype: str
) -> Iterator[tuple[str, np.ndarray]]:
    """The arrays of a file by their names."""
    for rule in rules:
        arrays = [_converted(variables[name].numpy(), dtype) for name in rule.variables]
        if not rule.is_optional or any(map(np.any, arrays)):
            yield rule.dataset, np.ascontiguousarray(rule.to_file(*arrays))


def _check_range(variables: dict[str, keras.Variable], dtype: str) -> None:
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
        rows = take_entries(table, np.arange(start, min(start + size, num_rows)))
        dataset[start : start + size] = _converted(np.asarray(rows), dtype)


def _converted(array: np.ndarray, dtype: str) -> np.ndarray:
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(array, np.float32).astype(dtype, copy=False)


def assign(variables: dict[str, keras.Variable], values: dict[str, np.ndarray]) -> None:
    """Sets variables to the values of the same names, which all trainable variables have."""
    for name, variable in variables.items():
        if variable.trainable or name in values:
            variable.assign(values.pop(name))


def variables_by_path(layer: keras.layers.Layer) -> dict[str, keras.Variable]:
    """All weights of a layer, by their path within the layer."""
    prefix = f"{layer.name}/"
    return {weight.path.removeprefix(prefix): weight for weight in layer.weights}


def softmax_variables(softmax: SampledSoftmax) -> dict[str, keras.Variable]:
    """The weights of a softmax, by their names in `softmax_rules`."""
    return {"W": softmax.kernel, "b": softmax.bias}


@contextlib.contextmanager
def _arrays_in(
    path: str | os.PathLike,
) -> Iterator[tuple[dict[str, tuple[int, ...]], Callable[[str], np.ndarray]]]:
    """Yields the shapes of the arrays in a file by their names, and a function that reads one."""
    if not os.path.isfile(path):
        raise FileNotFoundError(f"There is no weight file {os.fspath(path)}.")
    with open(path, "rb"):  # errors of permission
        pass
    if not os.fspath(path).endswith(".safetensors"):
        with open_hdf5(path) as file:
            # `dump_weights` of the original names the cell of a single layer `RNN/LSTMCell`.
            datasets = {
                name.replace("/RNN/LSTMCell/", "/RNN/MultiRNNCell/Cell0/LSTMCell/"): dataset
                for name, dataset in hdf5_datasets(file)
            }
            # An empty dataset has no shape.
            shapes = {name: dataset.shape or () for name, dataset in datasets.items()}
            yield shapes, lambda name: datasets[name][()]
        return
    safetensors = require_extra("safetensors", "huggingface", "The format safetensors")
    try:
        opened = safetensors.safe_open(path, "numpy")
    except safetensors.SafetensorError as error:
        raise ValueError(f"Cannot open {os.fspath(path)} as safetensors: {error}.") from None
    with opened as file:
        shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
        yield shapes, file.get_tensor


def _convert(path: str | os.PathLike, rule: WeightRule, array: np.ndarray) -> dict[str, np.ndarray]:
    if array.dtype.kind != "f" and array.dtype.name != "bfloat16":
        raise ValueError(
            f"`{rule.dataset}` in {os.fspath(path)} must contain floats. Received: {array.dtype}"
        )
    array = _converted(array, "float32")
    if not np.isfinite(array).all():
        count = array.size - np.count_nonzero(np.isfinite(array))
        raise ValueError(
            f"`{rule.dataset}` in {os.fspath(path)} has NaN or infinite values: {count:,} of "
            f"{array.size:,}. The training diverged, or the file is damaged."
        )
    values = rule.from_file(array)
    is_single = len(rule.variables) == 1
    return dict(zip(rule.variables, [values] if is_single else values, strict=True))
