"""Reads vector files with the libraries that users read them with."""

import itertools
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


def _npz(path):
    with np.load(path) as archive:
        return {int(name): archive[name] for name in archive}


def _npy(path):
    vectors = np.load(path)
    if not Path(f"{path}.offsets.npy").exists():  # a vector for each sentence
        return dict(enumerate(vectors))
    offsets = np.load(f"{path}.offsets.npy")
    parts = [vectors[start:end] for start, end in itertools.pairwise(offsets)]
    return {number: np.moveaxis(part, 0, -2) for number, part in enumerate(parts)}


_READERS = {".hdf5": _hdf5, ".parquet": _parquet, ".npz": _npz, ".npy": _npy}
