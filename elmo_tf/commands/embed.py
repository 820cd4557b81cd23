"""The subcommand `embed`: sentences in files ─► vectors in files, on one machine or many."""

import dataclasses
from typing import Any, Literal

from elmo_tf.commands.options import (
    BatchTokens,
    InputFormat,
    Layers,
    Model,
    Overwrite,
    Precision,
    TokenColumn,
    print_json,
    stdin_in_a_file,
    subcommand,
)
from elmo_tf.settings import Count, checked_dataclass, setting


@checked_dataclass(kw_only=True)
class _EmbedOptions:
    model: Model
    input: str = setting(
        is_positional=True,
        metavar="INPUT",
        help="one tokenized sentence per line, CoNLL columns (.conll, .conllu, …), or proteins in "
        "FASTA (.fasta, .fa, .faa); .gz is decompressed; - is stdin, which cannot be resumed",
    )
    output: str = setting(
        is_positional=True,
        metavar="OUTPUT.hdf5",
        help="output; its suffix chooses the format: .hdf5 (one dataset per line, named from 0; "
        "of FASTA, by its identifier), "
        ".parquet (directory of shards) or, with --pool mean, .npy (one array, a row per line)",
    )
    layers: Layers = "all"
    precision: Precision = "float32"
    batch_tokens: BatchTokens = 4096
    overwrite: Overwrite = False
    tokenize: str | None = setting(
        None,
        "INPUT is raw text: split each line into sentences and tokens with spaCy's tokenizer of "
        "this language (en, de, …, or xx for any); OUTPUT.tokens.jsonl has the line, the tokens "
        "and their character offsets of each array",
        group="input",
        metavar="LANG",
    )
    input_format: InputFormat = None
    token_column: TokenColumn = None
    dtype: Literal["float32", "float16"] = setting(
        "float32", "number format of the vectors", group="output"
    )
    pool: Literal["none", "mean"] = setting("none", "mean: one mean vector per sentence")
    forget_sentences: bool = setting(False, "do not store the sentences beside their vectors")
    use_sentence_keys: bool = setting(False, "name HDF5 datasets by their sentences")
    cluster: str | None = setting(
        None,
        "run on a Ray cluster: auto (the running cluster of this machine), local (a new one on "
        "this machine) or ray://HOST:10001. INPUT is then a file pattern in quotation marks, "
        "OUTPUT a directory of Parquet shards",
        group="many machines (Ray)",
        metavar="ADDRESS",
    )
    workers: Count | None = setting(
        None, "workers, each with its own model", default_help="one per core"
    )
    cores_per_worker: Count | None = setting(None, "cores of a worker", default_help="1")

    def __post_init__(self):
        if self.cluster:
            problem = "is for one machine: leave --cluster out"
            refused = {"--tokenize": self.tokenize, "--use-sentence-keys": self.use_sentence_keys}
        else:
            problem = "needs --cluster"
            refused = {"--workers": self.workers, "--cores-per-worker": self.cores_per_worker}
        for option, is_set in refused.items():
            if is_set:
                raise ValueError(f"{option} {problem}")


@subcommand(
    "elmo-tf embed small-en text.txt vectors.hdf5",
    epilog="If the run is interrupted, repeat the command: it resumes where it stopped. Until "
    "OUTPUT is complete, the finished part is in OUTPUT.unfinished.",
)
def embed(options: _EmbedOptions) -> None:
    """Write the vectors of the sentences in a file."""
    from elmo_tf.embedding.vector_files import OutputOptions

    names = [field.name for field in dataclasses.fields(OutputOptions)]
    stored = OutputOptions(**{name: getattr(options, name) for name in names})
    run = _embed_with_ray if options.cluster else _embed_file
    run(options, stored)


def _embed_file(options: _EmbedOptions, stored: Any) -> None:
    from elmo_tf.checkpoints.load import load_config
    from elmo_tf.embedding import Embedder
    from elmo_tf.embedding.file_jobs import checked_output
    from elmo_tf.embedding.layer_choice import check_layers
    from elmo_tf.text.reading import check_regular_file
    from elmo_tf.text.sentence_files import sentence_reader
    from elmo_tf.text.tokenizers import tokenizer_of

    # Checked before the model is loaded, which takes longer.
    checked_output(options.output, stored, options.overwrite)
    with stdin_in_a_file([options.input]) as (input,):
        tokenizer = tokenizer_of(options.tokenize)
        how = {"format": options.input_format, "token_column": options.token_column}
        check_regular_file(input)
        read = sentence_reader(input, options.input_format, options.token_column, tokenizer)
        next(read(), None)
        check_layers(options.layers, load_config(options.model).lstm.num_layers + 1)
        model = options.model, options.layers, options.precision, options.batch_tokens
        embedder = Embedder(*model, tokenizer=tokenizer)
        embedder.embed_file(input, options.output, options.overwrite, **how, **vars(stored))


def _embed_with_ray(options: _EmbedOptions, stored: Any) -> None:
    from elmo_tf.checkpoints.load import load_config
    from elmo_tf.pipelines import embed_with_ray

    # The machine of a remote cluster may have other files.
    if not options.cluster.startswith("ray://"):
        load_config(options.model)
    shared = ("layers", "precision", "batch_tokens", "token_column", "overwrite")
    counts = embed_with_ray(
        *(options.model, options.input, options.output),
        options=stored,
        format=options.input_format,
        address=options.cluster,
        num_workers=options.workers,
        cores_per_worker=options.cores_per_worker or 1,
        **{name: getattr(options, name) for name in shared},
    )
    print_json(counts)
