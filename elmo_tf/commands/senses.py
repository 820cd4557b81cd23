"""The subcommand `senses`: sense-annotated text ─► F1 of word sense disambiguation by layer."""

from collections.abc import Mapping
from typing import Any

from elmo_tf.commands.options import (
    Model,
    NamedVectors,
    Overwrite,
    Precision,
    ResultFormat,
    WrongCallError,
    markdown_table,
    named_vectors,
    percent,
    print_results,
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
    vectors: NamedVectors = (),
    predictions: str | None = None,
    overwrite: Overwrite = False,
    format: ResultFormat = None,
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
    from elmo_tf.embedding.embedder import Embedder
    from elmo_tf.evaluation import senses as wsd
    from elmo_tf.files import atomic_directory, refuse_directory

    if predictions is not None:
        refuse_directory(predictions, overwrite, _KEY_FILES)
    names = [wsd.corpus_name(path) for path in test]
    if len(set(names)) < len(names):
        raise WrongCallError(f"two test sets have the same name: {' '.join(names)}")
    sources = named_vectors(vectors)
    senses_of_lemmas = wsd.read_inventory(inventory)
    training = [sentence for path in train for sentence in wsd.read_sense_corpus(path)]
    tests = {name: wsd.read_sense_corpus(path) for name, path in zip(names, test, strict=True)}
    texts = training, tests, senses_of_lemmas
    # Files first: they may lack a sentence, which is an error before the model is loaded.
    of_files = {name: wsd.evaluate_senses(source, *texts) for name, source in sources.items()}
    embedder = Embedder(model, "all", precision)
    results = {"": wsd.evaluate_senses(embedder, *texts), **of_files}
    answers = [result.pop("answers") for result in results.values()]
    if predictions is not None:
        with atomic_directory(predictions, overwrite, _KEY_FILES) as part:
            for name, methods in answers[0].items():
                for method, keys in methods.items():
                    wsd.write_keys(part / f"{name}.{method}.key.txt", keys)
    content = {"model": model, "precision": embedder.precision, "train": train, "test": test}
    content |= {"inventory": inventory, **results[""]}
    if of_files:
        content["vectors"] = of_files
    print_results(content, lambda: _markdown(results), format)


def _markdown(results: Mapping[str, Any]) -> str:
    """A table with a row per method and a column per test set and part of speech."""
    counts = results[""]["instances"]
    rows = [
        [f"{name} {method}".strip().replace("_", " "), *map(percent, scores.values())]
        for name, result in results.items()
        for method, scores in result["f1"].items()
    ]
    return markdown_table(["F1 (%)", *(f"{name} ({n:,})" for name, n in counts.items())], rows)
