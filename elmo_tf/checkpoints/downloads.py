"""A file of the web ─► Keras's cache on the disk, once."""

import contextlib
import os
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

import keras


def cache_folder(name: str) -> Path:
    """A folder of ours in Keras's cache, which is `~/.keras`, or what `KERAS_HOME` names."""
    home = os.environ.get("KERAS_HOME") or os.path.join("~", ".keras")
    return Path(os.path.expanduser(home), "elmo_tf", name)


def cached_file(address: str, folder: Path) -> Path:
    """The file of an address, downloaded unless it is in a folder already.

    It appears when it is complete: several processes may ask for it at once.

    Args:
        address: http(s).
        folder: made if it is not there.

    Raises:
        OSError: it cannot be downloaded or written. The message tells the address.
    """
    file = folder / Path(urlsplit(address).path).name
    if file.exists():
        return file
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (
            tempfile.TemporaryDirectory(prefix=".part-", dir=folder) as part,
            contextlib.redirect_stdout(sys.stderr),  # Keras shows its progress on stdout
        ):
            fetched = keras.utils.get_file(origin=address, cache_dir=part, cache_subdir="")
            os.replace(fetched, file)
    except Exception as error:  # urllib, Keras and sockets each raise their own
        raise OSError(f"Cannot download {address}: {error}") from error
    return file
