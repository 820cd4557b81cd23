"""Checkpoints from elsewhere: named models, downloads, archives, and the Hugging Face Hub."""

import contextlib
import difflib
import gzip
import hashlib
import json
import os
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import h5py
import keras

from elmo_tf.extras import require_extra

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

# The file of ELMoForManyLangs that is unpacked last: if it is there, all are.
_LAST_UNPACKED = "encoder.pkl"

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
            for file in sorted(Path(part).iterdir(), key=lambda file: file.name == _LAST_UNPACKED):
                os.replace(file, self.folder / file.name)
        archive.unlink(missing_ok=True)

    def _is_unpacked(self) -> bool:
        return (self.folder / _LAST_UNPACKED).is_file()


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


HUB = "hf://"
_TAR_SUFFIXES = (".tar.gz", ".tgz")
# First bytes of files.
_ZIP, _GZIP = b"PK", b"\x1f\x8b"
# Errors of damaged archives.
_DAMAGE = (zipfile.BadZipFile, zlib.error, tarfile.ReadError, gzip.BadGzipFile, EOFError)


def cache_folder(name: str) -> Path:
    """Returns the directory `elmo_tf/NAME` in Keras's cache.

    As in Keras, the cache is `KERAS_HOME` or `~/.keras`, or if that is not writable, `.keras` in
    the directory for temporary files.
    """
    home = Path(os.path.expanduser(os.environ.get("KERAS_HOME") or os.path.join("~", ".keras")))
    existing = next(folder for folder in (home, *home.absolute().parents) if folder.exists())
    if not os.access(existing, os.W_OK):
        home = Path(tempfile.gettempdir(), ".keras")
    return home / "elmo_tf" / name


def cached_file(address: str, folder: Path) -> Path:
    """Downloads a file, unless it is in the directory already, and returns its path.

    The file appears when it is complete and valid. Several processes may download it at once.

    Raises:
        OSError: the file cannot be downloaded or written. The message names the URL or directory.
    """
    file = folder / Path(urlsplit(address).path).name
    if file.exists():
        return file
    try:
        folder.mkdir(parents=True, exist_ok=True)
        part = tempfile.TemporaryDirectory(prefix=".part-", dir=folder)
    except OSError as error:
        raise OSError(
            f"Cannot write to {folder}: {error}. Set KERAS_HOME to a writable directory."
        ) from error
    with part:
        try:
            with contextlib.redirect_stdout(sys.stderr):  # Keras shows its progress on stdout
                fetched = keras.utils.get_file(origin=address, cache_dir=part.name, cache_subdir="")
            _check_kind(Path(fetched))
        except Exception as error:  # of urllib, Keras or sockets
            raise OSError(f"Cannot download {address}: {error}") from error
        os.replace(fetched, file)
    return file


def is_archive(path: Path) -> bool:
    """Whether a file is an archive that `unpack` reads, by its name or first bytes."""
    return path.name.lower().endswith((".zip", *_TAR_SUFFIXES)) or _start(path) in (_ZIP, _GZIP)


def unpack(archive: Path, folder: str | os.PathLike) -> None:
    """Unpacks a zip file or a compressed tar file into a directory.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is damaged, or a member of a tar file would be outside the directory.
    """
    try:
        if _is_tar(archive):
            with tarfile.open(archive, "r:gz") as opened:
                opened.extractall(folder, filter="data")
        else:
            with zipfile.ZipFile(archive) as opened:
                opened.extractall(folder)
    except FileNotFoundError:
        raise
    except _DAMAGE as error:
        raise ValueError(
            f"Cannot unpack {archive}: {error}. The file is damaged or incomplete: copy or "
            "download it again."
        ) from None
    except (tarfile.TarError, OSError, RuntimeError) as error:  # RuntimeError: of an encrypted zip
        raise ValueError(f"Cannot unpack {archive}: {error}") from None


def _is_tar(path: Path) -> bool:
    return path.name.lower().endswith(_TAR_SUFFIXES) or _start(path) == _GZIP


def _start(path: Path) -> bytes:
    with open(path, "rb") as file:
        return file.read(len(_ZIP))


def _check_kind(file: Path) -> None:
    """Checks the format of a download, which may be the login page of a network."""
    if file.suffix == ".json":
        try:
            json.loads(file.read_text(encoding="utf-8"))
        except ValueError:
            raise ValueError("the response is not JSON") from None
    elif file.suffix == ".hdf5" and not h5py.is_hdf5(file):
        raise ValueError("the response is not HDF5")
    elif file.suffix == ".zip" and not zipfile.is_zipfile(file):
        raise ValueError("the response is not a zip file")
    elif file.name.lower().endswith(_TAR_SUFFIXES) and _start(file) != _GZIP:
        raise ValueError("the response is not a compressed tar file")


def hub_folder(name: str, patterns: Iterable[str]) -> Path:
    """Downloads `hf://owner/name` or `hf://owner/name@revision` from the Hugging Face Hub.

    Returns its directory in the Hub's cache.

    The library's settings apply, such as `HF_HOME`, `HF_HUB_OFFLINE` and `HF_TOKEN`. Only files
    that match the patterns are downloaded.

    Raises:
        FileNotFoundError: the repository or the revision does not exist or is private, or it is
            not in the cache and the Hub cannot be reached.
        ValueError: the name is not valid.
        MissingExtraError: the package huggingface_hub is not installed.
    """
    hub = require_extra("huggingface_hub", "huggingface", f"The checkpoint {name}")
    errors = require_extra("huggingface_hub.errors", "huggingface", f"The checkpoint {name}")
    repository, _, revision = name.removeprefix(HUB).partition("@")
    if repository.count("/") != 1:
        raise ValueError(f"A name on the Hugging Face Hub is hf://owner/name. Received: {name!r}")
    try:
        folder = hub.snapshot_download(
            repository, revision=revision or None, allow_patterns=sorted(patterns)
        )
    except errors.HFValidationError as error:
        raise ValueError(f"{name!r} is not a name on the Hugging Face Hub: {error}") from None
    except errors.RevisionNotFoundError:
        raise FileNotFoundError(
            f"{HUB}{repository} has no revision {revision!r} on the Hugging Face Hub."
        ) from None
    except errors.RepositoryNotFoundError:
        raise FileNotFoundError(
            f"{name} does not exist on the Hugging Face Hub, or is private. For a private "
            "repository, set HF_TOKEN."
        ) from None
    except Exception as error:  # of the Hub, its HTTP library or the file system
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise FileNotFoundError(
            f"{name} is not in the cache of the Hugging Face Hub, and cannot be downloaded: "
            f"{reason} Download its files elsewhere, and pass their directory."
        ) from error
    return Path(folder)
