"""The subcommand `compare`: several biLMs ─► one table of their measurements."""

import os
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from elmo_tf.commands.options import (
    CHECKPOINT,
    add_precision,
    add_vectors,
    at_least_1,
    named_vectors,
)
from elmo_tf.commands.reports import (
    add_report_options,
    check_report_options,
    markdown_table,
    percent,
    report,
    short_names,
)


def add_command(add: Callable) -> None:
    """Adds `elmo-tf compare`."""
    parser = add(
        "compare",
        _compare,
        "compare perplexity, tags, senses, speed and size of biLMs",
        "elmo-tf compare small-en run --text text.txt --probe-train train.conllu "
        "--probe-test dev.conllu",
    )
    parser.add_argument("models", nargs="+", metavar="MODEL", help=CHECKPOINT)
    parser.add_argument(
        "--text",
        nargs="+",
        default=[],
        metavar="GLOB",
        help="text to measure perplexity and speed on, one tokenized sentence per line",
    )
    tags = parser.add_argument_group("tags, see elmo-tf probe")
    senses = parser.add_argument_group("senses, see elmo-tf senses")
    for part in ("train", "test"):
        tags.add_argument(
            f"--probe-{part}",
            nargs="+",
            default=[],
            metavar="FILE",
            help=f"CoNLL file to {part} on",
        )
        senses.add_argument(
            f"--senses-{part}",
            nargs="+",
            default=[],
            metavar="X.data.xml",
            help=f"sense-annotated text to {part} on",
        )
    tags.add_argument(
        "--tag-column", **at_least_1(), help="column, from 1 (default: the last, or 4 of .conllu)"
    )
    senses.add_argument("--inventory", metavar="FILE", help="sense inventory")
    speed = parser.add_argument_group("speed")
    speed.add_argument("--turns", **at_least_1(3), help="turns of each model, with new sentences")
    speed.add_argument("--tokens-per-turn", **at_least_1(10_000), help="tokens per turn")
    add_precision(parser)
    add_vectors(parser)
    add_report_options(parser)


def _compare(arguments: Any) -> None:
    _refuse_wrong_calls(arguments)
    check_report_options(arguments)
    from elmo_tf.evaluation.comparison import compare
    from elmo_tf.text.corpus import text_files

    measures = {}
    if arguments.probe_train:
        measures["probe"] = _probe_measure(arguments)
    if arguments.senses_train:
        measures["senses"] = _senses_measure(arguments)
    found = compare(
        dict(zip(short_names(arguments.models), arguments.models, strict=True)),
        text_files(arguments.text) if arguments.text else (),
        measures,
        arguments.precision,
        arguments.turns,
        arguments.tokens_per_turn,
        named_vectors(arguments),
    )
    report(arguments, {"models": found}, lambda: _table(found))


def _refuse_wrong_calls(arguments: Any) -> None:
    if len(set(map(os.path.abspath, arguments.models))) < len(arguments.models):
        arguments.refuse_call(f"a model is named twice: {' '.join(arguments.models)}")
    if bool(arguments.probe_train) != bool(arguments.probe_test):
        arguments.refuse_call("--probe-train and --probe-test go together")
    senses = arguments.senses_train, arguments.senses_test, arguments.inventory
    if any(senses) and not all(senses):
        arguments.refuse_call("--senses-train, --senses-test and --inventory go together")


def _probe_measure(arguments: Any) -> Callable:
    from elmo_tf.embedding.layer_cache import LayerCache
    from elmo_tf.evaluation.probing import probe
    from elmo_tf.extras import require_extra
    from elmo_tf.tasks.data.tagged_sentences import read_tagged_files

    require_extra("sklearn", "analysis", "A probe")
    train, test = (
        read_tagged_files(files, tag_column=arguments.tag_column)
        for files in (arguments.probe_train, arguments.probe_test)
    )
    return lambda embedder: probe(embedder, train, test, LayerCache()).to_json()


def _senses_measure(arguments: Any) -> Callable:
    from elmo_tf.evaluation import SenseCorpus, SenseInventory, evaluate_senses

    train, tests = (
        [SenseCorpus(path) for path in paths]
        for paths in (arguments.senses_train, arguments.senses_test)
    )
    inventory = SenseInventory(arguments.inventory)
    return lambda embedder: evaluate_senses(embedder, train, tests, inventory).to_json()


def _table(found: Mapping[str, Mapping[str, Any]]) -> str:
    """One row per measure, one column per model."""
    rows = []
    for parts in zip(*map(_sections, found.values()), strict=True):
        # In the order of the model with the most rows: others may have fewer layers.
        names = dict.fromkeys(name for part in sorted(parts, key=len)[::-1] for name in part)
        rows += [[name, *(part.get(name) for part in parts)] for name in names]
    return markdown_table(["measure", *found], rows)


def _sections(result: Mapping[str, Any]) -> list[dict[str, str | None]]:
    """The rows of each kind of measure; empty for a kind that was not measured."""
    kinds = (
        ("size", _size_rows),
        ("tokens_per_second", _speed_rows),
        ("perplexity", _perplexity_rows),
        ("probe", _probe_rows),
        ("senses", _senses_rows),
    )
    return [dict(rows(result[kind])) if result.get(kind) else {} for kind, rows in kinds]


def _size_rows(size: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    if "parameters" in size:
        yield "parameters (millions)", f"{size['parameters'] / 1e6:.1f}"
    yield "layers", str(size["layers"])
    yield "width of a vector", f"{size['dim']:,}"


def _speed_rows(speeds: Sequence[float]) -> Iterator[tuple[str, str]]:
    spread = f" ({min(speeds):,.0f} to {max(speeds):,.0f})"
    yield "tokens per second", f"{statistics.median(speeds):,.0f}{spread}"


def _perplexity_rows(perplexity: Mapping[str, float]) -> Iterator[tuple[str, str | None]]:
    for name in ("forward", "backward", "average"):
        if name in perplexity:
            yield f"perplexity per token, {name}", f"{perplexity[name]:,.1f}"
    yield "vocabulary (tokens)", f"{perplexity['vocabulary']:,}"
    yield "unknown targets (%)", percent(perplexity["unknown"])


def _probe_rows(probe: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    for part, words in (("all", "tags (%)"), ("unknown", "tags of unknown words (%)")):
        yield f"{words}, most frequent", percent(probe["baseline"][part])
        for layer in probe["layers"]:
            yield f"{words}, layer {layer['layer']}", percent(layer["accuracy"][part])


def _senses_rows(senses: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    for name, results in senses["results"].items():
        for method, scores in results["scores"].items():
            score = scores["all"]
            yield f"{name} (F1), {method.replace('_', ' ')}", score and percent(score["f1"])
