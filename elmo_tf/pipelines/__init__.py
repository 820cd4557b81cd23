"""Text files ─► Parquet shards with Ray Data: `elmo-tf embed --cluster` on many machines."""

import contextlib
import functools
import hashlib
import io
import itertools
import json
import logging as std_logging
import os
import pickle
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf
from absl import logging

from elmo_tf import __version__
from elmo_tf.embedding.embedder import Embedder
from elmo_tf.embedding.file_jobs import shard_name, unfinished_folder
from elmo_tf.embedding.vector_files import OutputOptions, ParquetFile, count_of_shard
from elmo_tf.files import atomic_file, put_in_place
from elmo_tf.lazy import require_extra
from elmo_tf.logs import progress, progress_over
from elmo_tf.processors import one_thread_per_operation
from elmo_tf.text.counting import TextCount
from elmo_tf.text.reading import format_of, is_compressed, text_files
from elmo_tf.text.sentence_files import FileSentence, sentence_reader, text_sentences

# Size of a part of a text file, in bytes. A worker repeats at most one part after a failure.
_PART_BYTES = 2**18


class TextPart(NamedTuple):
    """Consecutive sentences of a file."""

    file: str
    start: int | None  # bytes; None for a complete file
    end: int | None
    first: int  # index of the first sentence in the file
    sentences: int  # number of sentences


def embed_with_ray(
    model: Any,
    pattern: str | os.PathLike,
    output: str | os.PathLike,
    layers: str | int = "all",
    precision: str = "float32",
    batch_tokens: int = 4096,
    options: OutputOptions | None = None,
    format: str | None = None,
    token_column: int | None = None,
    overwrite: bool = False,
    address: str = "auto",
    num_workers: int | None = None,
    cores_per_worker: int = 1,
) -> dict[str, int]:
    """Embeds text files on a Ray cluster, and checks that no sentence is lost.

    Files are divided into parts at line ends, so that several workers share a large file. Each part
    becomes a shard, in the folder `output` + `.unfinished` until all shards are complete. Call it
    again after an interruption to write the missing shards only. If a worker or a node fails, Ray
    computes its parts elsewhere.

    Args:
        model: a checkpoint, see `load_bilm`. All nodes must be able to read it, the text and the
            output under the same paths.
        pattern: the text files, see `text_files`; `.gz` is unpacked.
        output: the folder of the shards `part-00000.parquet` and so on, with the columns of
            `ParquetFile`. `(file, line)` is the key of a row.
        layers, precision, batch_tokens: see `Embedder`.
        options: see `OutputOptions`. None is `OutputOptions()`.
        format, token_column: see `sentence_reader`.
        overwrite: whether to replace an existing output, or unfinished work of another job.
        address: of the cluster: "auto" for the one of this machine, "local" to start one on this
            machine for this job, or `ray://HOST:10001`. Ignored if Ray is initialized already.
        num_workers: int >= 1 or None. Maximum number of workers; None for as many as there is room
            for. Each loads the model once.
        cores_per_worker: int >= 1. Cores per worker.

    Returns:
        The number of `sentences`, `tokens`, `empty` sentences (no tokens) and `invalid` sentences
        (not valid UTF-8), of all shards.

    Raises:
        ImportError: Ray or pyarrow is not installed.
        ConnectionError: there is no cluster at the address.
        FileNotFoundError, IsADirectoryError: no file matches, or the model is missing.
        FileExistsError: see `overwrite`; or `output` has other files, or another job writes to it.
        ValueError: a text file is damaged (the message names it), or an argument is wrong.
        RuntimeError: the text changed.
    """
    ray = require_extra("ray", "ray", "A job on a cluster")
    require_extra("ray.data", "ray", "A job on a cluster")
    options = options or OutputOptions()
    ParquetFile(options)  # checks them
    files = [os.path.abspath(file) for file in text_files([pattern])]
    for file in files:
        sentence_reader(file, format, token_column)  # checks its arguments only
    model = _absolute(model)
    vectors = {"layers": layers, "precision": precision, "batch_tokens": batch_tokens}
    text = {"format": format, "token_column": token_column}
    worker = {"embedder": (model, *vectors.values()), "text": text, "options": options}
    settings = {
        "version of elmo_tf": __version__,
        "model": model,
        **vectors,
        **text,
        "options": vars(options),
        "digest of the model": _digest(model),
        "files": _states(files),
    }
    output = Path(os.path.realpath(output))
    ParquetFile.refuse(output, overwrite)
    with unfinished_folder(output, settings, overwrite) as folder:
        parts = (
            part
            for file in progress_over(files, len(files), "counting", "files")
            for part in parts_of(file, format, token_column)
        )
        shards = {folder / shard_name(i, ".parquet"): part for i, part in enumerate(parts)}
        missing = {path: part for path, part in shards.items() if not path.exists()}
        if len(missing) < len(shards):
            logging.info("%s of %s shards are complete.", len(shards) - len(missing), len(shards))
        if missing:
            with _connected(ray, address):
                _embed(ray, missing, worker, num_workers, cores_per_worker)
        if _states(files) != settings["files"]:
            raise RuntimeError("The text changed during the job. Start it again (--overwrite).")
        counts = [count_of_shard(path) for path in shards]
        for unfinished in folder.glob(".*"):  # of workers that were killed
            unfinished.unlink()
        ParquetFile.refuse(output, overwrite)
        put_in_place(folder, output)
    return {
        name: sum(count[name] for count in counts)
        for name in ("sentences", "tokens", "empty", "invalid")
    }


def _absolute(model: Any) -> Any:
    if isinstance(model, tuple | list):
        return tuple(map(_absolute, model))
    is_local = os.path.exists(model) or _has_prefix(model)
    return os.path.abspath(model) if is_local else os.fspath(model)


def _has_prefix(model: str | os.PathLike) -> bool:
    """Whether a model is the prefix of the files of a TensorFlow 1 checkpoint."""
    return os.path.isfile(f"{os.fspath(model)}.index")


def _states(files: list[str]) -> list[list[Any]]:
    return [[file, (state := os.stat(file)).st_size, state.st_mtime_ns] for file in files]


def _digest(model: Any) -> str | None:
    """A digest of the files of a local model; None for the name or URL of a model."""
    files = list(map(Path, model if isinstance(model, tuple | list) else [model]))
    if files[0].is_dir():
        files = sorted(files[0].rglob("*"))
    elif _has_prefix(files[0]):
        files = sorted(files[0].parent.glob(f"{files[0].name}.*"))
    if not all(file.exists() for file in files):
        return None
    digest = hashlib.sha256()
    for file in files:
        if file.is_file():
            with open(file, "rb") as content:
                digest.update(hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()


@contextlib.contextmanager
def _connected(ray: Any, address: str) -> Iterator[None]:
    """Context manager that connects to a cluster, unless the caller has."""
    if ray.is_initialized():
        yield
        return
    options = {"log_to_driver": False, "logging_level": "ERROR"}
    if address == "local":
        options["include_dashboard"] = False  # not allowed for a cluster that is running
    try:
        ray.init(address=address, **options)
    except ConnectionError as error:
        raise ConnectionError(
            f"There is no Ray cluster at {address!r}: {error} Start one with: ray start --head, or "
            "pass the address 'local' to use this machine alone."
        ) from None
    try:
        yield
    finally:
        ray.shutdown()


def _embed(
    ray: Any,
    missing: Mapping[Path, TextPart],
    worker: Mapping[str, Any],
    num_workers: int | None,
    cores_per_worker: int,
) -> None:
    std_logging.getLogger("ray.data").setLevel(std_logging.ERROR)
    ray.data.DataContext.get_current().enable_progress_bars = False
    num_sentences = sum(part.sentences for part in missing.values())
    most = num_workers or max(1, int(ray.cluster_resources().get("CPU", 1)) // cores_per_worker)
    # As JSON, because Ray would convert a tuple to columns of mixed types.
    items = [{"path": os.fspath(path), "part": json.dumps(part)} for path, part in missing.items()]
    written = ray.data.from_items(items, override_num_blocks=len(items)).map(
        _ShardWriter,
        fn_constructor_kwargs={"num_cpus": cores_per_worker, **worker},
        compute=ray.data.ActorPoolStrategy(min_size=1, max_size=min(most, len(items))),
        num_cpus=cores_per_worker,
    )
    with progress(num_sentences, "embedding", "sentences") as meter:
        for row in written.iter_rows():
            if row["error"]:
                raise pickle.loads(row["error"])
            meter.update(row["sentences"])


class _ShardWriter:
    """A worker, which loads the model once and writes shards.

    `embedder` are the arguments of `Embedder`, and `text` those of `sentence_reader`.
    """

    def __init__(
        self, num_cpus: int, embedder: tuple[Any, ...], text: dict[str, Any], options: OutputOptions
    ):
        # A machine has several workers.
        with contextlib.suppress(RuntimeError):
            tf.config.threading.set_inter_op_parallelism_threads(num_cpus)
        one_thread_per_operation()
        self._arguments = embedder
        self._text = text
        self._output = ParquetFile(options)

    @functools.cached_property
    def _embedder(self) -> Embedder:
        return Embedder(*self._arguments)

    def __call__(self, item: dict[str, Any]) -> dict[str, Any]:
        part = TextPart(*json.loads(item["part"]))
        try:
            count = _count(part_sentences(part, **self._text))
            sentences, embedded = itertools.tee(part_sentences(part, **self._text))
            arrays = self._embedder.embed(sentence.tokens for sentence in embedded)
            with atomic_file(item["path"]) as path:
                self._output.write_shard(path, part.first, sentences, arrays, part.file, count)
        except (ValueError, OSError) as error:
            # Returned, because a retry would not help, and Ray would wrap the error in another one.
            return {"sentences": 0, "error": pickle.dumps(error)}
        return {"sentences": count["sentences"], "error": b""}


def _count(sentences: Iterable[FileSentence]) -> dict[str, int]:
    """The size of a text, for JSON."""
    count = TextCount()
    for sentence in sentences:
        count.add(sentence.text, sentence.tokens)
    size = {"sentences": count.sentences, "tokens": count.tokens}
    return {**size, "empty": count.lines["empty"], "invalid": count.lines["invalid"]}


def parts_of(
    path: str | os.PathLike, format: str | None = None, token_column: int | None = None
) -> list[TextPart]:
    """Divides a file at line ends into parts, and counts their sentences.

    Compressed files and columns are one part; an empty file has none. For the arguments and errors,
    see `sentence_reader`.
    """
    path = os.fspath(path)
    if (format or format_of(path)) == "text" and not is_compressed(path):
        return list(_text_parts(path))
    count = sum(1 for _ in sentence_reader(path, format, token_column)())
    return [TextPart(path, None, None, 0, count)] if count else []


def _text_parts(path: str) -> Iterator[TextPart]:
    first = start = 0
    with open(path, "rb") as file:
        while chunk := file.read(_PART_BYTES):
            chunk += file.readline()
            count = chunk.count(b"\n") + (not chunk.endswith(b"\n"))
            yield TextPart(path, start, start + len(chunk), first, count)
            first, start = first + count, start + len(chunk)


def part_sentences(
    part: TextPart, format: str | None = None, token_column: int | None = None
) -> Iterator[FileSentence]:
    """Yields the sentences of a part, or raises `ValueError` if the file has changed."""
    if part.start is None:
        sentences, size = sentence_reader(part.file, format, token_column)(), 0
    else:
        with open(part.file, "rb") as file:
            file.seek(part.start)
            stream = io.BytesIO(file.read(part.end - part.start))
        stream.name = part.file  # for error messages
        sentences, size = text_sentences(stream, part.first), len(stream.getvalue())
    count = 0
    for count, sentence in enumerate(sentences, start=1):  # noqa: B007 - counts them
        yield sentence
    if count != part.sentences or size != (part.end or 0) - (part.start or 0):
        raise ValueError(
            f"{part.file} has changed since the job began. Start again with another output folder, "
            "or replace it (overwrite=True, --overwrite)."
        )
