"""Named models: those of the package, and the published ones, which are downloaded."""

import difflib
import hashlib
import os
import tempfile
from importlib import resources
from pathlib import Path
from typing import Any

from elmo_tf.checkpoints.downloads import cache_folder, cached_file, unpack
from elmo_tf.checkpoints.manylangs import ENCODER_FILE

# Directories in the package data of `elmo_tf.saved_models`.
_SHIPPED = {"small-en": "small_en"}

# Peters et al. 2018 and AllenNLP, Apache-2.0: directories below `_ADDRESS`.
_PUBLISHED = {
    "original": "2x4096_512_2048cnn_2xhighway",
    "small": "2x1024_128_2048cnn_1xhighway",
    "medium": "2x2048_256_2048cnn_1xhighway",
    "5.5B": "2x4096_512_2048cnn_2xhighway_5.5B",
}
_ADDRESS = "https://allennlp.s3.amazonaws.com/models/elmo"

# ELMoForManyLangs (Che et al. 2018): the languages of its archives, 11/136.zip to 11/179.zip.
_LANGUAGES = (  # noqa: SIM905
    "ar bg ca cs cu da de el en es et eu fa fi fr ga gl grc he hi hr hu id it ja ko la lv nl nb nn "
    "pl pt ro ru sk sl sv tr ug uk ur vi zht"
).split()
_FIRST_ARCHIVE = 136
_MANYLANGS_ADDRESS = "http://vectors.nlpl.eu/repository/11"
_MANYLANGS = {
    f"manylangs-{language}": f"{archive}.zip"
    for archive, language in enumerate(_LANGUAGES, start=_FIRST_ARCHIVE)
}
# Digests of weights, if known.
_SHA256 = {"small": "747ba97abce8a5f446558369e10bb0f7931437a46867476fdd156f5d7f576229"}

MODEL_NAMES = (*_SHIPPED, *_PUBLISHED, *_MANYLANGS)


class NamedModel:
    """A model with a name, one of `MODEL_NAMES`."""

    def __init__(self, name: str):
        self.name = name
        self.is_built_in = name in _SHIPPED  # part of the package
        if self.is_built_in:
            self.folder = Path(str(resources.files("elmo_tf.saved_models") / _SHIPPED[name]))
        else:
            self.folder = cache_folder(name)  # `fetch` downloads the files

    def fetch(self) -> Path:
        """Downloads missing files, and returns `folder`.

        Raises:
            FileNotFoundError: this installation lacks the files of a built-in model.
            OSError: a file cannot be downloaded. The message names the files and where to put
                them.
            ValueError: the digest of a file is wrong, or an archive is damaged.
        """
        if self.is_built_in:
            if not any(self.folder.glob("*weights.hdf5")):
                raise FileNotFoundError(
                    f"The files of {self.name} are missing in {self.folder}: this installation was "
                    "built without them. Reinstall elmo_tf, or pass a checkpoint directory."
                )
            return self.folder
        if self.name in _MANYLANGS:
            if not self._is_unpacked():
                self._unpack(self._fetched(_addresses(self.name)[0]))
            return self.folder
        for address in _addresses(self.name):
            file = self._fetched(address)
            if self.name in _SHA256 and file.suffix == ".hdf5":
                _check_digest(file, _SHA256[self.name])
        return self.folder

    def _fetched(self, address: str) -> Path:
        try:
            return cached_file(address, self.folder)
        except OSError as error:
            raise OSError(
                f"{error}. To install the model {self.name} without a network, download "
                f"{' and '.join(_addresses(self.name))} elsewhere, and copy to {self.folder} "
                "without renaming."
            ) from error

    def _unpack(self, archive: Path) -> None:
        """Unpacks an archive into its folder, and removes it."""
        with tempfile.TemporaryDirectory(prefix=".part-", dir=self.folder) as part:
            try:
                unpack(archive, part)
            except FileNotFoundError:
                if self._is_unpacked():  # by another process, which has removed the archive
                    return
                raise
            # `_is_unpacked` checks for this file only, so it is moved last.
            for file in sorted(Path(part).iterdir(), key=lambda file: file.name == ENCODER_FILE):
                os.replace(file, self.folder / file.name)
        archive.unlink(missing_ok=True)

    def _is_unpacked(self) -> bool:
        return (self.folder / ENCODER_FILE).is_file()


def find_named_model(path: Any) -> NamedModel | None:
    """Returns the model with this name, or None if it is not a name or a path that exists."""
    if isinstance(path, str) and path in MODEL_NAMES and not os.path.exists(path):
        return NamedModel(path)
    return None


def name_hint(path: str | os.PathLike) -> str:
    """Returns a hint for error messages: the model with the most similar name, if any."""
    names = {name.lower(): name for name in MODEL_NAMES}
    matches = difflib.get_close_matches(str(path).lower(), names, n=1, cutoff=0.7)
    if not matches:
        return ""
    name = names[matches[0]]
    kind = "built-in" if name in _SHIPPED else "published"
    return f" Did you mean the {kind} model {name!r}?"


def _check_digest(file: Path, expected: str) -> None:
    with open(file, "rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest != expected:
        raise ValueError(
            f"{file} is not the published file: its SHA-256 is not {expected}. It is incomplete "
            "or was changed. Remove it to download it again."
        )


def _addresses(name: str) -> tuple[str, ...]:
    if name in _MANYLANGS:
        return (f"{_MANYLANGS_ADDRESS}/{_MANYLANGS[name]}",)
    folder = _PUBLISHED[name]
    stem = f"{_ADDRESS}/{folder}/elmo_{folder}"
    return f"{stem}_options.json", f"{stem}_weights.hdf5"
