"""Vectors ─► HDF5, one dataset a sentence, as users of the PyTorch implementation know it."""

import contextlib
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from elmo_tf.embedding.outputs.journaled_file import JournaledFile
from elmo_tf.embedding.outputs.vector_output import OutputOptions, VectorOutput
from elmo_tf.text.sentence_files import Sentence

SENTENCES = "sentence_to_index"
_FILE = "vectors.hdf5"
# What stands in for a sentence that HDF5 cannot take for a name, and is none itself.
_SPARE_KEY = re.compile(r"line [0-9]+")


class HDF5Output(VectorOutput):
    """One dataset a sentence, named by its number from 0, and `sentence_to_index` in JSON.

    With `use_sentence_keys` a dataset is named by its sentence, so that `file[sentence]` finds it,
    and has its number as attribute `line`. A `/` makes a group, as in every HDF5 path. Of a
    sentence that comes again the first dataset is kept: the vectors are the same. A sentence that
    can be no name (it is empty, HDF5 would leave out a part of it, as of `a//b`, or what it needs
    as a group is a dataset, or the reverse) is named `line 7` by its number.
    """

    name = "HDF5"
    compressions = ("gzip", "lzf")
    takes_sentence_keys = True

    def __init__(self, folder: str | os.PathLike, options: OutputOptions):
        super().__init__(folder, options)
        self._journal = JournaledFile(self._folder / _FILE)
        self.position = self._journal.note
        self._file = h5py.File(self._journal, "r+" if self.position else "w")

    def write(self, number: int, sentence: Sentence, vectors: np.ndarray) -> None:
        with self._journal.checked():
            self._write(number, sentence, self._options.as_written(vectors))

    def _write(self, number: int, sentence: Sentence, vectors: np.ndarray) -> None:
        # Only what is cut into chunks can be compressed, and nothing cannot be cut.
        compression = self._options.compression
        filters = {} if compression == "none" or not vectors.size else {"compression": compression}
        if not self._options.use_sentence_keys:
            self._file.create_dataset(str(number), data=vectors, **filters)
            return
        key, spare = sentence.text, f"line {number}"
        if not _is_name(key):
            key = spare
        elif isinstance(self._find(key), h5py.Dataset):
            return
        try:
            dataset = self._file.create_dataset(key, data=vectors, **filters)
        except (ValueError, TypeError, KeyError, OSError):
            dataset = self._file.create_dataset(spare, data=vectors, **filters)
        dataset.attrs["line"] = number

    def _find(self, key: str) -> Any:
        try:
            return self._file[key]
        except (ValueError, TypeError, KeyError, OSError):
            return None

    def commit(self, position: dict[str, Any]) -> None:
        with self._journal.checked():
            self._file.flush()
        self._journal.commit(position)
        self.position = position

    def finish(self, sentences: Iterable[Sentence]) -> list[tuple[Path, str]]:
        with self._journal.checked():
            if not (self._options.forget_sentences or self._options.use_sentence_keys):
                index = {sentence.text: str(number) for number, sentence in enumerate(sentences)}
                self._file.pop(SENTENCES, None)  # of a run that was killed here
                text = h5py.string_dtype()
                self._file.create_dataset(SENTENCES, data=[json.dumps(index)], dtype=text)
            self._file.close()
        self._journal.commit(self.position)
        self._journal.close()
        return [(self._folder / _FILE, "")]

    def close(self) -> None:
        # After a failed write HDF5 may find anything in the file. Only commits count.
        with contextlib.suppress(Exception):
            self._file.close()
        self._journal.close()


def _is_name(key: str) -> bool:
    """Whether HDF5 takes a key as it is: no part is left out, and it ends where it ends."""
    is_whole = all(part not in ("", ".") for part in key.split("/")) and "\0" not in key
    return is_whole and not _SPARE_KEY.fullmatch(key)
