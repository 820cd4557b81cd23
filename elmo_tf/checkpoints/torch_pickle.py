"""State dicts of PyTorch (`.pkl`, `.pt`) ─► NumPy arrays, without PyTorch.

`pickletools` reads the opcodes, and `_value` carries out those of state dicts. `pickle.Unpickler`
is not safe, whatever its `find_class` allows: a dict whose key is a tuple of nested tuples crashes
it or takes unlimited time, and a large memo index gigabytes.
"""

import io
import mmap
import os
import pickletools
import zipfile
from math import prod
from pickle import UnpicklingError
from typing import Any, NamedTuple

import numpy as np

_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
_LEGACY_VERSION = 1001
_LEGACY_START = b"\x80\x02\x8a\x0a"
_COUNT = np.dtype("<i8")
_MAX_AXES = 64
_MAX_PICKLE = 2**20  # bytes: about 7,000 tensors
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
# Number of items that an opcode takes from the stack.
_NUM_TAKEN = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3, "SETITEM": 2} | dict.fromkeys(
    ["APPEND", "BUILD", "BINPERSID", "REDUCE"], 1
)


class _Storage(NamedTuple):
    """The numbers of one or more tensors."""

    dtype: np.dtype
    key: str
    size: int


class _Tensor(NamedTuple):
    """A part of a storage. Offset, size and strides count elements."""

    storage: _Storage
    offset: int
    size: tuple[int, ...]
    strides: tuple[int, ...]


def read_state_dict(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """Reads the tensors of a state dict that `torch.save` has written.

    Both formats are read: that of PyTorch up to 1.5, and zip files. Nothing in the file is
    executed. Needs no more memory than the tensors. Returns float arrays by their names.

    Raises:
        ValueError: the file is damaged, or is no such state dict; it names anything but the
            functions of state dicts; or a tensor is larger than its data. The message names the
            file and the reason.
        OSError: the file cannot be opened.
    """
    with open(path, "rb") as file:
        start = file.read(len(_LEGACY_START))
        try:
            if start.startswith(b"PK"):
                with zipfile.ZipFile(file) as archive:
                    return _read_archive(archive)
            if start == _LEGACY_START:
                with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                    return _read_legacy(data)
            raise UnpicklingError("it is of another format" if start else "it is empty")
        except _ERRORS as error:
            reason = " ".join(str(error).split())[:300]
            raise ValueError(
                f"Cannot read {os.fspath(path)} as a state dict of PyTorch: {reason}."
            ) from None


# Errors of `zipfile`, `pickle` and NumPy in damaged files.
_ERRORS = (
    *(UnpicklingError, zipfile.BadZipFile, EOFError, OSError, RuntimeError),
    *(ValueError, LookupError, TypeError, AttributeError, OverflowError),
)


def _read_legacy(data: mmap.mmap) -> dict[str, np.ndarray]:
    """Reads five pickles, of which the fourth is the state dict, and the storages after them."""
    magic, version, system, tensors, keys = (_unpickled(data) for _ in range(5))
    if (magic, version) != (_LEGACY_MAGIC, _LEGACY_VERSION):
        raise UnpicklingError("it is of another format")
    if not isinstance(system, dict) or system.get("little_endian") is not True:
        raise UnpicklingError("its numbers are not little-endian")
    storages = _storages_of(tensors)
    arrays: dict[str, np.ndarray] = {}
    position = data.tell()
    for key in keys if isinstance(keys, list) else [None]:
        if not isinstance(key, str) or key not in storages or key in arrays:
            raise UnpicklingError("the list of its storages is wrong")
        storage = storages[key]
        count = np.frombuffer(data[position : position + _COUNT.itemsize], _COUNT)
        position += _COUNT.itemsize
        end = position + storage.size * storage.dtype.itemsize
        if count.tolist() != [storage.size] or end > len(data):
            raise UnpicklingError(f"storage {key} has not {storage.size} numbers")
        arrays[key] = np.frombuffer(data[position:end], storage.dtype)
        position = end
    if len(arrays) < len(storages):
        raise UnpicklingError("the list of its storages is wrong")
    return _arrays_of(tensors, arrays)


def _read_archive(archive: zipfile.ZipFile) -> dict[str, np.ndarray]:
    """Reads `data.pkl` and `data/KEY` within the one folder of the archive."""
    entries = {entry.filename: entry for entry in archive.infolist()}
    folders = {name.partition("/")[0] for name in entries}
    top = folders.pop() if len(folders) == 1 else None
    if f"{top}/data.pkl" not in entries:
        raise UnpicklingError("the zip file has no data.pkl in its only folder")
    if any(name.startswith((f"{top}/code/", f"{top}/constants.pkl")) for name in entries):
        raise UnpicklingError("it is a TorchScript program")
    if any(
        entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != entry.file_size
        for entry in entries.values()
    ):
        raise UnpicklingError("an entry of the zip file is compressed")
    # Entries may share their bytes.
    total = os.fstat(archive.fp.fileno()).st_size
    if sum(entry.file_size for entry in entries.values()) > total:
        raise UnpicklingError("the entries of the zip file are larger than the file")
    if f"{top}/byteorder" in entries and archive.read(f"{top}/byteorder") != b"little":
        raise UnpicklingError("its numbers are not little-endian")
    tensors = _unpickled(archive.open(f"{top}/data.pkl"))
    arrays = {}
    for key, storage in _storages_of(tensors).items():
        arrays[key] = np.frombuffer(archive.read(f"{top}/data/{key}"), storage.dtype)
        if arrays[key].size != storage.size:
            raise UnpicklingError(f"storage {key} has not {storage.size} numbers")
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
    arrays = {}
    room = sum(data.nbytes for data in storages.values())
    for name, (storage, offset, size, strides) in tensors.items():
        data = storages[storage.key]
        last = offset + sum((n - 1) * step for n, step in zip(size, strides, strict=True))
        # Repeated elements, by a stride of 0, could need any amount of memory.
        if not 0 < prod(size) <= data.size or last >= data.size:
            raise UnpicklingError(f"the shape of {name[:80]} does not suit its data")
        steps = [step * data.itemsize * (n > 1) for n, step in zip(size, strides, strict=True)]
        view = np.lib.stride_tricks.as_strided(data[offset:], size, steps, writeable=False)
        # A contiguous view needs no memory, so that tensors may share their data.
        room -= 0 if view.flags.c_contiguous else view.nbytes
        if room < 0:
            raise UnpicklingError("its tensors are larger than its data")
        arrays[name] = np.ascontiguousarray(view)
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
            case "EMPTY_DICT":
                stack.append({})
            case "EMPTY_LIST":
                stack.append([])
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
    is_storage = isinstance(pid, tuple) and 5 <= len(pid) <= 6
    kind, dtype, key, _, size, *view = pid if is_storage else [None] * 5
    if (
        kind != "storage"
        or not isinstance(dtype, np.dtype)
        or not isinstance(key, str)
        or type(size) is not int
        or size < 0
        or view not in ([], [None])
    ):
        raise UnpicklingError("it has a storage of another kind than those of floats")
    return _Storage(dtype, key, size)


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
    # Copies: the pickle may append to a list later.
    return _Tensor(storage, offset, tuple(size), tuple(strides))


def _empty_dict(*items: Any) -> dict[str, Any]:
    if items not in ((), ([],)):
        raise UnpicklingError("a dict is not empty at first")
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
