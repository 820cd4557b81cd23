"""Where a checkpoint's files are: directories, pairs, archives, URLs and names ─► local paths."""

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from elmo_tf.checkpoints.downloads import cache_folder, cached_file, is_archive, unpack
from elmo_tf.checkpoints.hugging_face import hub_folder, is_hub_name
from elmo_tf.checkpoints.manylangs import (
    CONFIG_FILE,
    ENCODER_FILE,
    TOKEN_EMBEDDER_FILE,
    is_manylangs,
)
from elmo_tf.checkpoints.named_models import find_named_model, name_hint
from elmo_tf.checkpoints.tf1 import find_tf1_checkpoint
from elmo_tf.checkpoints.weight_files import FORMATS, WEIGHT_PATTERNS
from elmo_tf.text.lexicon import CHARACTERS_FILE, WORDS_FILE

Source = str | os.PathLike | tuple[str | os.PathLike, str | os.PathLike]

OPTIONS_FILE = "options.json"
# Weight files; `.safetensors` in place of `.hdf5` in that format.
WEIGHTS_FILE = "weights.hdf5"
EMBEDDINGS_FILE = "token_embeddings.hdf5"
SOFTMAX_FILE = "softmax.hdf5"
VOCABULARY_FILE = "vocab.txt"

_OPTIONS = ("*options.json",)
# Names of files, without suffix, that are never the weights.
_OTHER_ARRAYS = (Path(EMBEDDINGS_FILE).stem, Path(SOFTMAX_FILE).stem)


@contextlib.contextmanager
def local_checkpoint(path: Source) -> Iterator[Source]:
    """Context manager that yields a local directory or pair of files: downloaded, or unpacked.

    A TensorFlow 1 checkpoint is unchanged. Arguments and errors: see `load_bilm`.
    """
    if not isinstance(path, str | os.PathLike | tuple | list):
        raise TypeError(
            'Pass a checkpoint: a name such as "small-en", a path, a URL or a pair (options, '
            "weights). "
            f"Received: {path!r:.60} (of type {type(path).__name__})"
        )
    path = local_path(path)
    if isinstance(path, tuple | list):
        if len(path) != 2:
            raise ValueError(f"A pair (options, weights) is required. Received: {path!r}")
        yield tuple(_existing(_fetched(part)) for part in path)
        return
    if find_tf1_checkpoint(path) is not None:
        yield path
        return
    named = find_named_model(path)
    path = _existing(_fetched(path)) if named is None else named.fetch()
    if path.is_dir():
        yield _home(path, path.iterdir(), path)
        return
    if not is_archive(path):
        raise ValueError(
            f"{path} is not a checkpoint: pass a directory or an archive (.zip, .tar.gz) with "
            f"{OPTIONS_FILE} and {WEIGHTS_FILE} or weights.safetensors, or with the files of an "
            f"ELMoForManyLangs model ({CONFIG_FILE}, {ENCODER_FILE}, {TOKEN_EMBEDDER_FILE}, "
            f"{CHARACTERS_FILE}, {WORDS_FILE}); or a pair (options, weights)."
        )
    with tempfile.TemporaryDirectory() as folder:
        unpack(path, folder)
        yield _home(Path(folder), Path(folder).rglob("*"), path)


@contextlib.contextmanager
def locate(path: Source) -> Iterator[tuple[Path, Path]]:
    """Context manager that yields local paths of the options and the weights."""
    with local_checkpoint(path) as local:
        if isinstance(local, tuple | list):
            yield tuple(local)
        else:
            yield _files_of(local, shown=path)


def local_path(path: Source) -> Source:
    """`path`, or the local directory of a built-in model or of a name on the Hugging Face Hub."""
    named = find_named_model(path)
    if named is not None and named.is_built_in:
        return named.fetch()
    return hub_folder(path) if is_hub_name(path) else path


def is_checkpoint_directory(folder: Path) -> bool:
    """Whether a directory, or one of its subdirectories, holds a checkpoint."""
    return _holds_checkpoint(folder) or any(_homes(folder.iterdir()))


def one_of(folder: Path, patterns: Sequence[str], shown: Source | None = None) -> Path:
    """Returns the one file that matches; the message of an error names `shown` or the folder."""
    return _only(_matches(folder, patterns), patterns, shown or folder)


def _only(found: Sequence[Path], patterns: Sequence[str], shown: Source) -> Path:
    if len(found) == 1:
        return found[0]
    wanted = " or ".join(patterns)
    if not found:
        raise FileNotFoundError(f"There is no {wanted} in {shown}.")
    raise ValueError(
        f"{shown} must contain one {wanted}, not {len(found)}: "
        f"{', '.join(file.name for file in found)}. Pass the pair (options, weights)."
    )


def required_file(folder: Path, name: str, reason: str) -> Path:
    """Returns a file of a checkpoint, in any format; the message of an error ends with `reason`."""
    found = [path for path in in_all_formats(folder / name) if path.is_file()]
    if not found:
        raise FileNotFoundError(f"There is no {name} in {folder}: {reason}.")
    return _newest(found)


def in_all_formats(path: Path) -> list[Path]:
    """The paths of a weight file in all formats; for any other file, only its path."""
    if path.suffix != ".hdf5":
        return [path]
    return [path.with_suffix(f".{name}") for name in FORMATS]


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


def _home(folder: Path, others: Iterable[Path], shown: Path) -> Path:
    """The directory of the checkpoint's files: `folder`, or the outermost of `others` with one."""
    if _holds_checkpoint(folder):
        return folder
    homes = sorted(_homes(others), key=lambda home: (len(home.parts), home))
    homes = [home for home in homes if len(home.parts) == len(homes[0].parts)]
    if len(homes) > 1:
        names = ", ".join(str(home.relative_to(folder)) for home in homes)
        raise ValueError(
            f"{shown} holds several checkpoints: {names}. Pass the directory of one of them."
        )
    return homes[0] if homes else folder


def _homes(folders: Iterable[Path]) -> Iterator[Path]:
    return (one for one in folders if not _is_hidden(one) and _holds_checkpoint(one))


def _holds_checkpoint(folder: Path) -> bool:
    """Whether a path is a directory with the files of a checkpoint, or a part of them."""
    return folder.is_dir() and (bool(_matches(folder, _OPTIONS)) or is_manylangs(folder))


def _files_of(folder: Path, shown: Source) -> tuple[Path, Path]:
    """The options and the weights; the message of an error names `shown`."""
    if is_manylangs(folder):
        return folder / CONFIG_FILE, folder / ENCODER_FILE
    options = one_of(folder, _OPTIONS, shown)
    by_format = [[name for name in WEIGHT_PATTERNS if name.endswith(end)] for end in FORMATS]
    found = [patterns for patterns in by_format if _matches(folder, patterns)]
    if not found:
        # A file with any other name, unless several could be the weights.
        files = _matches(folder, [f"*.{end}" for end in FORMATS])
        files = [file for file in files if file.stem not in _OTHER_ARRAYS]
        return options, _only(files, WEIGHT_PATTERNS, shown)
    return options, _newest(one_of(folder, patterns, shown) for patterns in found)


def _newest(files: Iterable[Path]) -> Path:
    """Of a file in several formats, the newest: an interrupted save may leave an older one."""
    return max(files, key=lambda file: file.stat().st_mtime_ns)


def _matches(folder: Path, patterns: Iterable[str]) -> list[Path]:
    found = (file for pattern in patterns for file in folder.glob(pattern))
    return sorted(file for file in found if not _is_hidden(file))


def _is_hidden(path: Path) -> bool:
    """Whether a file is hidden: macOS adds `._options.json` to `options.json`."""
    return path.name.startswith(".")
