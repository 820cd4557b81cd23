"""The subcommand `senses`: sense-annotated text ─► F1 of word sense disambiguation by layer."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from elmo_tf.commands.options import (
    PRINTED,
    BatchTokens,
    Model,
    NamedVectors,
    Precision,
    Report,
    markdown_table,
    named_vectors,
    percent,
)

# Patterns of the files that this subcommand writes; files of gold keys do not match them.
_KEY_FILES = tuple(f"*.{method}.key.txt" for method in ("first_sense", "most_frequent", "layer_*"))


def senses(
    model: Model,
    /,
    *,
    train: tuple[str, ...],
    test: tuple[str, ...],
    inventory: str,
    precision: Precision = "float32",
    batch_tokens: BatchTokens = 4096,
    vectors: NamedVectors = (),
    predictions: str | None = None,
    report: Report = PRINTED,
) -> None:
    """Measure word sense disambiguation by the vectors of each layer (F1).

    A word gets the sense whose mean vector in the training text is nearest. A lemma that the
    training text lacks gets its first sense in the inventory.

    Args:
        train: sense-annotated text to train on, X.data.xml; the gold keys are in X.gold.key.txt
            beside it.
        test: annotated text to test on.
        inventory: tab-separated lines of lemma, part of speech (n, v, a, r) and sense key, the
            senses of a lemma in order of their numbers; .gz is decompressed.
        predictions: directory; write the predicted sense keys to SET.METHOD.key.txt there.
    """
    report.check()
    from elmo_tf.checkpoints.load import load_config
    from elmo_tf.embedding import Embedder
    from elmo_tf.evaluation import SenseCorpus, SenseInventory
    from elmo_tf.evaluation.senses import SenseTexts
    from elmo_tf.files import refuse_directory

    if predictions is not None:
        refuse_directory(predictions, report.overwrite, _KEY_FILES)
    load_config(model)
    sources = named_vectors(vectors)
    senses_of_lemmas = SenseInventory(inventory)
    corpora = ([SenseCorpus(path) for path in paths] for paths in (train, test))
    texts = SenseTexts(*corpora, 0.0)
    for source in sources.values():
        source.check(texts.embedded())
    embedder = Embedder(model, "all", precision, batch_tokens)
    results = {
        name: texts.evaluate(source, senses_of_lemmas)
        for name, source in {"": embedder, **sources}.items()
    }
    content = {"model": model, "precision": embedder.precision, "train": train, "test": test}
    content |= {"inventory": inventory, **results[""].to_json()}
    if sources:
        content["vectors"] = {name: results[name].to_json() for name in sources}
    if predictions is not None:
        _write_predictions(results[""], Path(predictions), report.overwrite)
    titled = [(f"{name}:\n" if name else "", result) for name, result in results.items()]
    markdown = (title + "\n".join(_lines(result)) for title, result in titled)
    report.write(content, lambda: "\n\n".join(markdown))


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
