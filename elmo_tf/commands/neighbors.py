"""The subcommand `neighbors`: words in context ─► the nearest tokens of a corpus."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar

from absl import logging
from pydantic import PlainValidator

from elmo_tf.commands.options import (
    CHECKPOINT,
    VECTORS_GUIDE,
    Precision,
    named_vectors,
    optionally_named_file,
    subcommand,
)
from elmo_tf.commands.reports import ReportOptions, markdown_table
from elmo_tf.settings import Count, Natural, Texts, checked_dataclass, setting

_CONTEXT = 8  # tokens of context on each side of a token in a table

_Vectors = Annotated[
    tuple[Annotated[tuple[str, str], PlainValidator(optionally_named_file)], ...],
    setting(
        metavar="[NAME=]FILE",
        help="also report neighbors by vectors in files: nearest types of static word vectors "
        "(GloVe, word2vec or fastText text); or nearest tokens by .hdf5 or .parquet files with one "
        "vector per whitespace-separated token of the whole corpus, as by elmo-tf embed "
        f"({VECTORS_GUIDE})",
    ),
]


@checked_dataclass(kw_only=True)
class _NeighborsOptions(ReportOptions):
    EXCLUSIVE: ClassVar = (("same_word", "other_words"),)

    words: Texts = setting(
        (),
        "words to look up, before the options; without words, only build or check the index",
        is_positional=True,
        metavar="WORD",
    )
    index: str = setting(
        group="index", metavar="DIR", help="directory of the index; built if it does not exist"
    )
    model: str | None = setting(
        None,
        f"model to build the index with (default: that of the index): {CHECKPOINT}",
        metavar="CHECKPOINT",
    )
    corpus: Texts = setting(
        (),
        "text to build the index from, one tokenized sentence per line; .gz is decompressed",
        metavar="GLOB",
    )
    max_tokens: Count | None = setting(None, "tokens of the corpus to read", default_help="all")
    precision: Precision = "float32"
    sentence: str | None = setting(
        None,
        "tokenized sentence that contains WORD",
        group="query",
        metavar="TEXT",
        default_help="dissimilar uses of WORD in the corpus, as many as --occurrences",
    )
    occurrences: Count = setting(2, "occurrences to query per word")
    layer: tuple[Natural, ...] = setting(
        (), "layers to compare; 0 compares types, without context", default_help="all except 0"
    )
    top: Count = setting(5, "neighbors per occurrence and layer")
    same_word: bool = setting(False, "find only occurrences of WORD")
    other_words: bool = setting(False, "find only other words")
    vectors: _Vectors = ()

    def __post_init__(self):
        if self.sentence is not None and not self.words:
            raise ValueError("--sentence requires a WORD before the options")
        if not self.has_index and not (self.model and self.corpus):
            raise ValueError(
                f"there is no index {self.index}: name a model (--model) and text (--corpus) to "
                "build it"
            )

    @property
    def has_index(self) -> bool:
        """Whether the directory of the index has files."""
        return os.path.isdir(self.index) and bool(os.listdir(self.index))

    @property
    def which(self) -> str:
        """The neighbors to find: "same" word, "other" words or "any"."""
        return "same" if self.same_word else "other" if self.other_words else "any"


@subcommand(
    "elmo-tf neighbors field --index index --model small-en --corpus text.txt",
    epilog="The first call builds the index from --model and --corpus; later calls need only "
    "--index.",
)
def neighbors(options: _NeighborsOptions) -> None:
    """Find the nearest tokens of a corpus to a word in context."""
    folder, exists = Path(options.index), options.has_index
    for word in options.words if options.sentence is not None else ():
        if word not in options.sentence.split():
            raise ValueError(
                f"--sentence {options.sentence!r} does not contain the token {word!r}."
            )
    options.check_report()
    vectors = named_vectors(options.vectors)
    from elmo_tf.evaluation.occurrences import OccurrenceIndex

    model = options.model if exists else _built(options, folder)
    index = OccurrenceIndex(folder, model, options.precision)
    if exists:
        index.check_same_text(options.corpus, options.max_tokens)
    about = ("model", "digest", "precision", "sentences", "tokens", "types")
    content = {
        "index": {"folder": str(folder), **{key: index.settings[key] for key in about}},
        "words": [_about(index, vectors, word, options) for word in options.words],
    }
    options.report(content, lambda: _markdown(content))


def _built(options: Any, folder: Path) -> Any:
    """Builds the index, and returns the model."""
    from elmo_tf.embedding import Embedder
    from elmo_tf.evaluation.occurrence_building import build_occurrence_index
    from elmo_tf.files import refuse_directory
    from elmo_tf.text.corpus import text_files

    refuse_directory(folder)
    files = text_files(options.corpus)
    embedder = Embedder(options.model, precision=options.precision)
    # Absolute: later calls may come from another working directory.
    name = options.model
    name = os.path.abspath(name) if os.path.exists(name) else name
    build_occurrence_index(embedder, files, folder, options.max_tokens, name)
    return embedder


def _about(index: Any, vectors: Mapping[str, Any], word: str, options: Any) -> dict[str, Any]:
    """The results of a word."""
    from elmo_tf.evaluation.occurrences import Occurrence
    from elmo_tf.evaluation.stored_vectors import WordVectorSource

    static = {
        name: source for name, source in vectors.items() if isinstance(source, WordVectorSource)
    }
    contextual = {name: source for name, source in vectors.items() if name not in static}
    layers = [layer for layer in options.layer or index.layers if layer]
    content: dict[str, Any] = {"word": word, "count": len(index.numbers(word)), "occurrences": []}
    if static:
        content["vectors"] = {
            name: _nearest_by(name, source, word, options.top) for name, source in static.items()
        }
    if 0 in (options.layer):
        content["types"] = _types(index.nearest_types(word, options.top))
    if not layers and not contextual:
        return content
    if options.sentence is None:
        layer = max(layers or index.layers)
        occurrences = index.unlike_occurrences(word, options.occurrences, layer)
    else:
        tokens = options.sentence.split()
        positions = [place for place, token in enumerate(tokens) if token == word]
        occurrences = [Occurrence(tokens, place) for place in positions[: options.occurrences]]
    how = options.top, options.which
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
