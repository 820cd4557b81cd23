"""The output formats by file suffix: HDF5, Parquet, NumPy."""

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
    """Returns the class that writes an output, chosen by its suffix.

    Raises:
        ValueError: the suffix is unknown.
    """
    path = os.fspath(path)
    kind = _BY_SUFFIX.get(os.path.splitext(path)[1].lower())
    if kind is None:
        raise ValueError(
            f"The name of an output must end in {', '.join(_BY_SUFFIX)}. Received: {path!r}"
        )
    return kind
