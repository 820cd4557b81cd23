"""The subcommand `senses`: sense-annotated text ─► F1 of word sense disambiguation by layer."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from elmo_tf.commands.options import (
    BatchTokens,
    Model,
    NamedVectors,
    Precision,
    ReportOptions,
    markdown_table,
    named_vectors,
    percent,
    subcommand,
)
from elmo_tf.settings import Rate, Texts, checked_dataclass, setting

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
    options.check_report()
    from elmo_tf.checkpoints.load import load_config
    from elmo_tf.evaluation import SenseCorpus, SenseInventory
    from elmo_tf.evaluation.senses import SenseTexts
    from elmo_tf.files import refuse_directory

    if options.predictions is not None:
        refuse_directory(options.predictions, options.overwrite, _KEY_FILES)
    load_config(options.model)
    vectors = named_vectors(options.vectors)
    inventory = SenseInventory(options.inventory)
    corpora = ([SenseCorpus(path) for path in paths] for paths in (options.train, options.test))
    texts = SenseTexts(*corpora, options.held_out)
    results, content = options.measure(
        *(vectors, texts.embedded, lambda source: texts.evaluate(source, inventory)),
        ("model", "precision", "train", "test", "inventory", "held_out"),
        options.batch_tokens,
    )
    if options.predictions is not None:
        _write_predictions(results[""], Path(options.predictions), options.overwrite)
    titled = [(f"{name}:\n" if name else "", result) for name, result in results.items()]
    markdown = (title + "\n".join(_lines(result)) for title, result in titled)
    options.report(content, lambda: "\n\n".join(markdown))


def _write_predictions(report: Any, directory: Path, overwrite: bool) -> None:
    from elmo_tf.evaluation.sense_corpus import write_keys
    from elmo_tf.files import atomic_directory

    with atomic_directory(directory, overwrite, _KEY_FILES) as part:
        for results in report.results:
            for method, answers in results.answers.items():
                write_keys(part / f"{results.name}.{method}.key.txt", answers)


def _lines(report: Any) -> Iterator[str]:
    yield f"Trained on {report.num_instances:,} instances in {report.num_sentences:,} sentences."
    for results in report.results:
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
    together = report.together()
    if together:
        yield from ("", "## All test sets together", "", _table(together))


def _table(scores: Mapping[str, Mapping[str, Any]]) -> str:
    rows = [
        [name.replace("_", " "), *(percent(s.f1 if s.instances else None) for s in row.values())]
        for name, row in scores.items()
    ]
    return markdown_table(["method", *next(iter(scores.values()))], rows)
