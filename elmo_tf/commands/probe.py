"""The subcommand `probe`: tagged sentences ─► accuracy of a linear classifier on each layer."""

from collections.abc import Mapping
from typing import Any, Literal

from elmo_tf.commands.options import (
    Model,
    NamedVectors,
    Precision,
    ReportOptions,
    TokenColumn,
    markdown_table,
    named_vectors,
    percent,
    subcommand,
)
from elmo_tf.settings import Count, Natural, Texts, checked_dataclass, setting

_COLUMNS = ("input_format", "token_column", "tag_column")
_LIMITS = ("max_iterations", "max_train_tokens", "seed")
_FILES = "as CoNLL columns or CoNLL-U; .gz is decompressed"


@checked_dataclass(kw_only=True)
class _ProbeOptions(ReportOptions):
    model: Model
    train: Texts = setting(help=f"tagged sentences to train on, {_FILES}")
    test: Texts = setting(help=f"tagged sentences to test on, {_FILES}")
    precision: Precision = "float32"
    vectors: NamedVectors = ()
    input_format: Literal["conll", "conllu"] | None = setting(
        None,
        "format of all files",
        group="tagged sentences",
        default_help="conllu for *.conllu, else conll",
    )
    token_column: TokenColumn = None
    tag_column: Count | None = setting(
        None,
        "column of the tags, from 1",
        default_help="the last, or 4 of .conllu: UPOS; 5 is XPOS",
    )
    max_iterations: Count = setting(200, "limit of L-BFGS iterations", group="classifiers")
    max_train_tokens: Count = setting(
        500_000, "size of the sample that replaces larger training data, in tokens"
    )
    seed: Natural = setting(0, "seed of the sample")


@subcommand("elmo-tf probe small-en --train train.conllu --test dev.conllu")
def probe(options: _ProbeOptions) -> None:
    """Measure how well a linear classifier predicts tags from each layer."""
    options.check_report()
    from elmo_tf.checkpoints.load import load_config
    from elmo_tf.evaluation.probing import check_tags, probe, sampled
    from elmo_tf.extras import require_extra
    from elmo_tf.tasks.tagging.reader import read_tagged_files

    require_extra("sklearn", "analysis", "A probe")
    load_config(options.model)
    vectors = named_vectors(options.vectors)
    columns = [getattr(options, name) for name in _COLUMNS]
    limits = {name: getattr(options, name) for name in _LIMITS}
    train, test = (read_tagged_files(files, *columns) for files in (options.train, options.test))
    train = sampled(train, options.max_train_tokens, options.seed)
    check_tags(train, test)
    results, content = options.measure(
        *(vectors, lambda: (one.tokens for one in (*train, *test))),
        lambda source: probe(source, train, test, **limits),
        ("model", "precision", "train", "test", *_COLUMNS, *_LIMITS),
    )
    options.report(content, lambda: _markdown(results))


def _markdown(results: Mapping[str, Any]) -> str:
    of_model = results[""]
    rows = [["most frequent tag", *_percents(of_model.baseline), None]]
    for name, result in results.items():
        for layer in result.layers:
            iterations = f"{layer.iterations}{'' if layer.converged else ', not converged'}"
            title = f"{name} layer {layer.layer}".strip()
            rows.append([title, *_percents(layer.accuracy), iterations])
    table = markdown_table(["accuracy (%)", "all", "known", "unknown", "iterations"], rows)
    return (
        f"{table}\n\nTrained on {of_model.train_tokens:,} tokens of {of_model.train_sentences:,} "
        f"sentences with {of_model.tags} tags, tested on {of_model.test_tokens:,} tokens of "
        f"{of_model.test_sentences:,} sentences: {of_model.test_unknown:,} of them unknown, "
        f"{of_model.test_unseen_tags:,} with a tag that the training data lack."
    )


def _percents(accuracy: Any) -> list[str | None]:
    return [percent(share) for share in (accuracy.all, accuracy.known, accuracy.unknown)]
