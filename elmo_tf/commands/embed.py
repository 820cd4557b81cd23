"""The subcommand `embed`: sentences in files ─► vectors in files, on one machine or many."""

import dataclasses
import logging
from collections.abc import Callable
from typing import Any

from elmo_tf.commands.options import (
    add_batch_tokens,
    add_choice,
    add_flag,
    add_input_columns,
    add_layers,
    add_model,
    add_overwrite,
    add_precision,
    at_least_1,
    print_json,
    stdin_in_a_file,
)


def add_command(add: Callable) -> None:
    """Adds `elmo-tf embed`."""
    parser = add(
        "embed",
        _embed,
        "write the vectors of the sentences in a file",
        "elmo-tf embed small-en text.txt vectors.hdf5",
    )
    parser.epilog = (
        "If the run is interrupted, repeat the command: it resumes where it stopped. Until OUTPUT "
        "is complete, the finished part is in OUTPUT.unfinished."
    )
    add_model(parser)
    parser.add_argument(
        "input",
        metavar="INPUT",
        help="one tokenized sentence per line, or CoNLL columns (.conll, .conllu, …); .gz is "
        "decompressed; - is stdin, which cannot be resumed",
    )
    parser.add_argument(
        "output",
        metavar="OUTPUT.hdf5",
        help="output; its suffix chooses the format: .hdf5 (one dataset per line, named from 0), "
        ".parquet (directory of shards), .npz (one array per line) or .npy (one array of all "
        "tokens, with line offsets in .npy.offsets.npy)",
    )
    add_layers(parser, has_mix=True)
    add_precision(parser)
    add_batch_tokens(parser)
    add_flag(
        parser,
        "--plan",
        "print the estimated time, memory and output size; embed only 1,000 sentences",
    )
    group = parser.add_argument_group("input")
    add_input_columns(group)
    group.add_argument(
        "--tokenize",
        metavar="LANG",
        help="INPUT is raw text: split each line into sentences and tokens with spaCy's tokenizer "
        "of this language (en, de, …, or xx for any); OUTPUT.tokens.jsonl has the line, the "
        "tokens and their character offsets of each array",
    )
    _add_output_options(parser.add_argument_group("output"))
    _add_ray_options(parser.add_argument_group("many machines (Ray)"))
    _add_beam_options(parser.add_argument_group("many machines (Apache Beam)"))


def _add_output_options(group: Any) -> None:
    add_choice(group, "--dtype", ("float32", "float16"), "number format of the vectors")
    add_choice(group, "--pool", ("none", "mean"), "mean: one mean vector per sentence")
    add_choice(
        group,
        "--compression",
        ("none", "gzip", "lzf", "snappy", "zstd"),
        "compression: gzip or lzf (.hdf5); gzip, snappy or zstd (.parquet); gzip (.npz)",
    )
    add_flag(group, "--forget-sentences", "do not store the sentences beside their vectors")
    add_flag(group, "--use-sentence-keys", "name HDF5 datasets by their sentences")
    add_overwrite(group)


def _add_ray_options(group: Any) -> None:
    group.add_argument(
        "--cluster",
        metavar="ADDRESS",
        help="run on a Ray cluster: auto (the running cluster of this machine), local (a new one "
        "on this machine) or ray://HOST:10001. INPUT is then a file pattern in quotation marks, "
        "OUTPUT a directory of Parquet shards, and MODEL may be an exported model",
    )
    group.add_argument(
        "--workers", **at_least_1(), help="workers, each with its own model (default: one per core)"
    )
    group.add_argument("--cores-per-worker", **at_least_1(), help="cores of a worker (default: 1)")


def _add_beam_options(group: Any) -> None:
    group.add_argument(
        "--runner",
        metavar="RUNNER",
        help="run an Apache Beam pipeline: FnApiRunner (on this machine), FlinkRunner, SparkRunner "
        "or DataflowRunner. INPUT is then a file pattern, OUTPUT a directory of Parquet shards, "
        "and MODEL may be an exported model",
    )
    group.add_argument(
        "--beam-option",
        action="append",
        default=[],
        metavar="OPTION",
        help="option of the runner, such as --beam-option=--region=europe-west1; repeatable",
    )


def _embed(arguments: Any) -> None:
    from elmo_tf.embedding.outputs.vector_output import OutputOptions

    names = [field.name for field in dataclasses.fields(OutputOptions)]
    options = OutputOptions(**{name: getattr(arguments, name) for name in names})
    if arguments.cluster and arguments.runner:
        arguments.refuse_call("--cluster (Ray) and --runner (Apache Beam) exclude each other")
    for option, value in (
        ("--workers", arguments.workers),
        ("--cores-per-worker", arguments.cores_per_worker),
    ):
        if value and not arguments.cluster:
            arguments.refuse_call(f"{option} needs --cluster")
    if arguments.beam_option and not arguments.runner:
        arguments.refuse_call("--beam-option needs a pipeline: name its runner (--runner)")
    if arguments.cluster or arguments.runner:
        _refuse_options_of_one_machine(arguments, options)
    if arguments.cluster:
        _embed_with_ray(arguments, options)
    elif arguments.runner:
        _embed_with_beam(arguments, options)
    else:
        _embed_file(arguments, options)


def _embed_file(arguments: Any, options: Any) -> None:
    from elmo_tf.embedding import Embedder
    from elmo_tf.embedding.outputs.formats import output_format
    from elmo_tf.embedding.plans import plan
    from elmo_tf.text.sentence_files import sentence_reader
    from elmo_tf.text.tokenizers import tokenizer_of

    how = arguments.layers, arguments.precision, arguments.batch_tokens
    if not arguments.plan:
        # Checked before the model is loaded, which takes longer.
        kind = output_format(arguments.output)
        kind.check(options)
        kind.refuse(arguments.output, arguments.overwrite)
    with stdin_in_a_file([arguments.input]) as (input,):
        tokenizer = tokenizer_of(arguments.tokenize)
        source = input, arguments.input_format, arguments.token_column, tokenizer
        read = sentence_reader(*source)
        if arguments.plan:
            print_json(plan(arguments.model, read, arguments.output, options, *how), indent=2)
            return
        Embedder(arguments.model, *how, tokenizer=tokenizer).embed_file(
            input,
            arguments.output,
            arguments.overwrite,
            format=arguments.input_format,
            token_column=arguments.token_column,
            **vars(options),
        )


def _refuse_options_of_one_machine(arguments: Any, options: Any) -> None:
    for option, is_set in (
        ("--plan", arguments.plan),
        ("--tokenize", arguments.tokenize),
        ("--use-sentence-keys", options.use_sentence_keys),
    ):
        if is_set:
            arguments.refuse_call(f"{option} is for one machine: leave --cluster and --runner out")


def _embed_with_ray(arguments: Any, options: Any) -> None:
    from elmo_tf.pipelines import embed_with_ray

    counts = embed_with_ray(
        arguments.model,
        arguments.input,
        arguments.output,
        arguments.layers,
        arguments.precision,
        arguments.batch_tokens,
        options,
        arguments.input_format,
        arguments.token_column,
        arguments.overwrite,
        arguments.cluster,
        arguments.workers,
        arguments.cores_per_worker or 1,
    )
    print_json(counts)


def _embed_with_beam(arguments: Any, options: Any) -> None:
    from elmo_tf.pipelines import run_embedding_pipeline

    # Hides the workers' tracebacks: the error itself is reported in one line.
    logging.getLogger("apache_beam").setLevel(logging.CRITICAL)
    counts = run_embedding_pipeline(
        arguments.model,
        arguments.input,
        arguments.output,
        arguments.layers,
        arguments.precision,
        arguments.batch_tokens,
        arguments.input_format,
        arguments.token_column,
        [f"--runner={arguments.runner}", *arguments.beam_option],
        arguments.overwrite,
        **vars(options),
    )
    print_json(counts)
