"""Vectors ─► HDF5, one dataset per sentence, as in the PyTorch implementation."""

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
from elmo_tf.text.sentence_files import FileSentence

SENTENCES = "sentence_to_index"
_FILE = "vectors.hdf5"
# Names of datasets whose sentences are not valid names. A sentence of this form is not one either.
_FALLBACK_KEY = re.compile(r"line [0-9]+")


class HDF5Output(VectorOutput):
    """One dataset per sentence, named by its number from 0, and `sentence_to_index` in JSON.

    With `use_sentence_keys`, a dataset is named by its sentence, so that `file[sentence]` finds it,
    and has its number in the attribute `line`. A `/` creates a group, as in every HDF5 path. A
    repeated sentence shares the first dataset, since the vectors are the same. A sentence that is
    not a valid name is named `line 7` by its number: an empty one, one that HDF5 would shorten
    (`a//b`), or one that needs a group where there is a dataset, or the reverse.
    """

    name = "HDF5"
    compressions = ("gzip", "lzf")
    takes_sentence_keys = True

    def __init__(self, folder: str | os.PathLike, options: OutputOptions):
        super().__init__(folder, options)
        self._journal = JournaledFile(self._folder / _FILE)
        self.position = self._journal.note
        self._file = h5py.File(self._journal, "r+" if self.position else "w")

    def write(self, number: int, sentence: FileSentence, vectors: np.ndarray) -> None:
        with self._journal.checked():
            self._write(number, sentence, self._options.as_written(vectors))

    def _write(self, number: int, sentence: FileSentence, vectors: np.ndarray) -> None:
        # HDF5 compresses only chunked datasets, and empty datasets cannot be chunked.
        compression = self._options.compression
        filters = {} if compression == "none" or not vectors.size else {"compression": compression}
        if not self._options.use_sentence_keys:
            self._file.create_dataset(str(number), data=vectors, **filters)
            return
        key, fallback = _text(sentence), f"line {number}"
        if not _is_valid_key(key):
            key = fallback
        elif isinstance(self._find(key), h5py.Dataset):
            return
        try:
            dataset = self._file.create_dataset(key, data=vectors, **filters)
        except (ValueError, TypeError, KeyError, OSError):
            dataset = self._file.create_dataset(fallback, data=vectors, **filters)
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

    def finish(self, sentences: Iterable[FileSentence]) -> list[tuple[Path, str]]:
        with self._journal.checked():
            if not (self._options.forget_sentences or self._options.use_sentence_keys):
                index = {_text(sentence): str(number) for number, sentence in enumerate(sentences)}
                self._file.pop(SENTENCES, None)  # from an interrupted `finish`
                text = h5py.string_dtype()
                self._file.create_dataset(SENTENCES, data=[json.dumps(index)], dtype=text)
            self._file.close()
        self._journal.commit(self.position)
        self._journal.close()
        return [(self._folder / _FILE, "")]

    def close(self) -> None:
        # After a failed write, HDF5 may raise any error. The last commit is safe.
        with contextlib.suppress(Exception):
            self._file.close()
        self._journal.close()


def _text(sentence: FileSentence) -> str:
    """The key of a sentence; of raw text, its tokens, as in tokenized text."""
    return sentence.text if sentence.offsets is None else " ".join(sentence.tokens)


def _is_valid_key(key: str) -> bool:
    """Whether HDF5 uses a key unchanged: it drops parts `` and `.`, and ends a key at NUL."""
    is_unchanged = all(part not in ("", ".") for part in key.split("/")) and "\0" not in key
    return is_unchanged and not _FALLBACK_KEY.fullmatch(key)
