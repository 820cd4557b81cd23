"""Names, URLs, archives, directories and pairs ─► the files of a checkpoint on this machine."""

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from elmo_tf.checkpoints.downloads import cache_folder, cached_file, is_archive, unpack
from elmo_tf.checkpoints.formats import OPTIONS_FILE, WEIGHTS_FILE, Checkpoint, LocalPath, Source
from elmo_tf.checkpoints.hugging_face import hub_folder, is_hub_name
from elmo_tf.checkpoints.manylangs import ManyLangsCheckpoint
from elmo_tf.checkpoints.named_models import find_named_model, name_hint
from elmo_tf.checkpoints.published import PublishedCheckpoint
from elmo_tf.checkpoints.tf1 import TF1Checkpoint

# The first format that recognizes a path reads it.
CHECKPOINT_FORMATS: tuple[type[Checkpoint], ...] = (
    TF1Checkpoint,
    ManyLangsCheckpoint,
    PublishedCheckpoint,
)


@contextlib.contextmanager
def open_checkpoint(path: Source) -> Iterator[Checkpoint]:
    """Context manager that downloads or unpacks a checkpoint if needed.

    Arguments and errors: see `load_bilm`.
    """
    if isinstance(path, tuple | list):
        if len(path) != 2:
            raise ValueError(f"A pair (options, weights) is required. Received: {path!r}")
        pair = tuple(_existing(_fetched(part)) for part in path)
        yield _format_at(pair)(pair, path)
        return
    if not isinstance(path, str | os.PathLike):
        raise TypeError(
            'Pass a checkpoint: a name such as "small-en", a path, a URL or a pair (options, '
            f"weights). Received: {path!r:.60} (of type {type(path).__name__})"
        )
    named = find_named_model(path)
    if is_hub_name(path):
        local = hub_folder(path, {name for kind in CHECKPOINT_FORMATS for name in kind.patterns})
    else:
        local = _fetched(path) if named is None else named.fetch()
    if (kind := _format_at(local)) is not None:
        yield kind(local, path)
    elif _existing(local).is_dir():
        yield _within(local, local.iterdir(), path)
    elif is_archive(local):
        with tempfile.TemporaryDirectory() as folder:
            unpack(local, folder)
            yield _within(Path(folder), Path(folder).rglob("*"), path)
    else:
        raise ValueError(
            f"{path} is not a checkpoint: pass a directory or an archive (.zip, .tar.gz) with "
            f"{OPTIONS_FILE} and {WEIGHTS_FILE}, or with the files of another format; or a pair "
            "(options, weights)."
        )


def is_checkpoint(path: Source) -> bool:
    """Whether `open_checkpoint` may read a path. Downloads nothing."""
    if isinstance(path, tuple | list) or find_named_model(path) is not None:
        return True
    if os.fspath(path).startswith(("http://", "https://")) or is_hub_name(path):
        return True
    path = Path(path)
    if path.is_file() or _format_at(path) is not None:
        return True
    return path.is_dir() and any(_homes(path.iterdir()))


def _format_at(path: LocalPath) -> type[Checkpoint] | None:
    return next((kind for kind in CHECKPOINT_FORMATS if kind.recognizes(path)), None)


def _within(folder: Path, others: Iterable[Path], shown: Source) -> Checkpoint:
    """The checkpoint in a directory, or else in the outermost of `others` with one."""
    homes = [folder] if _format_at(folder) is not None else _homes(others)
    homes = sorted(homes, key=lambda home: (len(home.parts), home))
    homes = [home for home in homes if len(home.parts) == len(homes[0].parts)]
    if not homes:
        raise FileNotFoundError(f"There is no *{OPTIONS_FILE} in {shown}.")
    if len(homes) > 1:
        names = ", ".join(str(home.relative_to(folder)) for home in homes)
        raise ValueError(
            f"{shown} holds several checkpoints: {names}. Pass the directory of one of them."
        )
    return _format_at(homes[0])(homes[0], shown)


def _homes(paths: Iterable[Path]) -> Iterator[Path]:
    """The directories with a checkpoint."""
    for path in paths:
        if path.is_dir() and not path.name.startswith(".") and _format_at(path) is not None:
            yield path


def _fetched(path: str | os.PathLike) -> Path:
    """The local path of a URL or path."""
    text = os.fspath(path)
    if text.startswith(("http://", "https://")):
        # Different checkpoints often have equal file names: one cache directory per URL directory.
        address = urlsplit(text)
        folder = address._replace(path=address.path.rpartition("/")[0]).geturl()
        return cached_file(text, cache_folder(hashlib.sha256(folder.encode()).hexdigest()[:16]))
    return Path(path)


def _existing(path: Path) -> Path:
    if not path.exists():
        raise FileNotFoundError(f"There is no checkpoint {path}.{name_hint(path)}")
    return path
