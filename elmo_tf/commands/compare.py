"""The subcommand `compare`: several biLMs ─► one table of their measurements."""

import os
import statistics
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from elmo_tf.commands.options import (
    CHECKPOINT,
    NamedVectors,
    Precision,
    ReportOptions,
    markdown_table,
    named_vectors,
    percent,
    short_names,
    subcommand,
)
from elmo_tf.settings import Count, Texts, checked_dataclass, setting


@checked_dataclass(kw_only=True)
class _CompareOptions(ReportOptions):
    models: Texts = setting(is_positional=True, metavar="MODEL", help=CHECKPOINT)
    text: Texts = setting(
        (),
        "text to measure perplexity and speed on, one tokenized sentence per line",
        metavar="GLOB",
    )
    precision: Precision = "float32"
    vectors: NamedVectors = ()
    probe_train: Texts = setting((), "CoNLL files to train on", group="tags, see elmo-tf probe")
    probe_test: Texts = setting((), "CoNLL files to test on")
    tag_column: Count | None = setting(
        None, "column, from 1", default_help="the last, or 4 of .conllu"
    )
    senses_train: Texts = setting(
        (),
        "sense-annotated text to train on",
        group="senses, see elmo-tf senses",
        metavar="X.data.xml",
    )
    senses_test: Texts = setting((), "sense-annotated text to test on", metavar="X.data.xml")
    inventory: str | None = setting(None, "sense inventory")
    turns: Count = setting(3, "turns of each model, with new sentences", group="speed")
    tokens_per_turn: Count = setting(10_000, "tokens per turn")

    def __post_init__(self):
        if len(set(map(os.path.abspath, self.models))) < len(self.models):
            raise ValueError(f"a model is named twice: {' '.join(self.models)}")
        if bool(self.probe_train) != bool(self.probe_test):
            raise ValueError("--probe-train and --probe-test go together")
        senses = self.senses_train, self.senses_test, self.inventory
        if any(senses) and not all(senses):
            raise ValueError("--senses-train, --senses-test and --inventory go together")


@subcommand(
    "elmo-tf compare small-en run --text text.txt --probe-train train.conllu --probe-test "
    "dev.conllu"
)
def compare(options: _CompareOptions) -> None:
    """Compare perplexity, tags, senses, speed and size of biLMs."""
    options.check_report()
    from elmo_tf.checkpoints.load import has_softmax, load_config
    from elmo_tf.evaluation.comparison import compare
    from elmo_tf.text.corpus import check_tokens
    from elmo_tf.text.reading import sentence_files

    for model in options.models:
        load_config(model)
    vectors = named_vectors(options.vectors)
    files = sentence_files(options.text)
    if files and any(map(has_softmax, options.models)):
        check_tokens(files)
    measures = {}
    if options.probe_train:
        measures["probe"] = _probe_measure(options, vectors)
    if options.senses_train:
        measures["senses"] = _senses_measure(options, vectors)
    models = dict(zip(short_names(options.models), options.models, strict=True))
    speed = {"num_turns": options.turns, "tokens_per_turn": options.tokens_per_turn}
    results = compare(models, files, measures, options.precision, vectors=vectors, **speed)
    options.report({"models": results}, lambda: _table(results))


def _probe_measure(options: Any, vectors: Mapping[str, Any]) -> Callable:
    from elmo_tf.embedding.layer_cache import LayerCache
    from elmo_tf.evaluation.probing import check_tags, probe, sampled
    from elmo_tf.extras import require_extra
    from elmo_tf.tasks.tagging.reader import read_tagged_files

    require_extra("sklearn", "analysis", "A probe")
    cache = LayerCache()
    train, test = (
        read_tagged_files(files, tag_column=options.tag_column)
        for files in (options.probe_train, options.probe_test)
    )
    train = sampled(train)
    check_tags(train, test)
    for source in vectors.values():
        source.check(one.tokens for one in (*train, *test))
    return lambda embedder: probe(embedder, train, test, cache).to_json()


def _senses_measure(options: Any, vectors: Mapping[str, Any]) -> Callable:
    from elmo_tf.evaluation import SenseCorpus, SenseInventory
    from elmo_tf.evaluation.senses import SenseTexts

    inventory = SenseInventory(options.inventory)
    paths = options.senses_train, options.senses_test
    texts = SenseTexts(*([SenseCorpus(path) for path in each] for each in paths))
    for source in vectors.values():
        source.check(texts.embedded())
    return lambda embedder: texts.evaluate(embedder, inventory).to_json()


def _table(results: Mapping[str, Mapping[str, Any]]) -> str:
    """One row per measure, one column per model."""
    rows = []
    for parts in zip(*map(_sections, results.values()), strict=True):
        # In the order of the model with the most rows: others may have fewer layers.
        names = dict.fromkeys(name for part in sorted(parts, key=len)[::-1] for name in part)
        rows += [[name, *(part.get(name) for part in parts)] for name in names]
    return markdown_table(["measure", *results], rows)


def _sections(result: Mapping[str, Any]) -> Iterator[dict[str, str | None]]:
    """Yields the rows of each kind of measure; empty for a kind that was not measured."""
    kinds = ("size", "tokens_per_second", "perplexity", "probe", "senses")
    size, speeds, perplexity, probe, senses = map(result.get, kinds)
    millions = f"{size['parameters'] / 1e6:.1f}" if "parameters" in size else None
    rows = {"parameters (millions)": millions, "layers": str(size["layers"])}
    yield {**rows, "width of a vector": f"{size['dim']:,}"}
    rows = {}
    if speeds:
        spread = f" ({min(speeds):,.0f} to {max(speeds):,.0f})"
        rows["tokens per second"] = f"{statistics.median(speeds):,.0f}{spread}"
    yield rows
    rows = {}
    if perplexity:
        for name in ("forward", "backward", "average"):
            if name in perplexity:
                rows[f"perplexity per token, {name}"] = f"{perplexity[name]:,.1f}"
        rows["vocabulary (tokens)"] = f"{perplexity['vocabulary']:,}"
        rows["unknown targets (%)"] = percent(perplexity["unknown"])
    yield rows
    rows = {}
    for part, words in (("all", "tags (%)"), ("unknown", "tags of unknown words (%)")):
        if probe:
            rows[f"{words}, most frequent"] = percent(probe["baseline"][part])
            for layer in probe["layers"]:
                rows[f"{words}, layer {layer['layer']}"] = percent(layer["accuracy"][part])
    yield rows
    rows = {}
    for name, results in senses["results"].items() if senses else ():
        for method, scores in results["scores"].items():
            score = scores["all"]
            rows[f"{name} (F1), {method.replace('_', ' ')}"] = score and percent(score["f1"])
    yield rows
