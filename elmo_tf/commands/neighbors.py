"""The subcommand `neighbors`: words in context ─► the nearest tokens of a corpus."""

import itertools
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar

from absl import logging
from pydantic import PlainValidator

from elmo_tf.commands.options import (
    CHECKPOINT,
    VECTORS_GUIDE,
    Precision,
    ReportOptions,
    markdown_table,
    named_vectors,
    optionally_named_file,
    subcommand,
)
from elmo_tf.settings import Count, Natural, Texts, checked_dataclass, setting

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


@subcommand(
    "elmo-tf neighbors field --index index --model small-en --corpus text.txt",
    epilog="The first call builds the index from --model and --corpus; later calls need only "
    "--index.",
)
def neighbors(options: _NeighborsOptions) -> None:
    """Find the nearest tokens of a corpus to a word in context."""
    for word in options.words if options.sentence is not None else ():
        if word not in options.sentence.split():
            raise ValueError(
                f"--sentence {options.sentence!r} does not contain the token {word!r}."
            )
    options.check_report()
    vectors = named_vectors(options.vectors)
    from elmo_tf.evaluation.occurrences import OccurrenceIndex

    if options.has_index:

        def check(index: Any) -> None:
            index.check_same_text(options.corpus, options.max_tokens)
            _check_query(options, vectors, index.settings["layers"], index.types, index.sentences)

        index = OccurrenceIndex(options.index, options.model, options.precision, check)
    else:
        index = OccurrenceIndex(options.index, _build(options, vectors))
    keys = ("model", "digest", "precision", "sentences", "tokens", "types")
    about = {key: index.settings[key] for key in keys}
    words = [_about(index, vectors, word, options) for word in options.words]
    content = {"index": {"folder": os.path.normpath(options.index), **about}, "words": words}
    options.report(content, lambda: _markdown(content))


def _build(options: _NeighborsOptions, vectors: Mapping[str, Any]) -> Any:
    """Builds the index, and returns its embedder."""
    from elmo_tf.checkpoints.load import load_config
    from elmo_tf.embedding import Embedder
    from elmo_tf.evaluation.occurrence_text import distinct_sentences
    from elmo_tf.evaluation.occurrences import build_occurrence_index, require_packages
    from elmo_tf.files import refuse_directory
    from elmo_tf.text.reading import sentence_files

    refuse_directory(options.index)
    require_packages()
    files = sentence_files(options.corpus)
    num_layers = load_config(options.model).lstm.num_layers + 1
    sentences = distinct_sentences(files, options.max_tokens)
    if options.words:
        types = {token for sentence in sentences for token in sentence.split(" ")}
        _check_query(options, vectors, num_layers, types, lambda: map(str.split, sentences))
    embedder = Embedder(options.model, precision=options.precision)
    # Absolute: later calls may come from another working directory.
    name = os.path.abspath(options.model) if os.path.exists(options.model) else options.model
    build_occurrence_index(embedder, files, options.index, options.max_tokens, name, sentences)
    return embedder


def _check_query(
    options: _NeighborsOptions,
    vectors: Mapping[str, Any],
    num_layers: int,
    types: Collection[str],
    read: Callable[[], Iterable[Sequence[str]]],
) -> None:
    """Checks layers, words and files of vectors against the text, before a model is loaded."""
    from elmo_tf.evaluation.occurrence_text import check_layers, check_word
    from elmo_tf.evaluation.stored_vectors import SentenceVectorSource

    check_layers(filter(None, options.layer), num_layers)
    contextual = [one for one in vectors.values() if isinstance(one, SentenceVectorSource)]
    if options.sentence is None and (contextual or set(options.layer) != {0}):
        for word in options.words:
            check_word(word, types)
    if options.words and contextual:
        queries = [] if options.sentence is None else [options.sentence.split()]
        for source in contextual:
            source.check(itertools.chain(queries, read()))


def _about(
    index: Any, vectors: Mapping[str, Any], word: str, options: _NeighborsOptions
) -> dict[str, Any]:
    """The results of a word."""
    from elmo_tf.evaluation.occurrences import Occurrence
    from elmo_tf.evaluation.stored_vectors import WordVectorSource

    content: dict[str, Any] = {"word": word, "count": len(index.places(word)), "occurrences": []}
    contextual = dict(vectors)
    for name, source in vectors.items():
        if isinstance(source, WordVectorSource):
            static = contextual.pop(name).vectors
            if word not in static:
                logging.warning("%s has no vector of %r.", name, word)
            near = static.nearest(word, options.top) if word in static else []
            content.setdefault("vectors", {})[name] = _types(near)
    if 0 in options.layer:
        content["types"] = _types(index.nearest_types(word, options.top))
    layers = [layer for layer in options.layer or index.layers if layer]
    if not layers and not contextual:
        return content
    if options.sentence is None:
        layer = max(layers or index.layers)
        occurrences = index.unlike_occurrences(word, options.occurrences, layer)
    else:
        tokens = options.sentence.split()
        positions = [place for place, token in enumerate(tokens) if token == word]
        occurrences = [Occurrence(tokens, place) for place in positions[: options.occurrences]]
    words = "same" if options.same_word else "other" if options.other_words else "any"
    tables = {"": index.nearest(occurrences, layers, options.top, words)}
    for name, source in contextual.items():
        near = index.nearest_by_vectors(source, occurrences, options.top, words)
        tables[f"{name}, layer "] = near
    for row, occurrence in enumerate(occurrences):
        neighbors = {
            f"{prefix}{layer}": list(map(_in_context, nearest))
            for prefix, of_occurrences in tables.items()
            for layer, nearest in of_occurrences[row].items()
        }
        content["occurrences"].append({**_in_context(occurrence), "neighbors": neighbors})
    return content


def _types(nearest: Iterable[tuple[str, float]]) -> list[dict[str, Any]]:
    return [{"token": token, "similarity": round(near, 4)} for token, near in nearest]


def _in_context(occurrence: Any) -> dict[str, Any]:
    near = occurrence.similarity
    return {
        **({} if near is None else {"similarity": round(near, 4)}),
        "token": occurrence.tokens[occurrence.position],
        "position": occurrence.position,
        "sentence": " ".join(occurrence.tokens),
        "file": occurrence.file,
        "line": occurrence.line,
    }


def _markdown(content: Mapping[str, Any]) -> str:
    index = content["index"]
    parts = [
        f"{index['folder']}: {index['tokens']:,} tokens in {index['sentences']:,} sentences, "
        f"{index['types']:,} types, by the biLM {index['model']}."
    ]
    for about in content["words"]:
        parts.append(f"# {_visible(about['word'])} ({about['count']:,} times)")
        types = {f"nearest by {name}": near for name, near in about.get("vectors", {}).items()}
        if "types" in about:
            types["nearest in layer 0"] = about["types"]
        for name, nearest in types.items():
            rows = [(_visible(near["token"]), f"{near['similarity']:.3f}") for near in nearest]
            parts.append(markdown_table([name, "similarity"], rows))
        for occurrence in about["occurrences"]:
            marked, origin = _marked(occurrence)
            parts.append(f"## {marked}\n\n{origin}")
            for layer, nearest in occurrence["neighbors"].items():
                name = f"layer {layer}" if layer.isdecimal() else layer
                rows = []
                for near in nearest:
                    marked, origin = _marked(near)
                    rows.append((marked, f"{near['similarity']:.3f}", origin))
                parts.append(markdown_table([name, "similarity", "from"], rows))
    return "\n\n".join(parts)


def _marked(occurrence: Mapping[str, Any]) -> tuple[str, str]:
    """A token in bold with 8 tokens on each side, and where it is from."""
    from elmo_tf.evaluation.visible_text import in_context

    tokens, file = occurrence["sentence"].split(" "), occurrence["file"]
    origin = "from --sentence" if file is None else f"{os.path.basename(file)}:{occurrence['line']}"
    return _visible(in_context(tokens, occurrence["position"], 8, "**{}**")), _visible(origin)


def _visible(text: str) -> str:
    from elmo_tf.evaluation.visible_text import visible

    return visible(text).replace("|", "\\|")
