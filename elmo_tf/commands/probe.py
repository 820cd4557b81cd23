"""The subcommand `probe`: tagged sentences ─► accuracy of a linear classifier on each layer."""

from collections.abc import Callable, Mapping
from typing import Any

from elmo_tf.commands.options import (
    add_flag,
    add_model,
    add_precision,
    add_token_column,
    add_vectors,
    at_least_0,
    at_least_1,
    named_vectors,
    positive_float,
)
from elmo_tf.commands.reports import (
    add_report_options,
    check_report_options,
    markdown_table,
    percent,
    report,
)

_COLUMNS = ("input_format", "token_column", "tag_column")
_LIMITS = ("max_iterations", "max_train_tokens", "seed")


def add_command(add: Callable) -> None:
    """Adds `elmo-tf probe`."""
    parser = add(
        "probe",
        _probe,
        "measure how well a linear classifier predicts tags from each layer",
        "elmo-tf probe small-en --train train.conllu --test dev.conllu",
    )
    add_model(parser)
    for name, purpose in (("train", "to train on"), ("test", "to test on")):
        parser.add_argument(
            f"--{name}",
            nargs="+",
            required=True,
            metavar="FILE",
            help=f"tagged sentences {purpose}, as CoNLL columns or CoNLL-U; .gz is decompressed",
        )
    _add_input_options(parser.add_argument_group("tagged sentences"))
    _add_classifier_options(parser.add_argument_group("classifiers"))
    _add_cache_options(parser.add_argument_group("cache of layers"))
    add_precision(parser)
    add_vectors(parser)
    add_report_options(parser)


def _add_input_options(group: Any) -> None:
    group.add_argument(
        "--input-format",
        choices=("conll", "conllu"),
        help="format of all files (default: conllu for *.conllu, else conll)",
    )
    add_token_column(group)
    group.add_argument(
        "--tag-column",
        **at_least_1(),
        help="column of the tags, from 1 (default: the last, or 4 of .conllu: UPOS; 5 is XPOS)",
    )


def _add_classifier_options(group: Any) -> None:
    group.add_argument("--max-iterations", **at_least_1(200), help="limit of L-BFGS iterations")
    group.add_argument(
        "--max-train-tokens",
        **at_least_1(500_000),
        help="size of the sample that replaces larger training data, in tokens",
    )
    group.add_argument("--seed", **at_least_0(0), help="seed of the sample")


def _add_cache_options(group: Any) -> None:
    choice = group.add_mutually_exclusive_group()
    choice.add_argument(
        "--cache",
        metavar="DIR",
        help="cache directory (default: elmo_tf/layers in $XDG_CACHE_HOME or ~/.cache)",
    )
    add_flag(choice, "--no-cache", "do not cache layers")
    group.add_argument(
        "--cache-gb",
        type=positive_float,
        default=20.0,
        metavar="GIB",
        help="size limit of the cache, in GiB",
    )


def _probe(arguments: Any) -> None:
    check_report_options(arguments)
    from elmo_tf.embedding import Embedder
    from elmo_tf.embedding.layer_cache import LayerCache
    from elmo_tf.evaluation.probing import probe
    from elmo_tf.extras import require_extra
    from elmo_tf.tasks.data.tagged_sentences import read_tagged_files

    require_extra("sklearn", "analysis", "A probe")
    cache = LayerCache(
        arguments.cache, 0 if arguments.no_cache else int(arguments.cache_gb * 2**30)
    )
    columns = [getattr(arguments, name) for name in _COLUMNS]
    limits = {name: getattr(arguments, name) for name in _LIMITS}
    train, test = (
        read_tagged_files(files, *columns) for files in (arguments.train, arguments.test)
    )
    vectors = named_vectors(arguments)
    embedder = Embedder(arguments.model, "all", arguments.precision)
    found = probe(embedder, train, test, cache, **limits)
    others = {name: probe(source, train, test, cache, **limits) for name, source in vectors.items()}
    names = ("model", "precision", "train", "test", *_COLUMNS, *_LIMITS)
    settings = {name: getattr(arguments, name) for name in names}
    settings["precision"] = embedder.precision
    content = {**settings, **found.to_json()}
    if others:
        content["vectors"] = {name: other.to_json() for name, other in others.items()}
    report(arguments, content, lambda: _markdown(found, others))


def _markdown(found: Any, others: Mapping[str, Any]) -> str:
    rows = [["most frequent tag", *_percents(found.baseline), None]]
    for name, one in {"": found, **others}.items():
        for result in one.layers:
            iterations = f"{result.iterations}{'' if result.converged else ', not converged'}"
            layer = f"{name} layer {result.layer}".strip()
            rows.append([layer, *_percents(result.accuracy), iterations])
    table = markdown_table(["accuracy (%)", "all", "known", "unknown", "iterations"], rows)
    return (
        f"{table}\n\nTrained on {found.train_tokens:,} tokens of {found.train_sentences:,} "
        f"sentences with {found.tags} tags, tested on {found.test_tokens:,} tokens of "
        f"{found.test_sentences:,} sentences: {found.test_unknown:,} of them unknown, "
        f"{found.test_unseen_tags:,} with a tag that the training data lack."
    )


def _percents(accuracy: Any) -> list[str | None]:
    return [percent(share) for share in (accuracy.all, accuracy.known, accuracy.unknown)]
