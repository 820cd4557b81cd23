"""Vectors ─► NumPy files: an archive with one array per sentence, or one array of all tokens."""

import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from elmo_tf.embedding.outputs.vector_output import VectorOutput, npy_header
from elmo_tf.text.sentence_files import FileSentence

# Added to the name of the array for the file of sentence offsets.
OFFSETS = ".offsets.npy"


class NpzOutput(VectorOutput):
    """An archive with one array per sentence, named by its number: `numpy.load(path)["0"]`."""

    name = "An .npz archive"
    compressions = ("gzip",)

    def join(
        self, shards: Iterable[tuple[Path, Sequence[FileSentence]]], folder: Path
    ) -> dict[str, Path]:
        path = folder / "vectors.npz"
        is_plain = self._options.compression == "none"
        method = zipfile.ZIP_STORED if is_plain else zipfile.ZIP_DEFLATED
        with zipfile.ZipFile(path, "w", method) as archive:
            for number, _, vectors in self._arrays(shards):
                with archive.open(f"{number}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.ascontiguousarray(vectors))
        return {"": path}


class NpyOutput(VectorOutput):
    """One array of all tokens, for memory mapping.

    `NAME.npy` is (token, …, feature), and `NAME.npy.offsets.npy` is int64 (sentence + 1,): sentence
    k is `vectors[offsets[k] : offsets[k + 1]]`. With pooling, `NAME.npy` is (sentence, …, feature),
    and there are no offsets.
    """

    name = "An .npy array"
    compressions = ()
    suffixes = (OFFSETS,)

    def join(
        self, shards: Iterable[tuple[Path, Sequence[FileSentence]]], folder: Path
    ) -> dict[str, Path]:
        path = folder / "vectors.npy"
        ends, rows = [0], np.zeros(0, self._options.dtype)
        with open(path, "wb") as file:
            for _, _, vectors in self._arrays(shards):
                # (token, …, feature), or (1, …, feature) with pooling
                rows = vectors[np.newaxis] if self._is_pooled else np.moveaxis(vectors, -2, 0)
                if len(ends) == 1:
                    file.write(npy_header(rows.shape, rows.dtype))
                file.write(np.ascontiguousarray(rows))
                ends.append(ends[-1] + len(rows))
            file.seek(0)
            file.write(npy_header((ends[-1], *rows.shape[1:]), rows.dtype))
        if self._is_pooled:
            return {"": path}
        offsets = folder / OFFSETS[1:]
        np.save(offsets, np.array(ends))
        return {OFFSETS: offsets, "": path}
