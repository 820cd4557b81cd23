"""Writes state dicts as `torch.save` does, without PyTorch."""

import io
import pickle
import sys
import types
import zipfile
from unittest import mock

import numpy as np


class _Storage:
    def __init__(self, key, array):
        self.key, self.array = key, array


class _Pickler(pickle.Pickler):
    def __init__(self, file, with_view):
        super().__init__(file, protocol=2)
        self._with_view = with_view

    def persistent_id(self, value):
        if not isinstance(value, _Storage):
            return None
        kind = sys.modules["torch"].FloatStorage
        view = (None,) if self._with_view else ()
        return ("storage", kind, value.key, "cuda:3", value.array.size, *view)

    def reducer_override(self, value):
        if not isinstance(value, _Storage) and hasattr(value, "storage"):
            rebuild = sys.modules["torch._utils"]._rebuild_tensor_v2
            return rebuild, (value.storage, value.offset, value.size, value.strides, False, {})
        return NotImplemented


class Tensor:
    """A view of a storage, in the form that a pickle describes."""

    def __init__(self, key, array, size=None, strides=None, offset=0):
        array = np.ascontiguousarray(array, np.float32)
        self.storage = _Storage(key, array)
        self.offset = offset
        self.size = array.shape if size is None else size
        self.strides = (
            tuple(step // array.itemsize for step in array.strides) if strides is None else strides
        )


def _pickled(value, with_view):
    modules = {}
    for module, name in (("torch", "FloatStorage"), ("torch._utils", "_rebuild_tensor_v2")):
        modules[module] = types.ModuleType(module)
        setattr(modules[module], name, type(name, (), {"__module__": module}))
    buffer = io.BytesIO()
    with mock.patch.dict(sys.modules, modules):
        _Pickler(buffer, with_view).dump(value)
    return buffer.getvalue()


def _tensors_and_storages(state):
    tensors = {
        name: value if not isinstance(value, np.ndarray) else Tensor(str(number), value)
        for number, (name, value) in enumerate(state.items())
    }
    storages = [value.storage for value in tensors.values() if isinstance(value, Tensor)]
    return tensors, {storage.key: storage.array for storage in storages}


def legacy_file(path, state):
    """Writes a state dict in the format of PyTorch up to 1.5."""
    state, storages = _tensors_and_storages(state)
    system = {"protocol_version": 1001, "little_endian": True, "type_sizes": {"int": 4}}
    with open(path, "wb") as file:
        for value in (0x1950A86A20F9469CFC6C, 1001, system):
            pickle.dump(value, file, protocol=2)
        file.write(_pickled(state, with_view=True))
        pickle.dump(list(storages), file, protocol=2)
        for array in storages.values():
            file.write(np.int64(array.size).tobytes() + array.tobytes())


def zip_file(path, state):
    """Writes a state dict in the format of PyTorch since 1.6."""
    state, storages = _tensors_and_storages(state)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", _pickled(state, with_view=False))
        for key, array in storages.items():
            archive.writestr(f"archive/data/{key}", array.tobytes())
        archive.writestr("archive/version", "3\n")
        archive.writestr("archive/byteorder", "little")
