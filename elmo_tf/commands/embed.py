"""The subcommand `embed`: sentences in files ─► vectors in files, on one machine or many."""

from typing import Literal

from cyclopts.types import PositiveInt

from elmo_tf.commands.options import (
    InputFormat,
    Layers,
    Model,
    Overwrite,
    Precision,
    TokenColumn,
    TokenizerName,
    WrongCallError,
    print_json,
    stdin_in_a_file,
)


def embed(
    model: Model,
    input: str,
    output: str,
    /,
    *,
    layers: Layers = "all",
    precision: Precision = "float32",
    batch_tokens: PositiveInt = 4096,
    overwrite: Overwrite = False,
    tokenizer: TokenizerName = None,
    input_format: InputFormat = None,
    token_column: TokenColumn = None,
    dtype: Literal["float32", "float16"] = "float32",
    pool: Literal["none", "mean"] = "none",
    forget_sentences: bool = False,
    use_sentence_keys: bool = False,
    on_invalid: Literal["error", "skip"] = "error",
    cluster: str | None = None,
    workers: PositiveInt | None = None,
    cores_per_worker: PositiveInt | None = None,
) -> None:
    """Write the vectors of the sentences in a file.

    If the run is interrupted, repeat the command: it resumes where it stopped. Until OUTPUT is
    complete, the finished part is in OUTPUT.unfinished.

    Args:
        input: one tokenized sentence per line, CoNLL columns (.conll, .conllu, …), or proteins in
            FASTA (.fasta, .fa, .faa); .gz is decompressed; - is stdin, which cannot be resumed.
        output: output; its suffix chooses the format: .hdf5 (one dataset per line, named from 0; of
            FASTA, by its identifier), .parquet (directory of shards) or, with --pool mean, .npy
            (one array, a row per line). With --tokenize, a line may have several sentences, and
            OUTPUT.tokens.jsonl has the line, the tokens and their character offsets of each array.
        batch_tokens: tokens per batch.
        dtype: number format of the vectors.
        pool: mean: one mean vector per sentence.
        forget_sentences: do not store the sentences beside their vectors.
        use_sentence_keys: name HDF5 datasets by their sentences.
        on_invalid: what to do with invalid records of FASTA.
        cluster: run on a Ray cluster: auto (the running cluster of this machine), local (a new one
            on this machine) or ray://HOST:10001. INPUT is then a file pattern in quotation marks,
            OUTPUT a directory of Parquet shards.
        workers: with --cluster: number of workers; by default cores / --cores-per-worker.
        cores_per_worker: with --cluster: cores of a worker, which has its own model; 1 by default.
    """
    from elmo_tf.embedding.embedder import Embedder
    from elmo_tf.embedding.vector_files import OutputOptions

    options = OutputOptions(dtype, forget_sentences, use_sentence_keys, pool)
    how = {"format": input_format, "token_column": token_column, "overwrite": overwrite}
    if cluster is None:
        if workers or cores_per_worker:
            raise WrongCallError("--workers and --cores-per-worker need --cluster")
        with stdin_in_a_file([input]) as (file,):
            embedder = Embedder(model, layers, precision, batch_tokens, tokenizer=tokenizer)
            embedder.embed_file(file, output, on_invalid=on_invalid, **how, **vars(options))
    elif tokenizer or use_sentence_keys or on_invalid == "skip":
        raise WrongCallError(
            "--tokenize, --use-sentence-keys and --on-invalid skip are for one machine: leave "
            "--cluster out"
        )
    else:
        from elmo_tf.checkpoints.load import load_config
        from elmo_tf.pipelines import embed_with_ray

        if not cluster.startswith("ray://"):  # a remote machine may have other files
            load_config(model)
        counts = embed_with_ray(
            *(model, input, output),
            options=options,
            layers=layers,
            precision=precision,
            batch_tokens=batch_tokens,
            address=cluster,
            num_workers=workers,
            cores_per_worker=cores_per_worker or 1,
            **how,
        )
        print_json(counts)
