"""The subcommand `probe`: tagged sentences ─► accuracy of a linear classifier on each layer."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from cyclopts.types import PositiveInt

from elmo_tf.commands.options import (
    Model,
    NamedVectors,
    Precision,
    ResultFormat,
    TokenColumn,
    TokenizerName,
    markdown_table,
    named_vectors,
    percent,
    print_results,
)

_Files = Annotated[
    tuple[str, ...],
    Parameter(help="tagged sentences, as CoNLL columns or CoNLL-U; .gz is decompressed"),
]


def probe(
    model: Model,
    /,
    *,
    train: _Files,
    test: _Files,
    precision: Precision = "float32",
    tokenizer: TokenizerName = None,
    vectors: NamedVectors = (),
    input_format: Literal["conll", "conllu"] | None = None,
    token_column: TokenColumn = None,
    tag_column: PositiveInt | None = None,
    max_iterations: PositiveInt = 200,
    max_train_tokens: PositiveInt = 500_000,
    format: ResultFormat = None,
) -> None:
    """Measure how well a linear classifier predicts tags from each layer.

    With --tokenize, the vector of a word is the mean over its tokens.

    Args:
        input_format: format of all files; by default conllu for *.conllu, else conll.
        tag_column: column of the tags, from 1; by default the last, or 4 of .conllu: UPOS; 5 is
            XPOS.
        max_iterations: limit of L-BFGS iterations.
        max_train_tokens: size of the sample that replaces larger training data, in tokens.
    """
    from elmo_tf.embedding.embedder import Embedder
    from elmo_tf.embedding.word_means import WordMeans
    from elmo_tf.evaluation.probing import probe
    from elmo_tf.tasks.tagging import read_tagged

    sources = named_vectors(vectors)
    columns = input_format, token_column, tag_column
    training, tests = (
        [sentence for file in files for sentence in read_tagged(file, *columns)]
        for files in (train, test)
    )
    limits = {"max_iterations": max_iterations, "max_train_tokens": max_train_tokens}
    # Files first: they may lack a sentence, which is an error before the model is loaded.
    of_files = {name: probe(one, training, tests, **limits) for name, one in sources.items()}
    embedder = Embedder(model, "all", precision, tokenizer=tokenizer)
    if embedder.tokenizer is not None:
        embedder = WordMeans(embedder)
    results = {"": probe(embedder, training, tests, **limits), **of_files}
    content = {"model": model, "precision": embedder.precision, "train": train, "test": test}
    content |= {"input_format": input_format, "token_column": token_column}
    content |= {"tag_column": tag_column, **limits, **results[""]}
    if of_files:
        content["vectors"] = of_files
    print_results(content, lambda: _markdown(results), format)


def _markdown(results: Mapping[str, Any]) -> str:
    of_model = results[""]
    rows = [["most frequent tag", *map(percent, of_model["baseline"].values()), None]]
    for name, result in results.items():
        for layer in result["layers"]:
            iterations = f"{layer['iterations']}{'' if layer['converged'] else ', not converged'}"
            accuracies = map(percent, layer["accuracy"].values())
            rows.append([f"{name} layer {layer['layer']}".strip(), *accuracies, iterations])
    table = markdown_table(["accuracy (%)", "all", "known", "unknown", "iterations"], rows)
    return (
        "{table}\n\nTrained on {train_tokens:,} tokens of {train_sentences:,} sentences with "
        "{tags} tags, tested on {test_tokens:,} tokens of {test_sentences:,} sentences: "
        "{test_unknown:,} of them unknown, {test_unseen_tags:,} with a tag that the training data "
        "lack."
    ).format(table=table, **of_model)
