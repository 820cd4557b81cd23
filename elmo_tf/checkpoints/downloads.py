"""A file of the web ─► Keras's cache on the disk, once."""

import contextlib
import json
import os
import sys
import tempfile
import zipfile
from pathlib import Path
from urllib.parse import urlsplit

import h5py
import keras


def cache_folder(name: str) -> Path:
    """A folder of ours in Keras's cache.

    That is `~/.keras`, or what `KERAS_HOME` names, or, where that cannot be written, `.keras` among
    the temporary files, as Keras itself has it.
    """
    home = Path(os.path.expanduser(os.environ.get("KERAS_HOME") or os.path.join("~", ".keras")))
    there = next(folder for folder in (home, *home.absolute().parents) if folder.exists())
    if not os.access(there, os.W_OK):
        home = Path(tempfile.gettempdir(), ".keras")
    return home / "elmo_tf" / name


def cached_file(address: str, folder: Path) -> Path:
    """The file of an address, downloaded unless it is in a folder already.

    It appears when it is complete and is of the kind that its name tells: several processes may ask
    for it at once, and what a network answers in place of it is not kept.

    Args:
        address: http(s).
        folder: made if it is not there.

    Raises:
        OSError: it cannot be downloaded or written. The message tells the address or the folder.
    """
    file = folder / Path(urlsplit(address).path).name
    if file.exists():
        return file
    try:
        folder.mkdir(parents=True, exist_ok=True)
        part = tempfile.TemporaryDirectory(prefix=".part-", dir=folder)
    except OSError as error:
        raise OSError(
            f"Cannot write to {folder}: {error}. Have KERAS_HOME name a folder that can be written."
        ) from error
    with part:
        try:
            with contextlib.redirect_stdout(sys.stderr):  # Keras shows its progress on stdout
                fetched = keras.utils.get_file(origin=address, cache_dir=part.name, cache_subdir="")
            _check_kind(Path(fetched))
        except Exception as error:  # urllib, Keras and sockets each raise their own
            raise OSError(f"Cannot download {address}: {error}") from error
        os.replace(fetched, file)
    return file


def _check_kind(file: Path) -> None:
    """A network that wants somebody to log in answers everything with a page of its own."""
    if file.suffix == ".json":
        try:
            json.loads(file.read_text(encoding="utf-8"))
        except ValueError:
            raise ValueError("what came is not JSON") from None
    elif file.suffix == ".hdf5" and not h5py.is_hdf5(file):
        raise ValueError("what came is not HDF5")
    elif file.suffix == ".zip" and not zipfile.is_zipfile(file):
        raise ValueError("what came is not a zip")
