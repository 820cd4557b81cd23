"""The format of an output, by its name."""

import os

from elmo_tf.embedding.outputs.hdf5_output import HDF5Output
from elmo_tf.embedding.outputs.numpy_output import NpyOutput, NpzOutput
from elmo_tf.embedding.outputs.parquet_output import ParquetOutput
from elmo_tf.embedding.outputs.vector_output import VectorOutput

_BY_SUFFIX: dict[str, type[VectorOutput]] = {
    ".hdf5": HDF5Output,
    ".h5": HDF5Output,
    ".parquet": ParquetOutput,
    ".npz": NpzOutput,
    ".npy": NpyOutput,
}


def output_format(path: str | os.PathLike) -> type[VectorOutput]:
    """The class that writes an output of that name; HDF5 if its suffix tells nothing."""
    return _BY_SUFFIX.get(os.path.splitext(os.fspath(path))[1].lower(), HDF5Output)
