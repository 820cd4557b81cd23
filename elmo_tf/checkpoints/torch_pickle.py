"""State dicts of PyTorch (`.pkl`, `.pt`) ─► NumPy arrays, without PyTorch.

`pickletools` reads the opcodes, and `_value` carries out those of state dicts. `pickle.Unpickler`
is not safe, whatever its `find_class` allows: a dict whose key is a tuple of nested tuples crashes
it or takes unlimited time, and a large memo index gigabytes.
"""

import io
import os
import pickletools
import zipfile
from math import prod
from pickle import UnpicklingError
from typing import Any, BinaryIO, NamedTuple

import numpy as np

_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
_LEGACY_VERSION = 1001
_MAX_AXES = 64
_MAX_PICKLE = 2**20  # bytes: about 7,000 tensors
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
# Number of items that an opcode takes from the stack.
_NUM_TAKEN = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3, "SETITEM": 2} | dict.fromkeys(
    ["APPEND", "BUILD", "BINPERSID", "REDUCE"], 1
)
# Errors of `zipfile`, `pickle` and NumPy in damaged files.
_ERRORS = (
    *(UnpicklingError, zipfile.BadZipFile, EOFError, OSError, RuntimeError),
    *(ValueError, LookupError, TypeError, AttributeError, OverflowError),
)


class _Storage(NamedTuple):
    """The numbers of one or more tensors."""

    dtype: np.dtype
    key: str
    size: int


class _Tensor(NamedTuple):
    """A contiguous part of a storage. Offset and size count elements."""

    storage: _Storage
    offset: int
    size: tuple[int, ...]


def read_state_dict(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """Reads the tensors of a state dict that `torch.save` has written.

    Both formats are read: that of PyTorch up to 1.5, and zip files. Nothing in the file is
    executed. Needs no more memory than the tensors. Returns float arrays by their names.

    Raises:
        ValueError: the file is damaged, or is no such state dict; it names anything but the
            functions of state dicts; or a tensor is not contiguous, or larger than its data. The
            message names the file and the reason.
        OSError: the file cannot be opened.
    """
    with open(path, "rb") as file:
        try:
            if file.read(2) != b"PK":  # of a zip file, even if it is truncated
                return _read_legacy(file)
            with zipfile.ZipFile(file) as archive:
                return _read_archive(archive)
        except _ERRORS as error:
            reason = " ".join(str(error).split())[:300]
            raise ValueError(
                f"Cannot read {os.fspath(path)} as a state dict of PyTorch: {reason}."
            ) from None


def _read_legacy(file: BinaryIO) -> dict[str, np.ndarray]:
    """Reads five pickles, of which the fourth is the state dict, and the storages after them."""
    file.seek(0)
    if (_unpickled(file), _unpickled(file)) != (_LEGACY_MAGIC, _LEGACY_VERSION):
        raise UnpicklingError("it is of another format")
    system, tensors, keys = (_unpickled(file) for _ in range(3))
    if not isinstance(system, dict) or system.get("little_endian") is not True:
        raise UnpicklingError("its numbers are not little-endian")
    storages = _storages_of(tensors)
    is_list = isinstance(keys, list) and all(isinstance(key, str) for key in keys)
    if not is_list or sorted(keys) != sorted(storages):
        raise UnpicklingError("the list of its storages is wrong")
    arrays: dict[str, np.ndarray] = {}
    total = os.fstat(file.fileno()).st_size
    for key in keys:
        dtype, _, size = storages[key]
        num_bytes = size * dtype.itemsize
        if file.read(8) != size.to_bytes(8, "little") or num_bytes > total - file.tell():
            raise UnpicklingError(f"storage {key} has not {size} numbers")
        arrays[key] = np.frombuffer(file.read(num_bytes), dtype)
    return _arrays_of(tensors, arrays)


def _read_archive(archive: zipfile.ZipFile) -> dict[str, np.ndarray]:
    """Reads `data.pkl` and `data/KEY` within the one folder of the archive."""
    names = archive.namelist()
    folders = [name.removesuffix("data.pkl") for name in names if name.endswith("/data.pkl")]
    if len(folders) != 1:
        raise UnpicklingError("the zip file has not one data.pkl in a folder")
    (folder,) = folders
    entries = archive.infolist()
    if any(entry.compress_size != entry.file_size for entry in entries):
        raise UnpicklingError("an entry of the zip file is compressed")
    total = os.fstat(archive.fp.fileno()).st_size
    if sum(entry.file_size for entry in entries) > total:  # entries may share their bytes
        raise UnpicklingError("the entries of the zip file are larger than the file")
    if f"{folder}byteorder" in names and archive.read(f"{folder}byteorder") != b"little":
        raise UnpicklingError("its numbers are not little-endian")
    tensors = _unpickled(archive.open(f"{folder}data.pkl"))
    arrays = {}
    for key, (dtype, _, size) in _storages_of(tensors).items():
        arrays[key] = np.frombuffer(archive.read(f"{folder}data/{key}"), dtype)
        if arrays[key].size != size:
            raise UnpicklingError(f"storage {key} has not {size} numbers")
    return _arrays_of(tensors, arrays)


def _storages_of(tensors: Any) -> dict[str, _Storage]:
    if not isinstance(tensors, dict) or not tensors:
        raise UnpicklingError("it holds no tensors")
    for name, tensor in tensors.items():
        if not isinstance(tensor, _Tensor):
            raise UnpicklingError(f"{name[:80]!r} in the state dict is no tensor")
    return {tensor.storage.key: tensor.storage for tensor in tensors.values()}


def _arrays_of(
    tensors: dict[str, _Tensor], storages: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """The arrays, which are views of the storages."""
    arrays = {}
    for name, (storage, offset, size) in tensors.items():
        data, count = storages[storage.key], prod(size)
        if not 0 < count <= data.size - offset:
            raise UnpicklingError(f"the shape of {name[:80]} does not suit its data")
        arrays[name] = data[offset : offset + count].reshape(size)
    return arrays


def _unpickled(file: Any) -> Any:
    """The value of the pickle at the position of a file, which is moved to the pickle's end."""
    start = file.tell()
    content = io.BytesIO(file.read(_MAX_PICKLE))
    try:
        value = _value(content)
    except ValueError as error:
        raise UnpicklingError(
            f"its pickle is damaged, or longer than {_MAX_PICKLE:,} bytes: {error}"
        ) from None
    file.seek(start + content.tell())
    return value


def _value(content: io.BytesIO) -> Any:
    """The value of a pickle: dicts, tuples, strings, numbers and `_Tensor`s.

    Of the values, only strings and numbers are hashed or printed: both can need unlimited stack or
    time for tuples of nested tuples.
    """
    stack: list[Any] = []
    stacks: list[list[Any]] = []  # below the marks
    memo: dict[int, Any] = {}
    for opcode, argument, _ in pickletools.genops(content):
        name, items = opcode.name, []
        if name in ("TUPLE", "SETITEMS", "APPENDS"):  # take all items above the mark
            items, stack = stack, stacks.pop()
        elif name in _NUM_TAKEN:
            items = stack[-_NUM_TAKEN[name] :]
            del stack[-_NUM_TAKEN[name] :]
        match name:
            case "PROTO" | "BUILD":  # BUILD adds attributes, such as `_metadata`
                pass
            case "MARK":
                stacks.append(stack)
                stack = []
            case "NONE" | "NEWTRUE" | "NEWFALSE" | "EMPTY_TUPLE":
                stack.append(_CONSTANTS[name])
            case "EMPTY_DICT" | "EMPTY_LIST":
                stack.append({} if name == "EMPTY_DICT" else [])
            case "BINUNICODE" | "BININT" | "BININT1" | "BININT2" | "LONG1":
                stack.append(argument)
            case "BINPUT" | "LONG_BINPUT":
                memo[argument] = stack[-1]
            case "BINGET" | "LONG_BINGET":
                stack.append(memo[argument])
            case "TUPLE" | "TUPLE1" | "TUPLE2" | "TUPLE3":
                stack.append(tuple(items))
            case "SETITEM" | "SETITEMS" | "APPEND" | "APPENDS":
                _extend(stack[-1], items)
            case "GLOBAL":
                stack.append(_stand_in(argument.replace(" ", ".")))
            case "BINPERSID":
                stack.append(_storage(*items))
            case "REDUCE":
                stack.append(stack.pop()(*items[0]))
            case "STOP":
                return stack.pop()
            case _:
                raise UnpicklingError(
                    f"its pickle has the opcode {name}, which state dicts do not have"
                )
    raise AssertionError  # `genops` ends with STOP


def _extend(target: Any, items: list[Any]) -> None:
    """Adds items to a list, or alternating keys and values to a dict."""
    if isinstance(target, list):
        target.extend(items)
        return
    if not isinstance(target, dict) or not all(isinstance(key, str) for key in items[::2]):
        raise UnpicklingError("a key of a dict is not a string")
    target.update(zip(items[::2], items[1::2], strict=True))


def _storage(pid: Any) -> _Storage:
    match pid:
        case ("storage", np.dtype() as dtype, str(key), _, int(size), *view) if (
            size >= 0 and view in ([], [None])
        ):
            return _Storage(dtype, key, size)
    raise UnpicklingError("it has a storage of another kind than those of floats")


def _tensor(storage: Any, offset: Any, size: Any, strides: Any, *_: Any) -> _Tensor:
    if (
        not isinstance(storage, _Storage)
        or not len(size) == len(strides) <= _MAX_AXES
        or not all(type(n) is int and n >= 0 for n in (offset, *size, *strides))
    ):
        raise UnpicklingError(
            "a tensor needs a storage, and an offset, sizes and strides >= 0 of at most "
            f"{_MAX_AXES} axes"
        )
    step = 1
    for n, stride in zip(reversed(size), reversed(strides), strict=True):
        if n > 1 and stride != step:
            raise UnpicklingError("a tensor is not contiguous")
        step *= n
    # A copy: the pickle may append to a list later.
    return _Tensor(storage, offset, tuple(size))


def _empty_dict() -> dict[Any, Any]:
    """`dict` without arguments, whose keys it would hash."""
    return {}


# Stand-ins of all that a state dict names.
_GLOBALS = {
    "collections.OrderedDict": _empty_dict,
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_parameter": lambda tensor, *_: tensor,
    "torch.FloatStorage": np.dtype("<f4"),
    "torch.HalfStorage": np.dtype("<f2"),
    "torch.DoubleStorage": np.dtype("<f8"),
}


def _stand_in(name: str) -> Any:
    if name not in _GLOBALS:
        raise UnpicklingError(
            f"it names {name[:80]}, which is not part of a state dict. Nothing was executed"
        )
    return _GLOBALS[name]
