"""Text files ─► Parquet shards with Ray Data: `elmo-tf embed --cluster` on many machines."""

import contextlib
import functools
import hashlib
import itertools
import json
import logging as std_logging
import os
import pickle
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from absl import logging

from elmo_tf import __version__
from elmo_tf.config_checks import check_int
from elmo_tf.embedding.layer_choice import check_layers
from elmo_tf.embedding.outputs.parquet_output import ParquetOutput, parquet_row, parquet_schema
from elmo_tf.embedding.outputs.vector_output import OutputOptions
from elmo_tf.extras import require_extra
from elmo_tf.files import locked_directory, refuse_directory, write_json
from elmo_tf.pipelines.exported_embedder import load_embedder
from elmo_tf.pipelines.shards import check_shards, count_of, totals, write_shard
from elmo_tf.pipelines.text_parts import PART_BYTES, TextPart, parts_of, sentences_of
from elmo_tf.progress import progress, progress_over
from elmo_tf.saved_models.folders import newest_version
from elmo_tf.text.corpus import text_files
from elmo_tf.text.sentence_files import count_sentences, sentence_reader
from elmo_tf.threads import limit_threads

_JOB_FILE = "_job.json"  # readers of Parquet folders skip names that begin with "_"
_LOCAL = "local"


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
    part_bytes: int = PART_BYTES,
) -> dict[str, int]:
    """Embeds text files on a Ray cluster, and checks that no sentence is lost.

    Files are divided into parts at line ends, so that several workers share a large file. Each part
    becomes a shard, which appears when it is complete. Call it again after an interruption to write
    the missing shards only. If a worker or a node fails, Ray computes its parts elsewhere.

    Args:
        model: a checkpoint or an exported model, see `load_embedder`. All nodes must be able to
            read it, the text and the output under the same paths.
        pattern: the text files, see `text_files`; `.gz` is unpacked.
        output: the folder of the shards `part-00000-of-00040.parquet`, with the columns of
            `parquet_schema`. `(file, line)` is the key of a row.
        layers, precision, batch_tokens: see `Embedder`.
        options: see `OutputOptions`. None is `OutputOptions()`.
        format, token_column: see `sentence_reader`.
        overwrite: whether to delete the shards of another job in `output`.
        address: of the cluster: "auto" for the one of this machine, "local" to start one on this
            machine for this job, or `ray://HOST:10001`. Ignored if Ray is initialized already.
        num_workers: int >= 1 or None. Maximum number of workers; None for as many as there is room
            for. Each loads the model once.
        cores_per_worker: int >= 1. Cores per worker.
        part_bytes: int >= 1. Size of a part; a worker repeats at most one part after a failure.

    Returns:
        The number of `sentences`, `tokens`, `empty` sentences (no tokens) and `invalid` sentences
        (not valid UTF-8), of all shards.

    Raises:
        MissingExtraError: Ray or pyarrow is not installed.
        ConnectionError: there is no cluster at the address.
        FileNotFoundError, IsADirectoryError: no file matches, or the model is missing.
        FileExistsError: `output` has shards of another job and `overwrite` is False, or other
            files; or another job is writing to it.
        ValueError: a text file is damaged (the message names it), or an argument is wrong.
        RuntimeError: the shards do not have every sentence exactly once, or the text changed.
    """
    ray = require_extra("ray", "ray", "A job on a cluster")
    require_extra("ray.data", "ray", "A job on a cluster")
    check_layers(layers)
    check_int(cores_per_worker, "cores_per_worker", ge=1)
    check_int(part_bytes, "part_bytes", ge=1)
    if num_workers is not None:
        check_int(num_workers, "num_workers", ge=1)
    options = options or OutputOptions()
    ParquetOutput.check(options)
    files = [os.path.abspath(file) for file in text_files([pattern])]
    for file in files:
        sentence_reader(file, format, token_column)  # checks its arguments only
    worker = {
        "model": _absolute(model),
        "layers": layers,
        "precision": precision,
        "batch_tokens": batch_tokens,
        "options": options,
        "format": format,
        "token_column": token_column,
    }
    folder = Path(os.path.abspath(output))
    settings = _settings(worker, files, part_bytes)
    with locked_directory(folder, f"Another job writes to {folder}. Wait for it."):
        _prepare(folder, settings, overwrite)
        parts = [
            part
            for file in progress_over(files, len(files), "counting", "files")
            for part in parts_of(file, format, token_column, part_bytes)
        ]
        shards = {folder / _shard_name(i, len(parts)): part for i, part in enumerate(parts)}
        missing = {path: part for path, part in shards.items() if not _is_complete(path, part)}
        if len(missing) < len(shards):
            logging.info("%s of %s shards are complete.", len(shards) - len(missing), len(shards))
        if missing:
            with _connected(ray, address):
                _embed(ray, missing, worker, num_workers, cores_per_worker)
        if _states(files) != settings["files"]:
            raise RuntimeError("The text changed during the job. Start it again (--overwrite).")
        expected = dict.fromkeys(files, 0)
        for part in parts:
            expected[part.file] += part.sentences
        check_shards(map(os.fspath, shards), expected)
        for unfinished in folder.glob(".part-*.part"):  # of workers that were killed
            unfinished.unlink()
    return totals(map(count_of, shards))


def _absolute(model: Any) -> Any:
    if isinstance(model, tuple | list):
        return tuple(map(_absolute, model))
    return os.path.abspath(model) if os.path.exists(model) else os.fspath(model)


def _settings(worker: Mapping[str, Any], files: list[str], part_bytes: int) -> dict[str, Any]:
    """Everything that the shards depend on."""
    return {
        "version of elmo_tf": __version__,
        **worker,
        "digest of the model": _digest(worker["model"]),
        "options": vars(worker["options"]),
        "files": _states(files),
        "part_bytes": part_bytes,
    }


def _states(files: list[str]) -> list[list[Any]]:
    states = [os.stat(file) for file in files]
    return [[file, one.st_size, one.st_mtime_ns] for file, one in zip(files, states, strict=True)]


def _digest(model: Any) -> str | None:
    """A digest of the files of a local model; None for the name or URL of a model."""
    if isinstance(model, tuple | list):
        files = list(map(Path, model))
    else:
        path = newest_version(model) or Path(model)
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
    if not all(file.exists() for file in files):
        return None
    digest = hashlib.sha256()
    for file in files:
        if file.is_file():
            with open(file, "rb") as content:
                digest.update(hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()


def _prepare(folder: Path, settings: dict[str, Any], overwrite: bool) -> None:
    """Prepares the folder of the job: removes the shards of another job, or raises an error."""
    job_file = folder / _JOB_FILE
    settings = json.loads(json.dumps(settings))  # as they are read from the file
    if job_file.is_file():
        found = json.loads(job_file.read_bytes())
        if found == settings:
            return
        if not overwrite:
            others = [name for name, value in settings.items() if found.get(name) != value]
            raise FileExistsError(
                f"{folder} has the shards of another job, with a different {', '.join(others)}. "
                "Choose another folder, or replace them (overwrite=True, --overwrite)."
            )
    else:
        refuse_directory(folder, overwrite, known=["part-*.parquet"])
    for shard in folder.glob("part-*.parquet"):
        shard.unlink()
    write_json(job_file, settings)


@contextlib.contextmanager
def _connected(ray: Any, address: str) -> Iterator[None]:
    """Context manager that connects to a cluster, unless the caller has."""
    if ray.is_initialized():
        yield
        return
    options = {"log_to_driver": False, "logging_level": "ERROR"}
    if address == _LOCAL:
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


def _shard_name(number: int, total: int) -> str:
    return f"part-{number:05d}-of-{total:05d}.parquet"


def _is_complete(path: Path, part: TextPart) -> bool:
    count = count_of(path)
    return count is not None and count.sentences == part.sentences


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

    Args:
        num_cpus: int. Cores of the worker.
        model, layers, precision, batch_tokens: see `load_embedder`.
        options: see `OutputOptions`.
        format, token_column: see `sentence_reader`.
    """

    def __init__(
        self,
        num_cpus: int,
        model: Any,
        layers: str | int,
        precision: str,
        batch_tokens: int,
        options: OutputOptions,
        format: str | None,
        token_column: int | None,
    ):
        limit_threads(num_cpus)
        self._model = model, layers, precision, batch_tokens
        self._options = options
        self._columns = format, token_column
        self._schema = parquet_schema(options.dtype, not options.forget_sentences, with_file=True)

    @functools.cached_property
    def _embedder(self) -> Any:
        return load_embedder(*self._model)

    def __call__(self, item: dict[str, Any]) -> dict[str, Any]:
        part = TextPart(*json.loads(item["part"]))
        rows, compression = self._rows(part), self._options.compression
        try:
            count = count_sentences(sentences_of(part, *self._columns))
            write_shard(Path(item["path"]), rows, self._schema, compression, count)
        except (ValueError, OSError) as error:
            # Returned, because a retry would not help, and Ray would wrap the error in another one.
            return {"sentences": 0, "error": pickle.dumps(error)}
        return {"sentences": count.sentences, "error": b""}

    def _rows(self, part: TextPart) -> Iterator[dict[str, Any]]:
        sentences, embedded = itertools.tee(sentences_of(part, *self._columns))
        arrays = self._embedder.embed(sentence.tokens for sentence in embedded)
        for number, (sentence, array) in enumerate(zip(sentences, arrays, strict=True), part.first):
            yield {"file": part.file, **parquet_row(number, sentence, array, self._options)}
