"""The subcommand `neighbors`: words in context ─► the nearest tokens of a corpus."""

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from absl import logging

from elmo_tf.commands.options import (
    CHECKPOINT,
    VECTORS_GUIDE,
    add_precision,
    at_least_0,
    at_least_1,
    named_vectors,
    optionally_named_file,
)
from elmo_tf.commands.reports import (
    add_report_options,
    check_report_options,
    markdown_table,
    report,
)

_CONTEXT = 8  # tokens of context on each side of a token in a table


def add_command(add: Callable) -> None:
    """Adds `elmo-tf neighbors`."""
    parser = add(
        "neighbors",
        _neighbors,
        "find the nearest tokens of a corpus to a word in context",
        "elmo-tf neighbors field --index index --model small-en --corpus text.txt",
    )
    parser.epilog = (
        "The first call builds the index from --model and --corpus; later calls need only --index."
    )
    parser.add_argument(
        "words",
        nargs="*",
        metavar="WORD",
        help="words to look up, before the options; without words, only build or check the index",
    )
    _add_index(parser.add_argument_group("index"))
    _add_query(parser.add_argument_group("query"))
    add_report_options(parser)


def _add_index(group: Any) -> None:
    group.add_argument(
        "--index",
        required=True,
        metavar="DIR",
        help="directory of the index; built if it does not exist",
    )
    group.add_argument(
        "--model",
        metavar="CHECKPOINT",
        help=f"model to build the index with (default: that of the index): {CHECKPOINT}",
    )
    group.add_argument(
        "--corpus",
        nargs="+",
        default=[],
        metavar="GLOB",
        help="text to build the index from, one tokenized sentence per line; .gz is decompressed",
    )
    group.add_argument(
        "--max-tokens", **at_least_1(), help="tokens of the corpus to read (default: all)"
    )
    add_precision(group)


def _add_query(group: Any) -> None:
    group.add_argument(
        "--sentence",
        metavar="TEXT",
        help="tokenized sentence that contains WORD (default: dissimilar uses of WORD in the "
        "corpus, as many as --occurrences)",
    )
    group.add_argument("--occurrences", **at_least_1(2), help="occurrences to query per word")
    group.add_argument(
        "--layer",
        nargs="+",
        **at_least_0(),
        help="layers to compare (default: all except 0); 0 compares types, without context",
    )
    group.add_argument("--top", **at_least_1(5), help="neighbors per occurrence and layer")
    words = group.add_mutually_exclusive_group()
    for name, which, help in (
        ("--same-word", "same", "find only occurrences of WORD"),
        ("--other-words", "other", "find only other words"),
    ):
        words.add_argument(
            name, dest="which", action="store_const", const=which, default="any", help=help
        )
    group.add_argument(
        "--vectors",
        nargs="+",
        type=optionally_named_file,
        default=[],
        metavar="[NAME=]FILE",
        help="also report neighbors by vectors in files: nearest types of static word vectors "
        "(GloVe, word2vec or fastText text); or nearest tokens by .hdf5 or .parquet files with one "
        "vector per whitespace-separated token of the whole corpus, as by elmo-tf embed "
        f"({VECTORS_GUIDE})",
    )


def _neighbors(arguments: Any) -> None:
    folder = Path(arguments.index)
    exists = folder.is_dir() and any(folder.iterdir())
    if not exists and not (arguments.model and arguments.corpus):
        arguments.refuse_call(
            f"there is no index {folder}: name a model (--model) and text (--corpus) to build it"
        )
    if arguments.sentence is not None and not arguments.words:
        arguments.refuse_call("--sentence requires a WORD before the options")
    for word in arguments.words if arguments.sentence is not None else ():
        if word not in arguments.sentence.split():
            raise ValueError(
                f"--sentence {arguments.sentence!r} does not contain the token {word!r}."
            )
    check_report_options(arguments)
    vectors = named_vectors(arguments)
    from elmo_tf.evaluation.occurrences import OccurrenceIndex

    model = arguments.model if exists else _built(arguments, folder)
    index = OccurrenceIndex(folder, model, arguments.precision)
    if exists:
        index.check_same_text(arguments.corpus, arguments.max_tokens)
    about = ("model", "digest", "precision", "sentences", "tokens", "types")
    content = {
        "index": {"folder": str(folder), **{key: index.settings[key] for key in about}},
        "words": [_about(index, vectors, word, arguments) for word in arguments.words],
    }
    report(arguments, content, lambda: _markdown(content))


def _built(arguments: Any, folder: Path) -> Any:
    """Builds the index, and returns the model."""
    from elmo_tf.embedding import Embedder
    from elmo_tf.evaluation.occurrence_building import build_occurrence_index
    from elmo_tf.files import refuse_directory
    from elmo_tf.text.corpus import text_files

    refuse_directory(folder)
    files = text_files(arguments.corpus)
    embedder = Embedder(arguments.model, precision=arguments.precision)
    # Absolute: later calls may come from another working directory.
    name = arguments.model
    name = os.path.abspath(name) if os.path.exists(name) else name
    build_occurrence_index(embedder, files, folder, arguments.max_tokens, name)
    return embedder


def _about(index: Any, vectors: Mapping[str, Any], word: str, arguments: Any) -> dict[str, Any]:
    """The results of a word."""
    from elmo_tf.evaluation.occurrences import Occurrence
    from elmo_tf.evaluation.stored_vectors import WordVectorSource

    static = {name: one for name, one in vectors.items() if isinstance(one, WordVectorSource)}
    contextual = {name: one for name, one in vectors.items() if name not in static}
    layers = [layer for layer in arguments.layer or index.layers if layer]
    content: dict[str, Any] = {"word": word, "count": len(index.numbers(word)), "occurrences": []}
    if static:
        content["vectors"] = {
            name: _nearest_by(name, source, word, arguments.top) for name, source in static.items()
        }
    if 0 in (arguments.layer or ()):
        content["types"] = _types(index.nearest_types(word, arguments.top))
    if not layers and not contextual:
        return content
    if arguments.sentence is None:
        layer = max(layers or index.layers)
        occurrences = index.unlike_occurrences(word, arguments.occurrences, layer)
    else:
        tokens = arguments.sentence.split()
        positions = [place for place, token in enumerate(tokens) if token == word]
        occurrences = [Occurrence(tokens, place) for place in positions[: arguments.occurrences]]
    how = arguments.top, arguments.which
    tables = [("", index.nearest(occurrences, layers, *how))]
    for name, source in contextual.items():
        tables.append((f"{name}, layer ", index.nearest_by_vectors(source, occurrences, *how)))
    for number, occurrence in enumerate(occurrences):
        neighbors = {
            f"{prefix}{layer}": [
                {"similarity": round(near.similarity, 4), **_in_context(near)} for near in nearest
            ]
            for prefix, found in tables
            for layer, nearest in found[number].items()
        }
        content["occurrences"].append({**_in_context(occurrence), "neighbors": neighbors})
    return content


def _nearest_by(name: str, source: Any, word: str, top_n: int) -> list[dict[str, Any]]:
    if word not in source.vectors:
        logging.warning("%s has no vector of %r.", name, word)
        return []
    return _types(source.vectors.nearest(word, top_n))


def _types(found: Iterable[tuple[str, float]]) -> list[dict[str, Any]]:
    return [{"token": token, "similarity": round(near, 4)} for token, near in found]


def _in_context(found: Any) -> dict[str, Any]:
    return {
        "token": found.tokens[found.position],
        "position": found.position,
        "sentence": " ".join(found.tokens),
        "file": found.file,
        "line": found.line,
    }


def _markdown(content: Mapping[str, Any]) -> str:
    """The results as headings and tables."""
    index = content["index"]
    parts = [
        f"{index['folder']}: {index['tokens']:,} tokens in {index['sentences']:,} sentences, "
        f"{index['types']:,} types, by the biLM {index['model']}."
    ]
    for about in content["words"]:
        parts.append(f"# {_visible(about['word'])} ({about['count']:,} times)")
        types = {f"nearest by {name}": found for name, found in about.get("vectors", {}).items()}
        if "types" in about:
            types["nearest in layer 0"] = about["types"]
        for name, found in types.items():
            rows = [(_visible(near["token"]), f"{near['similarity']:.3f}") for near in found]
            parts.append(markdown_table([name, "similarity"], rows))
        for occurrence in about["occurrences"]:
            parts.append(f"## {_marked(occurrence)}\n\n{_origin(occurrence)}")
            for layer, neighbors in occurrence["neighbors"].items():
                rows = [
                    (_marked(near), f"{near['similarity']:.3f}", _origin(near))
                    for near in neighbors
                ]
                name = f"layer {layer}" if layer.isdecimal() else layer
                parts.append(markdown_table([name, "similarity", "from"], rows))
    return "\n\n".join(parts)


def _marked(found: Mapping[str, Any]) -> str:
    """A token in bold, with its context."""
    from elmo_tf.evaluation.visible_text import in_context

    return _visible(in_context(found["sentence"].split(" "), found["position"], _CONTEXT, "**{}**"))


def _origin(found: Mapping[str, Any]) -> str:
    if found["file"] is None:
        return "from --sentence"
    return f"{_visible(os.path.basename(found['file']))}:{found['line']}"


def _visible(text: str) -> str:
    from elmo_tf.evaluation.visible_text import visible

    return visible(text).replace("|", "\\|")
