"""Text files ─► Parquet shards with Apache Beam: `elmo-tf embed --runner` on many machines."""

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

from elmo_tf.embedding.outputs.parquet_output import (
    ROW_GROUP,
    ParquetOutput,
    parquet_row,
    parquet_schema,
)
from elmo_tf.embedding.outputs.vector_output import OutputOptions
from elmo_tf.extras import require_extra
from elmo_tf.pipelines.local_copies import FileSystems, is_remote, local_file, matching_paths
from elmo_tf.pipelines.model_handler import EmbeddingHandler, KeyedEmbeddingHandler
from elmo_tf.pipelines.shards import check_shards, totals
from elmo_tf.progress import progress_over
from elmo_tf.text.sentence_files import (
    FileSentence,
    SentenceCount,
    count_sentences,
    format_of,
    sentence_reader,
)
from elmo_tf.text.sentences import decode, encode

beam = require_extra("apache_beam", "beam", "An embedding pipeline")
inference = require_extra("apache_beam.ml.inference.base", "beam", "An embedding pipeline")

# File, number (from 0) and text of a sentence. Bytes, because the coders of Beam reject lone
# surrogates.
_Place = tuple[str, int, bytes]


def run_embedding_pipeline(
    model: Any,
    pattern: str,
    output: str | os.PathLike,
    layers: str | int = "all",
    precision: str = "float32",
    batch_tokens: int = 4096,
    format: str | None = None,
    token_column: int | None = None,
    pipeline_args: Sequence[str] = ("--runner=FnApiRunner",),
    overwrite: bool = False,
    **options: Any,
) -> dict[str, int]:
    """Embeds text files with Apache Beam, waits for the result, and checks it.

    Reads the text on this machine too, to count its sentences: some runners lose rows without an
    error.

    Args:
        model, layers, precision, batch_tokens: see `EmbeddingHandler`.
        pattern, output, format, token_column, overwrite: see `embed_files`.
        pipeline_args: command-line options of Beam. Defaults to a runner in this process that,
            unlike "DirectRunner", downloads no programs.
        **options: see `OutputOptions`.

    Returns:
        The number of `sentences`, `tokens`, `empty` sentences (no tokens) and `invalid` sentences
        (not valid UTF-8).

    Raises:
        ImportError: apache-beam or pyarrow is missing.
        FileNotFoundError, FileExistsError, IsADirectoryError, ValueError: see `embed_files`
            and `EmbeddingHandler`.
        RuntimeError: a worker failed; the message contains its error. The default runner raises
            the error itself, such as `FileNotFoundError` for a missing checkpoint. Or the shards
            do not have every sentence exactly once.
    """
    handler = EmbeddingHandler(model, layers, precision, batch_tokens)
    output_options = OutputOptions(**options)
    settings = beam.options.pipeline_options.PipelineOptions(list(pipeline_args))
    pipeline = beam.Pipeline(options=settings)
    embed_files(pipeline, pattern, output, handler, output_options, format, token_column, overwrite)
    counts = _counts(pattern, format, token_column)
    pipeline.run().wait_until_finish()
    shards = matching_paths(f"{os.fspath(output).rstrip('/')}/part-*.parquet")
    expected = {path: count.sentences for path, count in counts.items()}
    check_shards(map(_opened, shards), expected)
    return totals(counts.values())


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

    Each sentence becomes a row with the key `file` and `line`. Rows are not ordered. One worker
    reads each file, so split large texts into many files.

    Args:
        pipeline: a `beam.Pipeline`.
        pattern: the text files, on any filesystem of Beam. `*` and `?` match within a folder, `**`
            across folders. `.gz` is unpacked.
        output: a local or remote folder for `part-00000-of-00004.parquet` and so on, with the
            columns of `parquet_schema`; `file` is the matched path.
        handler: the model.
        options: see `OutputOptions`. None is `OutputOptions()`.
        format, token_column: see `sentence_reader`.
        overwrite: whether to delete existing shards in `output`, before the run starts.

    Returns:
        The paths of the shards, a `PCollection` of `str`.

    Raises:
        FileNotFoundError: no file matches.
        IsADirectoryError: `pattern` is a local folder.
        FileExistsError: `output` contains shards and `overwrite` is False, or it contains other
            Parquet files.
        ValueError: Parquet does not support an option, `token_column` is set for text, or `output`
            is a pattern.
    """
    options = options or OutputOptions()
    ParquetOutput.check(options)
    paths = _texts(pattern)
    for path in paths:
        sentence_reader(path, format, token_column)  # checks its arguments only
    output = os.fspath(output).rstrip("/")
    _make_room(output, overwrite)
    schema = parquet_schema(options.dtype, not options.forget_sentences, with_file=True)
    return (
        pipeline
        | "Paths" >> beam.Create(paths)
        # Otherwise one worker would read all files.
        | "Spread" >> beam.Reshuffle()
        | "Read" >> beam.ParDo(_ReadSentences(format, token_column))
        | "Embed" >> inference.RunInference(KeyedEmbeddingHandler(handler))
        | "Rows" >> beam.Map(_row, options)
        | "Write"
        >> beam.io.WriteToParquet(
            f"{output}/part",
            schema,
            codec=options.compression,
            file_name_suffix=".parquet",
            row_group_buffer_size=ROW_GROUP,
            record_batch_size=1,  # rows vary in size, so only the bytes limit a row group
        )
    )


class _ReadSentences(beam.DoFn):
    """The path of a file → its sentences, each with its place.

    Args:
        format, token_column: see `sentence_reader`.
    """

    def __init__(self, format: str | None, token_column: int | None):
        self._format = format
        self._token_column = token_column

    def process(self, path: str) -> Iterator[tuple[_Place, list[bytes]]]:
        for number, sentence in enumerate(_sentences(path, self._format, self._token_column)):
            place = path, number, encode(sentence.text)
            yield place, [encode(token) for token in sentence.tokens]


def _sentences(path: str, format: str | None, token_column: int | None) -> Iterator[FileSentence]:
    """The sentences of a file on any filesystem of Beam."""
    with local_file(path) as copy, _naming_original(path, copy):
        yield from sentence_reader(copy, format or format_of(path), token_column)()


def _row(
    embedded: tuple[_Place, inference.PredictionResult], options: OutputOptions
) -> dict[str, Any]:
    (path, number, text), result = embedded
    sentence = FileSentence(decode(text), list(map(decode, result.example)))
    return {"file": path, **parquet_row(number, sentence, result.inference, options)}


@contextlib.contextmanager
def _naming_original(path: str, copy: str) -> Iterator[None]:
    """A context whose errors name a file instead of its temporary copy."""
    try:
        yield
    except ValueError as error:
        raise ValueError(str(error).replace(copy, path)) from None


def _texts(pattern: str) -> list[str]:
    if not is_remote(pattern):
        if os.path.isdir(pattern):
            raise IsADirectoryError(
                f"{pattern} is a folder. Pass a pattern of files, such as "
                f"{os.path.join(pattern, '*.txt')}"
            )
        if not os.path.dirname(pattern):
            pattern = os.path.join(".", pattern)  # Beam requires a folder
    paths = matching_paths(pattern)
    if not paths:
        raise FileNotFoundError(f"No file matches {pattern}.")
    return paths


def _make_room(output: str, overwrite: bool) -> None:
    """Deletes the shards of an earlier run, or raises if they must not be deleted."""
    pattern = re.search(r"[*?\[]", output)
    if pattern:
        raise ValueError(
            f"Beam cannot write to {output}: it interprets {pattern[0]} as part of a pattern. "
            "Choose another folder."
        )
    # An interrupted run leaves shards in a temporary folder inside the output.
    old = matching_paths(f"{output}/part-*.parquet") + matching_paths(
        f"{output}/beam-temp-part-*/*"
    )
    others = sorted({*matching_paths(f"{output}/*.parquet")} - {*old})
    if others:
        raise FileExistsError(
            f"{output} contains other Parquet files, such as {others[0]}. Choose another folder."
        )
    if old and not overwrite:
        raise FileExistsError(
            f"{output} already contains {len(old)} shards, such as {old[0]}. Choose another folder "
            "or add --overwrite (overwrite=True)."
        )
    if old:
        FileSystems.delete(old)


def _counts(pattern: str, format: str | None, token_column: int | None) -> dict[str, SentenceCount]:
    """The size of each file."""
    paths = _texts(pattern)
    return {
        path: count_sentences(_sentences(path, format, token_column))
        for path in progress_over(paths, len(paths), "counting", "files")
    }


def _opened(path: str) -> Any:
    return FileSystems.open(path) if is_remote(path) else path
