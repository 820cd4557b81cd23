"""State dicts of PyTorch (`.pkl`, `.pt`) ─► NumPy arrays, without PyTorch.

The pickle is not unpickled but interpreted: only the opcodes that build dicts, tuples and tensors
are supported, and nothing that the file names is imported or called. Of its values, only strings
and numbers are hashed or printed: hashing or printing nested tuples of repeated objects can need
unlimited stack or time.
"""

import mmap
import os
import pickletools
import zipfile
from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import numpy as np

_DTYPES = {
    "torch FloatStorage": np.dtype("<f4"),
    "torch HalfStorage": np.dtype("<f2"),
    "torch DoubleStorage": np.dtype("<f8"),
}
_ORDERED_DICT = "collections OrderedDict"
_TENSORS = ("torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_tensor")
_PARAMETER = "torch._utils _rebuild_parameter"
_GLOBALS = {_ORDERED_DICT, *_TENSORS, _PARAMETER, *_DTYPES}

_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
_LEGACY_VERSION = 1001
_LEGACY_START = b"\x80\x02\x8a\x0a"
_COUNT = np.dtype("<i8")
_MOST_AXES = 64
_MOST_OPCODES = 1_000_000  # of a pickle: about 30,000 tensors


class _Global(NamedTuple):
    """A function or class that the pickle names as "module name"."""

    name: str


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
    executed. Needs no more memory than the tensors.

    Args:
        path: the file.

    Returns:
        Float arrays by the names of the tensors.

    Raises:
        ValueError: the file is damaged, or is no such state dict; it names anything but the
            functions of state dicts; or a tensor is larger than its data. The message names the
            file and the reason.
        OSError: the file cannot be read.
    """
    with open(path, "rb") as file:
        start = file.read(len(_LEGACY_START))
        if not start:
            raise ValueError(f"{os.fspath(path)} is empty.")
        try:
            if start.startswith(b"PK"):
                with zipfile.ZipFile(file) as archive:
                    return _read_archive(archive)
            if start == _LEGACY_START:
                with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                    return _read_legacy(data)
        except _DamagedError as error:
            raise ValueError(f"{os.fspath(path)}: {str(error)[:300]}") from None
        except _ERRORS as error:
            raise ValueError(f"{os.fspath(path)} is damaged: {str(error)[:120]}") from None
    raise ValueError(f"{os.fspath(path)} is not a state dict of PyTorch.")


class _DamagedError(Exception):
    """The file is damaged or refused."""


# Errors of `zipfile`, `pickletools` and NumPy, and of `_Machine`, in damaged files.
_ERRORS = (
    *(zipfile.BadZipFile, EOFError, OSError, RuntimeError),
    *(ValueError, IndexError, KeyError, TypeError, OverflowError),
)


def _read_legacy(data: mmap.mmap) -> dict[str, np.ndarray]:
    """Reads five pickles, of which the fourth is the state dict, and the storages after them."""
    magic, version, system = (_value(data) for _ in range(3))
    if (magic, version) != (_LEGACY_MAGIC, _LEGACY_VERSION):
        raise _DamagedError("it is not a state dict of PyTorch.")
    if not isinstance(system, dict) or system.get("little_endian") is not True:
        raise _DamagedError("its numbers are not little-endian.")
    tensors = _tensors_of(_value(data))
    keys = _value(data)
    sizes = {tensor.storage.key: tensor.storage for tensor in tensors.values()}
    arrays: dict[str, np.ndarray] = {}
    position = data.tell()
    for key in keys if isinstance(keys, list) else [None]:
        if not isinstance(key, str) or key not in sizes or key in arrays:
            raise _DamagedError("the list of its storages is wrong.")
        storage = sizes[key]
        count = _numbers(data, _COUNT, position, 1, key)[0]
        if count != storage.size:
            raise _DamagedError(f"storage {key} has {count} numbers instead of {storage.size}.")
        position += _COUNT.itemsize
        arrays[key] = _numbers(data, storage.dtype, position, storage.size, key)
        position += arrays[key].nbytes
    return _arrays_of(tensors, arrays)


def _numbers(data: mmap.mmap, dtype: np.dtype, start: int, count: int, key: str) -> np.ndarray:
    end = start + count * dtype.itemsize
    if end > len(data):
        raise _DamagedError(f"it ends within storage {key}.")
    return np.frombuffer(data[start:end], dtype)


def _read_archive(archive: zipfile.ZipFile) -> dict[str, np.ndarray]:
    """Reads `data.pkl` and `data/KEY` within the one folder of the archive."""
    entries = {entry.filename: entry for entry in archive.infolist()}
    folders = {name.partition("/")[0] for name in entries}
    top = folders.pop() if len(folders) == 1 else None
    if f"{top}/data.pkl" not in entries:
        raise _DamagedError("the zip file has no data.pkl in its only folder.")
    if any(name.startswith((f"{top}/code/", f"{top}/constants.pkl")) for name in entries):
        raise _DamagedError("it is a TorchScript program, not a state dict.")
    if any(
        entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != entry.file_size
        for entry in entries.values()
    ):
        raise _DamagedError("an entry of the zip file is compressed.")
    total = os.fstat(archive.fp.fileno()).st_size
    if sum(entry.file_size for entry in entries.values()) > total:
        raise _DamagedError("the entries of the zip file are larger than the file.")

    def content(name: str) -> bytes:
        if f"{top}/{name}" not in entries:
            raise _DamagedError(f"the zip file has no {name}.")
        return archive.read(f"{top}/{name}")

    if f"{top}/byteorder" in entries and content("byteorder") != b"little":
        raise _DamagedError("its numbers are not little-endian.")
    tensors = _tensors_of(_value(content("data.pkl")))
    arrays = {}
    for storage in {tensor.storage.key: tensor.storage for tensor in tensors.values()}.values():
        data = content(f"data/{storage.key}")
        if len(data) != storage.size * storage.dtype.itemsize:
            raise _DamagedError(
                f"storage {storage.key} has {len(data)} bytes instead of "
                f"{storage.size * storage.dtype.itemsize}."
            )
        arrays[storage.key] = np.frombuffer(data, storage.dtype)
    return _arrays_of(tensors, arrays)


def _tensors_of(value: Any) -> dict[str, _Tensor]:
    if not isinstance(value, dict) or not value:
        raise _DamagedError("it holds no state dict.")
    for name, tensor in value.items():
        if not isinstance(tensor, _Tensor):
            raise _DamagedError(f"{name[:80]!r} in the state dict is no tensor.")
    return value


def _arrays_of(
    tensors: dict[str, _Tensor], storages: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    arrays = {}
    room = sum(data.nbytes for data in storages.values())
    for name, (storage, offset, size, strides) in tensors.items():
        if storage.key not in storages:
            raise _DamagedError(f"the data of {name} are missing.")
        data = storages[storage.key]
        last = offset + sum((n - 1) * step for n, step in zip(size, strides, strict=True))
        # Repeated elements, by a stride of 0, could need any amount of memory.
        if not 0 < prod(size) <= data.size or last >= data.size:
            raise _DamagedError(f"the shape of {name} does not suit its data.")
        steps = [step * data.itemsize * (n > 1) for n, step in zip(size, strides, strict=True)]
        view = np.lib.stride_tricks.as_strided(data[offset:], size, steps, writeable=False)
        # A contiguous view needs no memory, so that tensors may share their data.
        room -= 0 if view.flags.c_contiguous else view.nbytes
        if room < 0:
            raise _DamagedError("its tensors are larger than its data.")
        arrays[name] = np.ascontiguousarray(view)
    return arrays


def _value(pickled: Any) -> Any:
    """The value of one pickle.

    Args:
        pickled: bytes, or a file at the pickle's beginning; it is read up to the pickle's end.
    """
    machine = _Machine()
    for number, (opcode, argument, _) in enumerate(pickletools.genops(pickled)):
        if number == _MOST_OPCODES:
            raise _DamagedError(f"its pickle has more than {_MOST_OPCODES:,} opcodes.")
        machine.run(opcode.name, argument)
    return machine.result()


class _Machine:
    """Interprets the opcodes of a state dict's pickle."""

    def __init__(self):
        self._stack: list[Any] = []
        self._marked: list[list[Any]] = []  # the stacks below the marks
        self._memo: dict[int, Any] = {}

    def run(self, opcode: str, argument: Any) -> None:
        """Runs one opcode, named as in `pickletools`."""
        if opcode in _CONSTANTS:
            self._stack.append(_CONSTANTS[opcode]())
        elif opcode in _LITERALS:
            self._stack.append(argument)
        elif opcode == "MARK":
            self._marked.append(self._stack)
            self._stack = []
        elif opcode in ("BINPUT", "LONG_BINPUT"):
            self._memo[argument] = self._stack[-1]
        elif opcode in ("BINGET", "LONG_BINGET"):
            self._stack.append(self._memo[argument])
        elif opcode in _TUPLES:
            values = self._pop(_TUPLES[opcode])
            self._stack.append(tuple(values))
        elif opcode == "GLOBAL":
            self._stack.append(self._global(argument))
        elif opcode in ("REDUCE", "BINPERSID", "BUILD"):
            getattr(self, f"_{opcode.lower()}")()
        elif opcode in ("SETITEM", "SETITEMS"):
            items = self._pop(2 if opcode == "SETITEM" else None)
            if not all(isinstance(key, str) for key in items[::2]):
                raise _DamagedError("the pickle is damaged: a key of a dict is not a string.")
            self._top(dict).update(zip(items[::2], items[1::2], strict=True))
        elif opcode in ("APPEND", "APPENDS"):
            items = self._pop(1 if opcode == "APPEND" else None)
            self._top(list).extend(items)
        elif opcode not in ("PROTO", "STOP"):
            raise _DamagedError(f"its pickle has the opcode {opcode}, which state dicts have not.")

    def result(self) -> Any:
        """The value, after the last opcode."""
        if self._marked or len(self._stack) != 1:
            raise _DamagedError("the pickle is damaged: it does not end with one value")
        return self._stack[0]

    def _pop(self, count: int | None) -> list[Any]:
        """Removes the last `count` values, or those since the last mark."""
        if count is None:
            values, self._stack = self._stack, self._marked.pop()
            return values
        if len(self._stack) < count:
            raise _DamagedError("the pickle is damaged: a value is missing")
        values = self._stack[len(self._stack) - count :]
        del self._stack[len(self._stack) - count :]
        return values

    def _top(self, kind: type) -> Any:
        if not isinstance(self._stack[-1], kind):
            raise _DamagedError(f"the pickle is damaged: no {kind.__name__} to add to")
        return self._stack[-1]

    def _global(self, name: str) -> _Global:
        if name not in _GLOBALS:
            raise _DamagedError(
                f"it names {name.replace(' ', '.')[:80]}, which is not part of a state dict. "
                "Nothing was executed."
            )
        return _Global(name)

    def _reduce(self) -> None:
        function, arguments = self._pop(2)
        if function == _Global(_ORDERED_DICT) and arguments in ((), ([],)):
            self._stack.append({})
        elif function == _Global(_PARAMETER) and isinstance(arguments[0], _Tensor):
            self._stack.append(arguments[0])
        elif isinstance(function, _Global) and function.name in _TENSORS:
            storage, offset, size, strides = arguments[:4]
            if (
                not isinstance(storage, _Storage)
                or not len(size) == len(strides) <= _MOST_AXES
                or not all(type(n) is int and n >= 0 for n in (offset, *size, *strides))
            ):
                raise _DamagedError(
                    "the pickle is damaged: a tensor needs a storage, and an offset, sizes and "
                    f"strides >= 0 of at most {_MOST_AXES} axes."
                )
            self._stack.append(_Tensor(storage, offset, size, strides))
        else:
            raise _DamagedError("its pickle calls a function in a way that state dicts do not.")

    def _binpersid(self) -> None:
        (found,) = self._pop(1)
        kind, storage, key, _, size, *view = found[:7] if isinstance(found, tuple) else [None] * 5
        if (
            kind != "storage"
            or not isinstance(storage, _Global)
            or storage.name not in _DTYPES
            or not isinstance(key, str)
            or type(size) is not int
            or size < 0
            or view not in ([], [None])
        ):
            raise _DamagedError("a storage in its pickle is of another kind than those of floats.")
        self._stack.append(_Storage(_DTYPES[storage.name], key, size))

    def _build(self) -> None:
        """Ignores attributes of a dict, such as `_metadata`."""
        self._pop(1)
        self._top(dict)


_CONSTANTS: dict[str, Callable[[], Any]] = {
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
}
_LITERALS = {"BINUNICODE", "BININT", "BININT1", "BININT2", "LONG1"}
_TUPLES: dict[str, int | None] = {"TUPLE": None, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
