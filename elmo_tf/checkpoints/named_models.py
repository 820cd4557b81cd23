"""The name of a model ─► its files: of one that comes with the package, or of a published one."""

import difflib
import hashlib
import os
from importlib import resources
from pathlib import Path
from typing import Any

from elmo_tf.checkpoints.downloads import cache_folder, cached_file

# Folders of the package data of `elmo_tf.saved_models`.
_SHIPPED = {"small-en": "small_en"}

# Peters et al. 2018 and AllenNLP, Apache-2.0: the web folder of each.
_PUBLISHED = {
    "original": "2x4096_512_2048cnn_2xhighway",
    "small": "2x1024_128_2048cnn_1xhighway",
    "medium": "2x2048_256_2048cnn_1xhighway",
    "5.5B": "2x4096_512_2048cnn_2xhighway_5.5B",
}
_ADDRESS = "https://allennlp.s3.amazonaws.com/models/elmo"
# Of weights, by the name of the model, where it is known.
_SHA256 = {"small": "747ba97abce8a5f446558369e10bb0f7931437a46867476fdd156f5d7f576229"}

MODEL_NAMES = (*_SHIPPED, *_PUBLISHED)


class NamedModel:
    """A model that is known by its name.

    Args:
        name: one of `MODEL_NAMES`.

    Attributes:
        folder: where its files are, or, before `fetch`, will be: a folder of the package, or one of
            Keras's cache (`~/.keras`, or what `KERAS_HOME` names).
    """

    def __init__(self, name: str):
        self.name = name
        self.folder = _shipped_folder(name) if name in _SHIPPED else cache_folder(name)

    def fetch(self) -> Path:
        """Downloads what is not there yet; returns `folder`.

        Raises:
            FileNotFoundError: the files of a shipped model are not in this installation.
            OSError: a file cannot be downloaded. The message says which to put where.
            ValueError: a file is not the published one.
        """
        if self.name in _SHIPPED:
            if not any(self.folder.glob("*weights.hdf5")):
                raise FileNotFoundError(
                    f"The files of {self.name} are missing in {self.folder}: this installation was "
                    "built without them. Install elmo_tf again, or pass a checkpoint directory."
                )
            return self.folder
        for address in _addresses(self.name):
            self._fetch(address)
        return self.folder

    def _fetch(self, address: str) -> None:
        try:
            file = cached_file(address, self.folder)
        except OSError as error:
            raise OSError(
                f"{error}. The model {self.name} of Peters et al. 2018 is two files. Where there "
                f"is a network, fetch {' and '.join(_addresses(self.name))}, and put both into "
                f"{self.folder}, their names unchanged."
            ) from error
        wanted = _SHA256.get(self.name) if file.suffix == ".hdf5" else None
        if wanted is not None and _sha256(file) != wanted:
            raise ValueError(
                f"{file} is not the published file: its SHA-256 is not {wanted}. It was cut short "
                "or changed. Remove it; it is then fetched again."
            )


def find_named_model(path: Any) -> NamedModel | None:
    """The model that a string names, unless a file or folder of that name is there.

    Args:
        path: what `load_bilm` takes. Only a `str` can be a name.
    """
    if isinstance(path, str) and path in MODEL_NAMES and not os.path.exists(path):
        return NamedModel(path)
    return None


def name_hint(path: str | os.PathLike) -> str:
    """A hint for the message that a path does not exist: the model with the most similar name."""
    names = {name.lower(): name for name in MODEL_NAMES}
    near = difflib.get_close_matches(str(path).lower(), names, n=1, cutoff=0.7)
    if not near:
        return ""
    name = names[near[0]]
    kind = "built-in" if name in _SHIPPED else "published"
    return f" Did you mean the {kind} model {name!r}?"


def _addresses(name: str) -> tuple[str, str]:
    folder = _PUBLISHED[name]
    stem = f"{_ADDRESS}/{folder}/elmo_{folder}"
    return f"{stem}_options.json", f"{stem}_weights.hdf5"


def _shipped_folder(name: str) -> Path:
    return Path(str(resources.files("elmo_tf.saved_models") / _SHIPPED[name]))


def _sha256(file: Path) -> str:
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
