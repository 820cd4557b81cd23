"""Vectors ─► HDF5, one dataset per sentence, as in the PyTorch implementation."""

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from elmo_tf.embedding.outputs.vector_output import VectorOutput
from elmo_tf.text.sentence_files import FileSentence

SENTENCES = "sentence_to_index"
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

    def join(
        self, shards: Iterable[tuple[Path, Sequence[FileSentence]]], folder: Path
    ) -> dict[str, Path]:
        path = folder / "vectors.hdf5"
        keys = {}
        with h5py.File(path, "w") as file:
            for index, sentence, vectors in self._arrays(shards):
                if self._options.use_sentence_keys:
                    self._write_by_sentence(file, index, sentence, vectors)
                    continue
                file.create_dataset(str(index), data=vectors, **self._filters(vectors))
                if not self._options.forget_sentences:
                    keys[_text(sentence)] = str(index)
            if not (self._options.forget_sentences or self._options.use_sentence_keys):
                text = h5py.string_dtype()
                file.create_dataset(SENTENCES, data=[json.dumps(keys)], dtype=text)
        return {"": path}

    def _filters(self, vectors: np.ndarray) -> dict[str, str]:
        # HDF5 compresses only chunked datasets, and empty datasets cannot be chunked.
        compression = self._options.compression
        return {} if compression == "none" or not vectors.size else {"compression": compression}

    def _write_by_sentence(
        self, file: h5py.File, number: int, sentence: FileSentence, vectors: np.ndarray
    ) -> None:
        key, fallback = _text(sentence), f"line {number}"
        if not _is_valid_key(key):
            key = fallback
        elif isinstance(_found(file, key), h5py.Dataset):
            return
        filters = self._filters(vectors)
        try:
            dataset = file.create_dataset(key, data=vectors, **filters)
        except (ValueError, TypeError, KeyError, OSError):
            dataset = file.create_dataset(fallback, data=vectors, **filters)
        dataset.attrs["line"] = number


def _found(file: h5py.File, key: str) -> Any:
    try:
        return file[key]
    except (ValueError, TypeError, KeyError, OSError):
        return None


def _text(sentence: FileSentence) -> str:
    """The key of a sentence; of raw text, its tokens, as in tokenized text."""
    return sentence.text if sentence.offsets is None else " ".join(sentence.tokens)


def _is_valid_key(key: str) -> bool:
    """Whether HDF5 uses a key unchanged: it drops parts `` and `.`, and ends a key at NUL."""
    is_unchanged = all(part not in ("", ".") for part in key.split("/")) and "\0" not in key
    return is_unchanged and not _FALLBACK_KEY.fullmatch(key)
