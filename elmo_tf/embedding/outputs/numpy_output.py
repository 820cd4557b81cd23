"""Vectors ─► NumPy files: an archive with one array per sentence, or one array of all tokens."""

import contextlib
import io
import json
import os
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from elmo_tf.embedding.outputs.growing_files import GrowingFiles
from elmo_tf.embedding.outputs.vector_output import OutputOptions, VectorOutput
from elmo_tf.text.sentence_files import FileSentence

# The fields of a member in the directory of a zip archive, besides defaults.
_MEMBER_FIELDS = (
    *("filename", "header_offset", "CRC", "compress_size", "file_size"),
    *("compress_type", "flag_bits", "extract_version", "external_attr"),
)
# Members with more bytes than this use 64-bit sizes. Smaller members do not need them, even if
# compression enlarges them.
_LARGE = 2**30
# Added to the name of the array for the file of sentence offsets.
OFFSETS = ".offsets.npy"


class NpzOutput(VectorOutput):
    """An archive with one array per sentence, named by its number: `numpy.load(path)["0"]`.

    The directory of the archive is written at the end. Until then, a second file lists the members.
    """

    name = "An .npz archive"
    compressions = ("gzip",)

    def __init__(self, folder: str | os.PathLike, options: OutputOptions):
        super().__init__(folder, options)
        self._growing = GrowingFiles(self._folder, "vectors.npz", "members.jsonl")
        self.position = self._growing.note
        file, self._members = self._growing.files
        method = zipfile.ZIP_STORED if options.compression == "none" else zipfile.ZIP_DEFLATED
        self._archive = zipfile.ZipFile(file, "w", method)  # continues at the end of the file
        self._members.seek(0)
        for line in self._members:
            member = zipfile.ZipInfo()
            for field, value in json.loads(line).items():
                setattr(member, field, value)
            self._archive.filelist.append(member)
            self._archive.NameToInfo[member.filename] = member

    def write(self, number: int, sentence: FileSentence, vectors: np.ndarray) -> None:
        vectors = self._options.as_written(vectors)
        is_large = vectors.nbytes > _LARGE
        with self._archive.open(f"{number}.npy", "w", force_zip64=is_large) as member:
            np.lib.format.write_array(member, vectors)
        info = self._archive.getinfo(f"{number}.npy")
        line = json.dumps({field: getattr(info, field) for field in _MEMBER_FIELDS})
        self._members.write(line.encode() + b"\n")

    def commit(self, position: dict[str, Any]) -> None:
        self._growing.commit(position)
        self.position = position

    def finish(self, sentences: Iterable[FileSentence]) -> list[tuple[Path, str]]:
        self._archive.close()
        self._growing.close()
        return [(self._growing.paths[0], "")]

    def close(self) -> None:
        # Otherwise the archive would later write its directory to a closed file.
        with contextlib.suppress(OSError, ValueError):
            self._archive.close()
        self._growing.close()


class NpyOutput(VectorOutput):
    """One array of all tokens, which can be memory-mapped, and the offsets of the sentences.

    `NAME.npy` is (token, …, feature), and `NAME.npy.offsets.npy` is int64 (sentence + 1,): sentence
    k is `vectors[offsets[k] : offsets[k + 1]]`. With pooling, `NAME.npy` is (sentence, …, feature),
    and there are no offsets.
    """

    name = "An .npy array"
    compressions = ()
    suffixes = (OFFSETS,)

    def __init__(self, folder: str | os.PathLike, options: OutputOptions):
        super().__init__(folder, options)
        self._growing = GrowingFiles(self._folder, "vectors.npy", "offsets.npy")
        self.position = self._growing.note
        self._vectors, self._offsets = self._growing.files
        self._num_rows = self.position.get("num_rows", 0)
        self._shape = tuple(self.position.get("shape", ()))
        self._is_pooled = options.pool != "none"
        if not self.position:
            self._offsets.write(npy_header((0,), np.dtype(np.int64)) + bytes(8))

    def write(self, number: int, sentence: FileSentence, vectors: np.ndarray) -> None:
        rows = self._options.as_written(vectors)
        # (token, …, feature), or (1, …, feature) with pooling
        rows = rows[np.newaxis] if self._is_pooled else np.moveaxis(rows, -2, 0)
        if not self._num_rows and not self._vectors.tell():
            self._shape = rows.shape[1:]
            self._vectors.write(npy_header((0, *self._shape), rows.dtype))
        self._vectors.write(np.ascontiguousarray(rows))
        self._num_rows += len(rows)
        self._offsets.write(self._num_rows.to_bytes(8, "little"))

    def commit(self, position: dict[str, Any]) -> None:
        position = {**position, "num_rows": self._num_rows, "shape": self._shape}
        self._growing.commit(position)
        self.position = position

    def finish(self, sentences: Iterable[FileSentence]) -> list[tuple[Path | None, str]]:
        vectors = npy_header((self._num_rows, *self._shape), np.dtype(self._options.dtype))
        start = len(npy_header((0,), np.dtype(np.int64)))
        num_offsets = (self._offsets.seek(0, os.SEEK_END) - start) // 8
        offsets = npy_header((num_offsets,), np.dtype(np.int64))
        for file, header in ((self._vectors, vectors), (self._offsets, offsets)):
            file.seek(0)
            file.write(header)
        self._growing.close()
        vectors_path, offsets_path = self._growing.paths
        return [(None if self._is_pooled else offsets_path, OFFSETS), (vectors_path, "")]

    def close(self) -> None:
        self._growing.close()


def npy_header(shape: tuple[int, ...], dtype: np.dtype) -> bytes:
    """The header of a .npy file. Its size does not depend on the first axis."""
    buffer = io.BytesIO()
    fields = {"descr": dtype.str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, fields)
    return buffer.getvalue()
