"""The subcommand `embed`: sentences in files ─► vectors in files, here or on many machines."""

import logging
from collections.abc import Callable
from typing import Any

from elmo_tf.commands.options import (
    add_input_columns,
    add_model,
    add_overwrite,
    add_precision,
    positive,
    print_json,
    stdin_in_a_file,
)


def add_command(add: Callable) -> None:
    """`elmo-tf embed`."""
    parser = add(
        "embed",
        _embed,
        "write the vectors of a file's sentences; killed, the same call goes on where it was",
        "elmo-tf embed small-en text.txt vectors.hdf5",
    )
    add_model(parser)
    parser.add_argument(
        "input",
        metavar="INPUT",
        help="one tokenised sentence a line, or CoNLL columns (.conll, .conllu, …); .gz too; - is "
        "stdin, from which work cannot be resumed",
    )
    parser.add_argument(
        "output",
        metavar="OUTPUT.hdf5",
        help="appears when it is complete: .hdf5, one dataset a line, named from 0; .parquet, a "
        "folder of shards; .npz, one array a line; .npy, all tokens, with .npy.offsets.npy. Until "
        "then, OUTPUT.unfinished holds what is done",
    )
    parser.add_argument(
        "--layers", choices=("all", "top", "average", "mix"), default="all", help="(all)"
    )
    add_precision(parser)
    parser.add_argument(
        "--batch-tokens", type=positive, default=4096, metavar="N", help="in a batch (4096)"
    )
    parser.add_argument(
        "--plan",
        action="store_true",
        help="print what the work would take, by 1,000 of the sentences, and do not do it",
    )
    add_input_columns(parser.add_argument_group("the input"))
    _add_output_options(parser.add_argument_group("the output"))
    _add_beam_options(parser.add_argument_group("many machines"))


def _add_output_options(group: Any) -> None:
    group.add_argument(
        "--dtype", choices=("float32", "float16"), default="float32", help="of numbers (float32)"
    )
    group.add_argument(
        "--pool",
        choices=("none", "mean"),
        default="none",
        help="mean: one vector a sentence, the mean over its tokens (none)",
    )
    group.add_argument(
        "--compression",
        choices=("none", "gzip", "lzf", "snappy", "zstd"),
        default="none",
        help="gzip or lzf of HDF5; gzip, snappy or zstd of Parquet; gzip of .npz (none)",
    )
    group.add_argument(
        "--forget-sentences",
        action="store_true",
        help="leave out the sentences: sentence_to_index of HDF5, text and tokens of Parquet",
    )
    group.add_argument(
        "--use-sentence-keys",
        action="store_true",
        help="name the datasets of HDF5 by their sentences",
    )
    add_overwrite(group)


def _add_beam_options(group: Any) -> None:
    group.add_argument(
        "--runner",
        metavar="RUNNER",
        help="do it as an Apache Beam pipeline, on FnApiRunner (here), FlinkRunner, SparkRunner or "
        "DataflowRunner: INPUT is then a pattern of files, OUTPUT a folder of Parquet shards, and "
        "MODEL may be an exported one",
    )
    group.add_argument(
        "--beam-option",
        action="append",
        default=[],
        metavar="OPTION",
        help="of the runner, such as --beam-option=--region=europe-west1; may come several times",
    )


def _embed(arguments: Any) -> None:
    from elmo_tf.embedding.outputs.vector_output import OutputOptions

    options = OutputOptions(
        arguments.dtype,
        arguments.compression,
        arguments.forget_sentences,
        arguments.use_sentence_keys,
        arguments.pool,
    )
    if arguments.runner:
        _embed_with_beam(arguments, options)
    elif arguments.beam_option:
        raise ValueError("--beam-option is for a pipeline: name its runner (--runner).")
    else:
        _embed_file(arguments, options)


def _embed_file(arguments: Any, options: Any) -> None:
    from elmo_tf.embedding import Embedder
    from elmo_tf.embedding.outputs.formats import output_format
    from elmo_tf.embedding.plans import plan
    from elmo_tf.text.sentence_files import sentence_reader
    from elmo_tf.threads import share_cores_for_embedding

    share_cores_for_embedding()
    how = arguments.layers, arguments.precision, arguments.batch_tokens
    if not arguments.plan:
        # Before the model is read, which takes longer than to see that it will not be needed.
        kind = output_format(arguments.output)
        kind.check(options)
        kind.refuse(arguments.output, arguments.overwrite)
    with stdin_in_a_file([arguments.input]) as (input,):
        read = sentence_reader(input, arguments.input_format, arguments.token_column)
        if arguments.plan:
            print_json(plan(arguments.model, read, arguments.output, options, *how), indent=2)
            return
        Embedder(arguments.model, *how).embed_file(
            input,
            arguments.output,
            arguments.overwrite,
            format=arguments.input_format,
            token_column=arguments.token_column,
            **vars(options),
        )


def _embed_with_beam(arguments: Any, options: Any) -> None:
    from elmo_tf.pipelines import run_embedding_pipeline

    if arguments.plan:
        raise ValueError("--plan is for the work of one machine: leave --runner out.")
    if options.use_sentence_keys:
        raise ValueError("--use-sentence-keys is for HDF5: a pipeline writes Parquet.")
    # Workers' tracebacks; the error itself is told in a line.
    logging.getLogger("apache_beam").setLevel(logging.CRITICAL)
    counts = run_embedding_pipeline(
        arguments.model,
        arguments.input,
        arguments.output,
        arguments.layers,
        arguments.precision,
        arguments.batch_tokens,
        options.dtype,
        options.compression,
        options.forget_sentences,
        arguments.input_format,
        arguments.token_column,
        [f"--runner={arguments.runner}", *arguments.beam_option],
        arguments.overwrite,
        options.pool,
    )
    print_json(counts)
