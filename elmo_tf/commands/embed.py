"""The subcommand `embed`: sentences in files ─► vectors in files, on one machine or many."""

import dataclasses
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


def _embed(arguments: Any) -> None:
    from elmo_tf.embedding.outputs.vector_output import OutputOptions

    names = [field.name for field in dataclasses.fields(OutputOptions)]
    options = OutputOptions(**{name: getattr(arguments, name) for name in names})
    if arguments.cluster:
        problem = "is for one machine: leave --cluster out"
        refused = {
            "--tokenize": arguments.tokenize,
            "--use-sentence-keys": options.use_sentence_keys,
        }
    else:
        problem = "needs --cluster"
        refused = {
            "--workers": arguments.workers,
            "--cores-per-worker": arguments.cores_per_worker,
        }
    for option, is_set in refused.items():
        if is_set:
            arguments.refuse_call(f"{option} {problem}")
    embed = _embed_with_ray if arguments.cluster else _embed_file
    embed(arguments, options)


def _embed_file(arguments: Any, options: Any) -> None:
    from elmo_tf.embedding import Embedder
    from elmo_tf.embedding.outputs import output_format
    from elmo_tf.text.sentence_files import sentence_reader
    from elmo_tf.text.tokenizers import tokenizer_of

    # Checked before the model is loaded, which takes longer.
    kind = output_format(arguments.output)
    kind.check(options)
    kind.refuse(arguments.output, arguments.overwrite)
    with stdin_in_a_file([arguments.input]) as (input,):
        tokenizer = tokenizer_of(arguments.tokenize)
        sentence_reader(input, arguments.input_format, arguments.token_column, tokenizer)
        embedder = Embedder(
            arguments.model,
            arguments.layers,
            arguments.precision,
            arguments.batch_tokens,
            tokenizer=tokenizer,
        )
        embedder.embed_file(
            input,
            arguments.output,
            arguments.overwrite,
            format=arguments.input_format,
            token_column=arguments.token_column,
            **vars(options),
        )


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
