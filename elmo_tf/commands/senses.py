"""The subcommand `senses`: sense-annotated text ─► F1 of word sense disambiguation by layer."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from elmo_tf.commands.options import (
    BatchTokens,
    Model,
    NamedVectors,
    Precision,
    named_vectors,
    subcommand,
)
from elmo_tf.commands.reports import ReportOptions, markdown_table, percent
from elmo_tf.settings import Rate, Texts, checked_dataclass, setting

_SETTINGS = ("model", "precision", "train", "test", "inventory", "held_out")
# Patterns of the files that this subcommand writes; files of gold keys do not match them.
_KEY_FILES = tuple(f"*.{method}.key.txt" for method in ("first_sense", "most_frequent", "layer_*"))


@checked_dataclass(kw_only=True)
class _SensesOptions(ReportOptions):
    model: Model
    train: Texts = setting(
        metavar="X.data.xml",
        help="sense-annotated text to train on; the gold keys are in X.gold.key.txt beside it",
    )
    test: Texts = setting((), "annotated text to test on", metavar="Y.data.xml")
    inventory: str = setting(
        help="tab-separated lines of lemma, part of speech (n, v, a, r) and sense key, the senses "
        "of a lemma in order of their numbers; .gz is decompressed"
    )
    held_out: Rate = setting(
        0.0, "also hold out this share of --train (its last texts) to test on; from 0 to below 1"
    )
    precision: Precision = "float32"
    batch_tokens: BatchTokens = 4096
    vectors: NamedVectors = ()
    predictions: str | None = setting(
        None, "write the predicted sense keys to DIR/SET.METHOD.key.txt", metavar="DIR"
    )

    def __post_init__(self):
        if not self.test and not self.held_out:
            raise ValueError(
                "name a test set (--test), or hold out a share of the training text (--held-out)"
            )


@subcommand(
    "elmo-tf senses small-en --train semcor.data.xml --test semeval2007.data.xml "
    "--inventory senses.tsv",
    epilog="A word gets the sense whose mean vector in the training text is nearest. A lemma that "
    "the training text lacks gets its first sense in the inventory.",
)
def senses(options: _SensesOptions) -> None:
    """Measure word sense disambiguation by the vectors of each layer (F1)."""
    from elmo_tf.embedding import Embedder
    from elmo_tf.evaluation import SenseCorpus, SenseInventory, evaluate_senses
    from elmo_tf.files import refuse_directory

    options.check_report()
    if options.predictions is not None:
        refuse_directory(options.predictions, options.overwrite, _KEY_FILES)
    train, tests = (
        [SenseCorpus(path) for path in paths] for paths in (options.train, options.test)
    )
    inventory = SenseInventory(options.inventory)
    vectors = named_vectors(options.vectors)
    embedder = Embedder(options.model, "all", options.precision, options.batch_tokens)
    tested = evaluate_senses(embedder, train, tests, inventory, options.held_out)
    if options.predictions is not None:
        _write_predictions(tested, Path(options.predictions), options.overwrite)
    settings = {name: getattr(options, name) for name in _SETTINGS}
    settings["precision"] = embedder.precision
    content = {**settings, **tested.to_json()}
    others = {
        name: evaluate_senses(source, train, tests, inventory, options.held_out)
        for name, source in vectors.items()
    }
    if others:
        content["vectors"] = {name: other.to_json() for name, other in others.items()}
    options.report(content, lambda: _markdown(tested, others))


def _write_predictions(tested: Any, directory: Path, overwrite: bool) -> None:
    from elmo_tf.evaluation.sense_corpus import write_keys
    from elmo_tf.files import atomic_directory

    with atomic_directory(directory, overwrite, _KEY_FILES) as part:
        for results in tested.results:
            for method, answers in results.answers.items():
                write_keys(part / f"{results.name}.{method}.key.txt", answers)


def _markdown(tested: Any, others: Mapping[str, Any]) -> str:
    parts = ["\n".join(_lines(tested))]
    parts += [f"{name}:\n" + "\n".join(_lines(other)) for name, other in others.items()]
    return "\n\n".join(parts)


def _lines(tested: Any) -> Iterator[str]:
    yield f"Trained on {tested.num_instances:,} instances in {tested.num_sentences:,} sentences."
    for results in tested.results:
        counts = results.to_json()
        yield from (
            "",
            f"## {results.name}",
            "",
            f"F1 of {counts['instances']:,} instances. The training text lacks the lemmas of "
            f"{counts['fell_back']:,}: they get the first sense of the inventory, or no answer "
            f"({counts['unanswered']:,}).",
            "",
            _table(results.scores),
        )
        if 0 < counts["fell_back"] < counts["instances"]:
            yield from ("", "Only lemmas of the training text:", "", _table(results.trained_scores))
    together = tested.together()
    if together:
        yield from ("", "## All test sets together", "", _table(together))


def _table(scores: Mapping[str, Mapping[str, Any]]) -> str:
    parts = list(next(iter(scores.values())))
    rows = [
        [
            method.replace("_", " "),
            *(percent(of[part].f1 if of[part].instances else None) for part in parts),
        ]
        for method, of in scores.items()
    ]
    return markdown_table(["method", *parts], rows)
