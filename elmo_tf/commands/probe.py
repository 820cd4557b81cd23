"""The subcommand `probe`: model + tagged sentences ─► what each layer knows of the tags."""

from collections.abc import Callable
from typing import Any

from elmo_tf.commands.options import add_model, add_precision, natural, positive, positive_float
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
    """`elmo-tf probe`."""
    parser = add(
        "probe",
        _probe,
        "measure how well a linear classifier tells tags by the frozen vectors of each layer",
        "elmo-tf probe small-en --train train.conllu --test dev.conllu",
    )
    add_model(parser)
    for name, purpose in (("train", "to fit the classifiers on"), ("test", "to measure them on")):
        parser.add_argument(
            f"--{name}",
            nargs="+",
            required=True,
            metavar="FILE",
            help=f"tagged sentences {purpose}, in CoNLL columns or CoNLL-U; .gz too",
        )
    _add_input_options(parser.add_argument_group("the tagged sentences"))
    _add_classifier_options(parser.add_argument_group("the classifiers"))
    _add_cache_options(parser.add_argument_group("the cache of the layers"))
    add_precision(parser)
    add_report_options(parser)


def _add_input_options(group: Any) -> None:
    group.add_argument(
        "--input-format",
        choices=("conll", "conllu"),
        help="of all files (conllu for the names *.conllu, else conll)",
    )
    group.add_argument(
        "--token-column", type=positive, metavar="N", help="from 1 (1, or 2 of conllu)"
    )
    group.add_argument(
        "--tag-column",
        type=positive,
        metavar="N",
        help="from 1 (the last; of conllu 4, UPOS; 5 is XPOS)",
    )


def _add_classifier_options(group: Any) -> None:
    group.add_argument(
        "--max-iterations", type=positive, default=200, metavar="N", help="of L-BFGS (200)"
    )
    group.add_argument(
        "--max-train-tokens",
        type=positive,
        default=500_000,
        metavar="N",
        help="draw so many of larger training data, in whole sentences; in memory, each takes "
        "4 bytes for each feature of a layer (500,000)",
    )
    group.add_argument("--seed", type=natural, default=0, metavar="N", help="of the drawing (0)")


def _add_cache_options(group: Any) -> None:
    choice = group.add_mutually_exclusive_group()
    choice.add_argument(
        "--cache",
        metavar="DIR",
        help="where layers are kept once they are computed ($XDG_CACHE_HOME/elmo_tf/layers, or "
        "~/.cache/elmo_tf/layers)",
    )
    choice.add_argument("--no-cache", action="store_true", help="keep none")
    group.add_argument(
        "--cache-gb",
        type=positive_float,
        default=20.0,
        metavar="N",
        help="that the folder may hold, in GiB; what was not used for the longest time is removed "
        "first (20)",
    )


def _probe(arguments: Any) -> None:
    check_report_options(arguments)
    from elmo_tf.embedding import Embedder
    from elmo_tf.embedding.layer_cache import LayerCache
    from elmo_tf.evaluation.probing import probe
    from elmo_tf.extras import require_extra
    from elmo_tf.tasks.data.tagged_sentences import read_tagged_files
    from elmo_tf.threads import share_cores_for_embedding

    require_extra("sklearn", "analysis", "A probe")
    share_cores_for_embedding()
    cache = LayerCache(
        arguments.cache, 0 if arguments.no_cache else int(arguments.cache_gb * 2**30)
    )
    columns = {name: getattr(arguments, name) for name in _COLUMNS}
    limits = {name: getattr(arguments, name) for name in _LIMITS}
    train, test = (
        read_tagged_files(files, *columns.values()) for files in (arguments.train, arguments.test)
    )
    embedder = Embedder(arguments.model, "all", arguments.precision)
    found = probe(embedder, train, test, cache, **limits)
    settings = {
        "model": arguments.model,
        "precision": embedder.precision,
        "train": arguments.train,
        "test": arguments.test,
        **columns,
        **limits,
    }
    report(arguments, {**settings, **found.to_json()}, lambda: _markdown(found))


def _markdown(found: Any) -> str:
    rows = [["most frequent tag", *_percents(found.baseline), None]]
    for one in found.layers:
        iterations = f"{one.iterations}{'' if one.converged else ', not converged'}"
        rows.append([f"layer {one.layer}", *_percents(one.accuracy), iterations])
    table = markdown_table(["accuracy (%)", "all", "known", "unknown", "iterations"], rows)
    return (
        f"{table}\n\nTrained on {found.train_tokens:,} tokens of {found.train_sentences:,} "
        f"sentences with {found.tags} tags, tested on {found.test_tokens:,} tokens of "
        f"{found.test_sentences:,} sentences: {found.test_unknown:,} of them unknown, "
        f"{found.test_unseen_tags:,} with a tag that was not trained."
    )


def _percents(accuracy: Any) -> list[str | None]:
    return [percent(share) for share in (accuracy.all, accuracy.known, accuracy.unknown)]
