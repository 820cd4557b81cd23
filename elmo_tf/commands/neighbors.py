"""The subcommand `neighbors`: words in context ─► the tokens of a text that are most like them."""

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from absl import logging

from elmo_tf.commands.neighbor_tables import neighbour_tables
from elmo_tf.commands.options import CHECKPOINT, add_precision, natural, positive
from elmo_tf.commands.reports import add_report_options, check_report_options, report


def add_command(add: Callable) -> None:
    """`elmo-tf neighbors`."""
    parser = add(
        "neighbors",
        _neighbors,
        "find the tokens of a text that are most like a word in context, layer by layer, by an "
        "index that is built once",
        "elmo-tf neighbors string --index index --model small-en --corpus text.txt",
    )
    parser.set_defaults(refuse_call=parser.error)
    parser.add_argument(
        "words",
        nargs="*",
        metavar="WORD",
        help="tokens, in front of the options; without any, the index is built or checked",
    )
    _add_index(parser.add_argument_group("the index"))
    _add_query(parser.add_argument_group("what is looked for"))
    add_report_options(parser)


def _add_index(group: Any) -> None:
    group.add_argument(
        "--index",
        required=True,
        metavar="DIR",
        help="its folder; built from --model and --corpus if it is not there",
    )
    group.add_argument(
        "--model",
        metavar="CHECKPOINT",
        help=f"{CHECKPOINT}; not needed for an index that is there, as long as the model is where "
        "it was",
    )
    group.add_argument(
        "--corpus",
        nargs="+",
        default=[],
        metavar="GLOB",
        help="text files, one tokenised sentence a line; .gz is unpacked; not needed for an index "
        "that is there",
    )
    group.add_argument(
        "--max-tokens", type=positive, metavar="N", help="stop reading the corpus there (all)"
    )
    add_precision(group)


def _add_query(group: Any) -> None:
    group.add_argument(
        "--sentence",
        metavar="TEXT",
        help="a tokenised sentence with WORD in it, which is looked for; else occurrences of WORD "
        "in the corpus are, in uses that are not alike",
    )
    group.add_argument(
        "--occurrences",
        type=positive,
        default=2,
        metavar="N",
        help="of a word that are looked for (2)",
    )
    group.add_argument(
        "--layer",
        nargs="+",
        type=natural,
        metavar="N",
        help="whose vectors are compared (all but 0); 0 stands for types, whatever their context",
    )
    group.add_argument(
        "--top", type=positive, default=5, metavar="N", help="tokens to be found for each (5)"
    )
    words = group.add_mutually_exclusive_group()
    words.add_argument(
        "--same-word",
        dest="which",
        action="store_const",
        const="same",
        default="any",
        help="find occurrences of WORD alone (any word)",
    )
    words.add_argument(
        "--other-words", dest="which", action="store_const", const="other", help="find others alone"
    )
    group.add_argument(
        "--vectors",
        metavar="FILE",
        help="GloVe, word2vec or fastText, as text, .gz too: tell the nearest types by it beside",
    )


def _neighbors(arguments: Any) -> None:
    from elmo_tf.tasks.data.word_vectors import read_word_vectors
    from elmo_tf.threads import share_cores_for_embedding

    folder = Path(arguments.index)
    is_there = folder.is_dir() and any(folder.iterdir())
    if not is_there and not (arguments.model and arguments.corpus):
        arguments.refuse_call(
            f"there is no index {folder}: name a model (--model) and text (--corpus) to build it"
        )
    if arguments.sentence is not None and not arguments.words:
        arguments.refuse_call("name the WORD of the sentence (--sentence), in front of the options")
    if arguments.sentence is not None:
        _check_sentence(arguments.sentence.split(), arguments.words)
    check_report_options(arguments)
    share_cores_for_embedding()
    vectors = None if arguments.vectors is None else read_word_vectors(arguments.vectors)
    index = _opened(arguments, folder) if is_there else _built(arguments, folder)
    about = ("model", "digest", "precision", "sentences", "tokens", "types")
    content = {
        "index": {"folder": str(folder), **{key: index.description[key] for key in about}},
        "words": [_about(index, vectors, word, arguments) for word in arguments.words],
    }
    report(arguments, content, lambda: neighbour_tables(content))


def _check_sentence(tokens: Sequence[str], words: Iterable[str]) -> None:
    for word in words:
        if word not in tokens:
            raise ValueError(
                f"The word {word!r} is no token of the sentence (--sentence), of which the tokens "
                f"are {' '.join(tokens)!r}."
            )


def _opened(arguments: Any, folder: Path) -> Any:
    from elmo_tf.evaluation.occurrence_index import OccurrenceIndex
    from elmo_tf.evaluation.occurrence_index.description import check_same_text, read_description

    check_same_text(read_description(folder), folder, arguments.corpus, arguments.max_tokens)
    return OccurrenceIndex(folder, arguments.model, arguments.precision)


def _built(arguments: Any, folder: Path) -> Any:
    from elmo_tf.embedding import Embedder
    from elmo_tf.evaluation.occurrence_index import OccurrenceIndex, build_occurrence_index
    from elmo_tf.files import refuse_directory
    from elmo_tf.text.corpus import text_files

    refuse_directory(folder)
    files = text_files(arguments.corpus)
    embedder = Embedder(arguments.model, precision=arguments.precision)
    # The index may be used from another folder.
    name = arguments.model
    name = os.path.abspath(name) if os.path.exists(name) else name
    build_occurrence_index(embedder, files, folder, arguments.max_tokens, name)
    return OccurrenceIndex(folder, embedder)


def _about(index: Any, vectors: Any, word: str, arguments: Any) -> dict[str, Any]:
    """What there is to tell of a word."""
    from elmo_tf.evaluation.occurrence_index import Occurrence

    layers = [layer for layer in arguments.layer or index.layers if layer]
    content: dict[str, Any] = {"word": word, "count": index.num_occurrences(word)}
    if vectors is not None:
        content["vectors"] = _nearest_by(vectors, word, arguments)
    if 0 in (arguments.layer or ()):
        content["types"] = _types(index.nearest_types(word, arguments.top))
    content["occurrences"] = []
    if not layers:
        return content
    if arguments.sentence is None:
        occurrences = index.unlike_occurrences(word, arguments.occurrences, max(layers))
    else:
        tokens = arguments.sentence.split()
        positions = [place for place, token in enumerate(tokens) if token == word]
        occurrences = [Occurrence(tokens, place) for place in positions[: arguments.occurrences]]
    found = index.nearest(occurrences, layers, arguments.top, arguments.which)
    for occurrence, by_layer in zip(occurrences, found, strict=True):
        neighbors = {
            str(layer): [_neighbour(index, one) for one in best] for layer, best in by_layer.items()
        }
        content["occurrences"].append({**_in_context(*occurrence), "neighbors": neighbors})
    return content


def _nearest_by(vectors: Any, word: str, arguments: Any) -> list[dict[str, Any]]:
    if word not in vectors:
        logging.warning("%s has no vector of %r.", arguments.vectors, word)
        return []
    return _types(vectors.nearest(word, arguments.top))


def _types(found: Iterable[tuple[str, float]]) -> list[dict[str, Any]]:
    return [{"token": token, "similarity": round(near, 4)} for token, near in found]


def _neighbour(index: Any, found: Any) -> dict[str, Any]:
    source = index.source(found.sentence)
    context = _in_context(index.tokens(found.sentence), found.position, source)
    return {"similarity": round(found.similarity, 4), **context}


def _in_context(tokens: Sequence[str], position: int, source: Any) -> dict[str, Any]:
    file, line = source or (None, None)
    return {
        "token": tokens[position],
        "position": position,
        "sentence": " ".join(tokens),
        "file": file,
        "line": line,
    }
