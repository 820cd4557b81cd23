"""Checkpoints from elsewhere: downloads, archives, and the Hugging Face Hub."""

import gzip
import os
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from absl import logging

from elmo_tf.lazy import require_extra

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


def cached_file(address: str, folder: Path, checksum: str | None = None) -> Path:
    """Downloads a file with pooch, unless the directory has it, and returns its path.

    The file appears when it is complete and valid. Several processes may download it at once.

    Args:
        address: an http(s) URL.
        folder: the directory. The file keeps its name.
        checksum: with its algorithm, such as "sha256:…". A file in the directory with another
            checksum is downloaded again. None: not known.

    Raises:
        OSError: the file cannot be downloaded or written. The message names the URL and directory.
    """
    import pooch  # here, because it makes the start of every command slower

    pooch.get_logger().setLevel("WARNING")
    name = Path(urlsplit(address).path).name
    try:
        return Path(pooch.retrieve(address, checksum, name, folder, downloader=_download))
    except (OSError, ValueError) as error:  # ValueError: a wrong checksum, or a web page
        reason = " ".join(str(error).split())
        raise OSError(f"Cannot download {address} to {folder}: {reason}") from error


def _download(address: str, file: str, others: Any) -> None:
    import pooch

    logging.info("Downloading %s.", address)
    pooch.HTTPDownloader(progressbar=sys.stderr.isatty())(address, file, others)
    with open(file, "rb") as content:
        if content.read(64).lstrip().startswith(b"<"):
            raise ValueError("the response is a web page. Does the network require a login?")


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


def hub_folder(name: str, patterns: Iterable[str]) -> Path:
    """Downloads `hf://owner/name` or `hf://owner/name@revision` from the Hugging Face Hub.

    Returns its directory in the Hub's cache.

    The library's settings apply, such as `HF_HOME`, `HF_HUB_OFFLINE` and `HF_TOKEN`. Only files
    that match the patterns are downloaded.

    Raises:
        FileNotFoundError: the repository or the revision does not exist or is private, or it is
            not in the cache and the Hub cannot be reached.
        ValueError: the name is not valid.
        ImportError: the package huggingface_hub is not installed.
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
    except (errors.RevisionNotFoundError, errors.RepositoryNotFoundError):
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
