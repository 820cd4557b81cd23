"""Reads vector files with the libraries that users read them with."""

import json
from pathlib import Path

import h5py
import numpy as np
import pyarrow.parquet as pq


def read_vectors(path):
    """The arrays of a file of any format, by sentence number."""
    return _READERS[path.suffix](path)


def _hdf5(path):
    with h5py.File(path) as file:
        return {int(name): file[name][()] for name in file if name != "sentence_to_index"}


def sentence_to_index(path):
    with h5py.File(path) as file:
        return json.loads(file["sentence_to_index"][0])


def _parquet(path):
    table = pq.read_table(path)
    lines, shapes, vectors = (table[name].combine_chunks() for name in ("line", "shape", "vectors"))
    return {
        line.as_py(): array.values.to_numpy().reshape(shape.as_py())
        for line, shape, array in zip(lines, shapes, vectors, strict=True)
    }


def read_shards(folder):
    """The rows of the shards of a pipeline, by name of the text file and line."""
    rows = pq.read_table(folder).to_pylist()
    by_line = {(Path(row["file"]).name, row["line"]): row for row in rows}
    assert len(by_line) == len(rows)
    return by_line


def vectors_of(row, dtype=np.float32):
    """The array of a row of a shard."""
    return np.array(row["vectors"], dtype).reshape(row["shape"])


def _npy(path):
    return dict(enumerate(np.load(path)))


_READERS = {".hdf5": _hdf5, ".parquet": _parquet, ".npy": _npy}
