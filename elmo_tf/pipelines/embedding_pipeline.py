"""A pattern of text files ─► Parquet shards, by Apache Beam: `elmo-tf embed` on many machines."""

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

from elmo_tf.embedding.outputs.parquet_output import ParquetOutput, parquet_row, parquet_schema
from elmo_tf.embedding.outputs.vector_output import OutputOptions
from elmo_tf.pipelines.beam_names import (
    FileSystems,
    Metrics,
    MetricsFilter,
    PipelineOptions,
    PredictionResult,
    RunInference,
    WriteToParquet,
    beam,
)
from elmo_tf.pipelines.local_copies import is_remote, local_file, matching_paths
from elmo_tf.pipelines.model_handler import EmbeddingHandler, KeyedEmbeddingHandler
from elmo_tf.text.data_warnings import is_utf_8
from elmo_tf.text.sentence_files import Sentence, format_of, sentence_reader
from elmo_tf.text.sentences import encode

METRICS = "elmo_tf"
COUNTERS = ("sentences", "tokens", "empty", "invalid")

# Bytes of a row group, which readers take into memory at once.
_ROW_GROUP = 2**24

# File, number from 0 and text of a sentence. Bytes: Beam's coders refuse lone surrogates.
_Place = tuple[str, int, bytes]


def run_embedding_pipeline(
    model: Any,
    pattern: str,
    output: str | os.PathLike,
    layers: str = "all",
    precision: str = "float32",
    batch_tokens: int = 4096,
    dtype: str = "float32",
    compression: str = "none",
    forget_sentences: bool = False,
    format: str | None = None,
    token_column: int | None = None,
    pipeline_args: Sequence[str] = ("--runner=FnApiRunner",),
    overwrite: bool = False,
    pool: str = "none",
) -> dict[str, int]:
    """Embeds text files on a runner of Apache Beam, and waits for the end.

    Args:
        model, layers, precision, batch_tokens: see `EmbeddingHandler`.
        pattern, output, format, token_column, overwrite: see `embed_files`.
        dtype, compression, forget_sentences, pool: see `OutputOptions`.
        pipeline_args: Beam's own options, as on a command line. Defaults to the runner in this
            process, without the programs that "DirectRunner" downloads where it can.

    Returns:
        How many `sentences` and `tokens` there were, how many sentences were `empty` (no token),
        and how many `invalid` (bytes that are no UTF-8). A runner that keeps no counters gives
        zeros.

    Raises:
        ImportError: apache-beam or pyarrow is missing.
        FileNotFoundError, FileExistsError, IsADirectoryError, ValueError: see `embed_files`
            and `EmbeddingHandler`.
        RuntimeError: a worker failed; the message holds its error. The runner in this process
            raises the error itself: of a missing checkpoint, of a damaged file.
    """
    handler = EmbeddingHandler(model, layers, precision, batch_tokens)
    options = OutputOptions(dtype, compression, forget_sentences, pool=pool)
    pipeline = beam.Pipeline(options=PipelineOptions(list(pipeline_args)))
    embed_files(pipeline, pattern, output, handler, options, format, token_column, overwrite)
    result = pipeline.run()
    result.wait_until_finish()
    return _counts(result)


def embed_files(
    pipeline: Any,
    pattern: str,
    output: str | os.PathLike,
    handler: EmbeddingHandler,
    options: OutputOptions | None = None,
    format: str | None = None,
    token_column: int | None = None,
    overwrite: bool = False,
) -> Any:
    """Adds the embedding of text files to a pipeline.

    A row is a sentence; `file` and `line` are its key. Rows are in no order, and one worker reads a
    file from its beginning to its end, so that large texts should come in many files.

    Args:
        pipeline: a `beam.Pipeline`.
        pattern: the text files, on any filesystem that Beam knows: `*` and `?` within a folder,
            `**` across folders. `.gz` is unpacked.
        output: a folder, local or not, that gets `part-00000-of-00004.parquet` and so on, with the
            columns of `parquet_schema` and `file`, the path as it was matched.
        handler: the model.
        options: how to write. Defaults to `OutputOptions()`.
        format, token_column: see `sentence_reader`.
        overwrite: whether shards that lie in `output` are deleted, now, before the run.

    Returns:
        The paths of the shards, a `PCollection` of `str`.

    Raises:
        FileNotFoundError: no file matches.
        IsADirectoryError: `pattern` is a local folder.
        FileExistsError: `output` holds shards, and `overwrite` is false, or other Parquet files.
        ValueError: Parquet has no such option, a file's format has no such column, or `output` is
            a pattern.
    """
    options = options or OutputOptions()
    ParquetOutput.check(options)
    paths = _texts(pattern)
    for path in paths:
        sentence_reader(path, format, token_column)  # checks its arguments, and opens nothing
    output = os.fspath(output).rstrip("/")
    _make_room(output, overwrite)
    schema = parquet_schema(options.dtype, not options.forget_sentences, with_file=True)
    return (
        pipeline
        | "Paths" >> beam.Create(paths)
        # Else all files would be read by the worker that named them.
        | "Spread" >> beam.Reshuffle()
        | "Read" >> beam.ParDo(_ReadSentences(format, token_column))
        | "Embed" >> RunInference(KeyedEmbeddingHandler(handler))
        | "Rows" >> beam.Map(_row, options)
        | "Write"
        >> WriteToParquet(
            f"{output}/part",
            schema,
            codec=options.compression,
            file_name_suffix=".parquet",
            row_group_buffer_size=_ROW_GROUP,
            record_batch_size=1,  # rows are of very unlike sizes: let the bytes alone decide
        )
    )


class _ReadSentences(beam.DoFn):
    """The path of a file → its sentences, each with its place, and counted.

    Args:
        format, token_column: see `sentence_reader`.
    """

    def __init__(self, format: str | None, token_column: int | None):
        self._format = format
        self._token_column = token_column
        self._counters = {name: Metrics.counter(METRICS, name) for name in COUNTERS}

    def process(self, path: str) -> Iterator[tuple[_Place, list[bytes]]]:
        format = self._format or format_of(path)
        # The reader opens local paths alone, so what is remote is copied first.
        with local_file(path) as copy, _errors_that_name(path, copy):
            read = sentence_reader(copy, format, self._token_column)
            for number, sentence in enumerate(read()):
                self._count(sentence)
                place = path, number, encode(sentence.text)
                yield place, [encode(token) for token in sentence.tokens]

    def _count(self, sentence: Sentence) -> None:
        self._counters["sentences"].inc()
        self._counters["tokens"].inc(len(sentence.tokens))
        if not sentence.tokens:
            self._counters["empty"].inc()
        if not is_utf_8(sentence.text):
            self._counters["invalid"].inc()


def _row(embedded: tuple[_Place, PredictionResult], options: OutputOptions) -> dict[str, Any]:
    (path, number, text), result = embedded
    sentence = Sentence(_as_read(text), list(map(_as_read, result.example)))
    return {"file": path, **parquet_row(number, sentence, result.inference, options)}


def _as_read(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")


@contextlib.contextmanager
def _errors_that_name(path: str, copy: str) -> Iterator[None]:
    """A block whose errors name a file, and not its temporary copy."""
    try:
        yield
    except ValueError as error:
        raise ValueError(str(error).replace(copy, path)) from None


def _texts(pattern: str) -> list[str]:
    """The paths of the files to embed."""
    if not is_remote(pattern):
        if os.path.isdir(pattern):
            raise IsADirectoryError(
                f"{pattern} is a folder: name its files by a pattern, say "
                f"{os.path.join(pattern, '*.txt')}"
            )
        if not os.path.dirname(pattern):
            pattern = os.path.join(".", pattern)  # without a folder, Beam finds nothing
    paths = matching_paths(pattern)
    if not paths:
        raise FileNotFoundError(f"No file matches {pattern}.")
    return paths


def _make_room(output: str, overwrite: bool) -> None:
    """Deletes what an earlier run wrote, or refuses to."""
    pattern = re.search(r"[*?\[]", output)
    if pattern:
        raise ValueError(
            f"Beam cannot write to {output}: it takes {pattern[0]} for a part of a pattern. "
            "Choose another folder."
        )
    # A run that was killed leaves shards in a folder beside the final ones.
    old = matching_paths(f"{output}/part-*.parquet") + matching_paths(
        f"{output}/beam-temp-part-*/*"
    )
    others = sorted({*matching_paths(f"{output}/*.parquet")} - {*old})
    if others:
        raise FileExistsError(
            f"{output} holds Parquet files of another kind, such as {others[0]}. Choose another "
            "folder."
        )
    if old and not overwrite:
        raise FileExistsError(
            f"{output} holds {len(old)} shards already, such as {old[0]}. Choose another folder or "
            "add --overwrite (overwrite=True)."
        )
    if old:
        FileSystems.delete(old)


def _counts(result: Any) -> dict[str, int]:
    counts = dict.fromkeys(COUNTERS, 0)
    filter = MetricsFilter().with_namespace(METRICS)
    for counter in result.metrics().query(filter)["counters"]:
        if counter.key.metric.name in counts:
            counts[counter.key.metric.name] += counter.result
    return counts
