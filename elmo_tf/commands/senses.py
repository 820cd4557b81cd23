"""The subcommand `senses`: checkpoint + text with senses ─► how well each layer tells senses."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from elmo_tf.commands.options import add_model, add_precision, positive, rate
from elmo_tf.commands.reports import (
    add_report_options,
    check_report_options,
    markdown_table,
    percent,
    report,
)

# What is written, and no gold keys.
_KEY_FILES = tuple(f"*.{method}.key.txt" for method in ("first_sense", "most_frequent", "layer_*"))


def add_command(add: Callable) -> None:
    """`elmo-tf senses`."""
    parser = add(
        "senses",
        _senses,
        "disambiguate words by the nearest mean vector of a sense, layer by layer, and print how "
        "often that is right (F1)",
        "elmo-tf senses small-en --train semcor.data.xml --test semeval2007.data.xml "
        "--inventory senses.tsv",
    )
    parser.set_defaults(refuse_call=parser.error)
    add_model(parser)
    parser.add_argument(
        "--train",
        nargs="+",
        required=True,
        metavar="X.data.xml",
        help="text with senses to learn from; the gold keys are X.gold.key.txt beside it",
    )
    parser.add_argument(
        "--test", nargs="+", default=[], metavar="Y.data.xml", help="the same, to test on"
    )
    parser.add_argument(
        "--inventory",
        required=True,
        metavar="FILE",
        help="lines of lemma, part of speech (n, v, a, r) and sense key, between tabs, the senses "
        "of a lemma by their numbers; .gz is unpacked",
    )
    parser.add_argument(
        "--held-out",
        type=rate,
        default=0.0,
        metavar="SHARE",
        help="test on the last texts of --train too, with this share of its instances, and do not "
        "learn from them (0)",
    )
    add_precision(parser)
    parser.add_argument(
        "--batch-tokens", type=positive, default=4096, metavar="N", help="in a batch (4096)"
    )
    add_report_options(parser)
    parser.add_argument(
        "--predictions",
        metavar="DIR",
        help="write the answers there, as lines of id and sense key: SET.METHOD.key.txt "
        "(--overwrite replaces them too)",
    )


def _senses(arguments: Any) -> None:
    from elmo_tf.embedding import Embedder
    from elmo_tf.evaluation.senses import SenseCorpus, SenseInventory, evaluate_senses
    from elmo_tf.files import refuse_directory
    from elmo_tf.threads import share_cores_for_embedding

    if not arguments.test and not arguments.held_out:
        arguments.refuse_call(
            "name a test set (--test), or hold out a share of the training text (--held-out)"
        )
    check_report_options(arguments)
    if arguments.predictions is not None:
        refuse_directory(arguments.predictions, arguments.overwrite, _KEY_FILES)
    share_cores_for_embedding()
    train, tests = (
        [SenseCorpus(path) for path in paths] for paths in (arguments.train, arguments.test)
    )
    inventory = SenseInventory(arguments.inventory)
    embedder = Embedder(arguments.model, "all", arguments.precision, arguments.batch_tokens)
    found = evaluate_senses(embedder, train, tests, inventory, arguments.held_out)
    if arguments.predictions is not None:
        _write_predictions(found, Path(arguments.predictions), arguments.overwrite)
    settings = {
        "model": arguments.model,
        "precision": embedder.precision,
        "train": arguments.train,
        "test": arguments.test,
        "inventory": arguments.inventory,
        "held_out": arguments.held_out,
    }
    report(arguments, {**settings, **found.to_json()}, lambda: _markdown(found))


def _write_predictions(found: Any, directory: Path, overwrite: bool) -> None:
    from elmo_tf.evaluation.senses.sense_corpus import write_keys
    from elmo_tf.files import atomic_directory

    with atomic_directory(directory, overwrite, _KEY_FILES) as part:
        for results in found.results:
            for method, answers in results.answers.items():
                write_keys(part / f"{results.name}.{method}.key.txt", answers)


def _markdown(found: Any) -> str:
    return "\n".join(_lines(found))


def _lines(found: Any) -> Iterator[str]:
    yield f"Learnt from {found.num_occurrences:,} instances in {found.num_sentences:,} sentences."
    for results in found.results:
        counts = results.to_json()
        yield from (
            "",
            f"## {results.name}",
            "",
            f"F1 of {counts['instances']:,} instances. The lemmas of {counts['fell_back']:,} have "
            "no sense in training: they get the first sense of the inventory, and "
            f"{counts['unanswered']:,} no answer.",
            "",
            _table(results.scores),
        )
        if 0 < counts["fell_back"] < counts["instances"]:
            yield from ("", "The others alone:", "", _table(results.trained_scores))
    together = found.together()
    if together:
        yield from ("", "## All test sets together", "", _table(together))


def _table(scores: Mapping[str, Mapping[str, Any]]) -> str:
    parts = list(next(iter(scores.values())))
    rows = [
        [
            method.replace("_", " "),
            *(percent(of[part].f1 if of[part].occurrences else None) for part in parts),
        ]
        for method, of in scores.items()
    ]
    return markdown_table(["method", *parts], rows)
