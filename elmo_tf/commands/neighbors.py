"""The subcommand `neighbors`: words in context ─► the nearest tokens of a corpus."""

import dataclasses
import os
from collections.abc import Collection, Mapping
from typing import Annotated, Any

from cyclopts import Parameter
from cyclopts.types import NonNegativeInt, PositiveInt

from elmo_tf.commands.options import (
    CHECKPOINT,
    PRINTED,
    Precision,
    Report,
    WrongCallError,
    markdown_table,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _NeighborsOptions:
    words: tuple[str, ...]
    index: str
    model: str | None
    corpus: tuple[str, ...]
    max_tokens: int | None
    precision: str
    sentence: str | None
    occurrences: int
    layer: tuple[int, ...]
    top: int
    same_word: bool
    other_words: bool

    def __post_init__(self):
        if self.same_word and self.other_words:
            raise WrongCallError("--same-word and --other-words exclude each other")
        if self.sentence is not None and not self.words:
            raise WrongCallError("--sentence requires a WORD before the options")
        if not self.has_index and not (self.model and self.corpus):
            raise WrongCallError(
                f"there is no index {self.index}: name a model (--model) and text (--corpus) to "
                "build it"
            )

    @property
    def has_index(self) -> bool:
        """Whether the directory of the index has files."""
        return os.path.isdir(self.index) and bool(os.listdir(self.index))


def neighbors(
    words: tuple[str, ...] = (),
    /,
    *,
    index: str,
    model: Annotated[str | None, Parameter(help=CHECKPOINT)] = None,
    corpus: tuple[str, ...] = (),
    max_tokens: PositiveInt | None = None,
    precision: Precision = "float32",
    sentence: str | None = None,
    occurrences: PositiveInt = 2,
    layer: tuple[NonNegativeInt, ...] = (),
    top: PositiveInt = 5,
    same_word: bool = False,
    other_words: bool = False,
    report: Report = PRINTED,
) -> None:
    """Find the nearest tokens of a corpus to a word in context.

    The first call builds the index from --model and --corpus; later calls need only --index.

    Args:
        words: words to look up; without words, only build or check the index.
        index: directory of the index; built if it does not exist.
        corpus: text to build the index from, one tokenized sentence per line; .gz is decompressed.
        max_tokens: tokens of the corpus to read; all by default.
        sentence: tokenized sentence that contains the word; by default dissimilar uses of it in the
            corpus, as many as --occurrences.
        occurrences: occurrences to query per word.
        layer: layers to compare; 0 compares types, without context; by default all except 0.
        top: neighbors per occurrence and layer.
        same_word: find only occurrences of the word.
        other_words: find only other words.
    """
    options = _NeighborsOptions(
        words=words,
        index=index,
        model=model,
        corpus=corpus,
        max_tokens=max_tokens,
        precision=precision,
        sentence=sentence,
        occurrences=occurrences,
        layer=layer,
        top=top,
        same_word=same_word,
        other_words=other_words,
    )
    report.check()
    _neighbors(options, report)


def _neighbors(options: _NeighborsOptions, report: Report) -> None:
    for word in options.words if options.sentence is not None else ():
        if word not in options.sentence.split():
            raise ValueError(
                f"--sentence {options.sentence!r} does not contain the token {word!r}."
            )
    from elmo_tf.evaluation.occurrences import OccurrenceIndex

    if options.has_index:

        def check(index: Any) -> None:
            index.check_same_text(options.corpus, options.max_tokens)
            _check_query(options, index.settings["layers"], index.types)

        index = OccurrenceIndex(options.index, options.model, options.precision, check)
    else:
        index = OccurrenceIndex(options.index, _build(options))
    keys = ("model", "digest", "precision", "sentences", "tokens", "types")
    about = {key: index.settings[key] for key in keys}
    words = [_about(index, word, options) for word in options.words]
    content = {"index": {"folder": os.path.normpath(options.index), **about}, "words": words}
    report.write(content, lambda: _markdown(content))


def _build(options: _NeighborsOptions) -> Any:
    """Builds the index, and returns its embedder."""
    from elmo_tf.checkpoints.load import load_config
    from elmo_tf.embedding import Embedder
    from elmo_tf.evaluation import occurrences
    from elmo_tf.files import refuse_directory
    from elmo_tf.text.reading import sentence_files

    refuse_directory(options.index)
    occurrences.require_packages()
    files = sentence_files(options.corpus)
    num_layers = load_config(options.model).lstm.num_layers + 1
    sentences = occurrences.distinct_sentences(files, options.max_tokens)
    if options.words:
        types = {token for sentence in sentences for token in sentence.split(" ")}
        _check_query(options, num_layers, types)
    embedder = Embedder(options.model, precision=options.precision)
    # Absolute: later calls may come from another working directory.
    name = os.path.abspath(options.model) if os.path.exists(options.model) else options.model
    text = options.max_tokens, name, sentences
    occurrences.build_occurrence_index(embedder, files, options.index, *text)
    return embedder


def _check_query(options: _NeighborsOptions, num_layers: int, types: Collection[str]) -> None:
    """Checks layers and words against the text, before a model is loaded."""
    from elmo_tf.evaluation.occurrences import check_layers, check_word

    check_layers(filter(None, options.layer), num_layers)
    if options.sentence is None and set(options.layer) != {0}:
        for word in options.words:
            check_word(word, types)


def _about(index: Any, word: str, options: _NeighborsOptions) -> dict[str, Any]:
    """The results of a word."""
    from elmo_tf.evaluation.occurrences import Occurrence

    content: dict[str, Any] = {"word": word, "count": len(index.places(word)), "occurrences": []}
    if 0 in options.layer:
        nearest = index.nearest_types(word, options.top)
        content["types"] = [{"token": type, "similarity": round(x, 4)} for type, x in nearest]
    layers = [layer for layer in options.layer or index.layers if layer]
    if not layers:
        return content
    if options.sentence is None:
        occurrences = index.unlike_occurrences(word, options.occurrences, max(layers))
    else:
        tokens = options.sentence.split()
        positions = [place for place, token in enumerate(tokens) if token == word]
        occurrences = [Occurrence(tokens, place) for place in positions[: options.occurrences]]
    words = "same" if options.same_word else "other" if options.other_words else "any"
    found = index.nearest(occurrences, layers, options.top, words)
    for occurrence, nearest in zip(occurrences, found, strict=True):
        neighbors = {str(layer): list(map(_in_context, near)) for layer, near in nearest.items()}
        content["occurrences"].append({**_in_context(occurrence), "neighbors": neighbors})
    return content


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
        if "types" in about:
            rows = [
                (_visible(near["token"]), f"{near['similarity']:.3f}") for near in about["types"]
            ]
            parts.append(markdown_table(["nearest in layer 0", "similarity"], rows))
        for occurrence in about["occurrences"]:
            marked, origin = _marked(occurrence)
            parts.append(f"## {marked}\n\n{origin}")
            for layer, nearest in occurrence["neighbors"].items():
                rows = []
                for near in nearest:
                    marked, origin = _marked(near)
                    rows.append((marked, f"{near['similarity']:.3f}", origin))
                parts.append(markdown_table([f"layer {layer}", "similarity", "from"], rows))
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
