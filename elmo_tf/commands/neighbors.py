"""The subcommand `neighbors`: words in context ─► the nearest tokens of a corpus."""

import os
from collections.abc import Mapping
from typing import Any, Literal

from cyclopts.types import NonNegativeInt, PositiveInt

from elmo_tf.commands.options import (
    STDIN,
    Model,
    Precision,
    ResultFormat,
    TokenizerName,
    markdown_table,
    print_results,
)


def neighbors(
    words: tuple[str, ...],
    /,
    *,
    model: Model,
    corpus: tuple[str, ...],
    vectors: str | None = None,
    max_tokens: PositiveInt | None = None,
    precision: Precision = "float32",
    tokenizer: TokenizerName = None,
    sentence: str | None = None,
    occurrences: PositiveInt = 2,
    layer: tuple[NonNegativeInt, ...] = (),
    top: PositiveInt = 5,
    only: Literal["same", "other"] | None = None,
    format: ResultFormat = None,
) -> None:
    """Find the nearest tokens of a corpus to a word in context.

    Args:
        words: words to look up.
        corpus: text to search, one tokenized sentence per line; .gz is decompressed.
        vectors: vectors of the corpus, as written by elmo-tf embed (.hdf5, .parquet); the corpus is
            then not embedded again.
        max_tokens: tokens of the corpus to read; all by default.
        sentence: tokenized sentence that contains the words; by default dissimilar uses of each
            word in the corpus, as many as --occurrences.
        occurrences: occurrences to query per word.
        layer: layers to compare; in layer 0, without context, each word of the corpus counts once;
            by default all except 0.
        top: neighbors per occurrence and layer.
        only: find only occurrences of the same word, or only other words.
    """
    from elmo_tf.checkpoints.load import load_config
    from elmo_tf.embedding.embedder import Embedder
    from elmo_tf.embedding.vectors import check_layers
    from elmo_tf.evaluation import neighbors as search
    from elmo_tf.evaluation.stored_vectors import SentenceVectorSource
    from elmo_tf.text.reading import checked_files
    from elmo_tf.text.tokenizers import token_sentences, tokenizer_of

    config = load_config(model)
    num_layers = config.lstm.num_layers + 1
    layers = layer or range(1, num_layers)
    for each in layers:
        check_layers(each, num_layers)
    stored = None if vectors is None else SentenceVectorSource(vectors)
    split = tokenizer_of(tokenizer, config.tokenizer)
    searched = text = search.distinct_sentences(checked_files(corpus), max_tokens, split)
    if sentence is not None:
        searched = {" ".join(each): (None, None) for each in token_sentences([sentence], split)}
    uses = [search.occurrences_of("-" if w == STDIN else w, searched) for w in words]
    embedder = Embedder(model, precision=precision)
    if sentence is None:
        how = occurrences, max(layers)
        uses = [search.typical_occurrences(embedder, each, *how) for each in uses]
    queries = [query for each in uses for query in each]
    found = search.nearest_tokens(embedder, queries, text, layers, top, only or "any", stored)
    content = {
        "model": model,
        "corpus": corpus,
        "max_tokens": max_tokens,
        "precision": embedder.precision,
        "sentences": len(text),
        "tokens": sum(each.count(" ") + 1 for each in text),
        "occurrences": [
            {
                **_in_context(query),
                "neighbors": {str(row): [*map(_in_context, near)] for row, near in nearest.items()},
            }
            for query, nearest in zip(queries, found, strict=True)
        ],
    }
    print_results(content, lambda: _markdown(content), format)


def _in_context(occurrence: Any) -> dict[str, Any]:
    near = occurrence.similarity
    return {
        **({} if near is None else {"similarity": round(near, 4)}),
        "token": occurrence.token,
        "position": occurrence.position,
        "sentence": " ".join(occurrence.tokens),
        "file": occurrence.file,
        "line": occurrence.line,
    }


def _markdown(content: Mapping[str, Any]) -> str:
    parts = [
        f"{content['tokens']:,} tokens in {content['sentences']:,} sentences, by the biLM "
        f"{content['model']}."
    ]
    for occurrence in content["occurrences"]:
        parts.append("## {}\n\n{}".format(*_marked(occurrence)))
        for layer, nearest in occurrence["neighbors"].items():
            rows = []
            for near in nearest:
                marked, origin = _marked(near)
                rows.append((marked, f"{near['similarity']:.3f}", origin))
            parts.append(markdown_table([f"layer {layer}", "similarity", "from"], rows))
    return "\n\n".join(parts)


def _marked(occurrence: Mapping[str, Any]) -> tuple[str, str]:
    """A token in its context, and where it is from."""
    from elmo_tf.evaluation.neighbors import in_context, visible

    tokens, file = occurrence["sentence"].split(" "), occurrence["file"]
    origin = "from --sentence" if file is None else f"{os.path.basename(file)}:{occurrence['line']}"
    return in_context(tokens, occurrence["position"]), visible(origin).replace("|", "\\|")
