"""The subcommand `models`: the models that have a name, and which of them are on this machine."""

from collections.abc import Mapping
from typing import Any

from elmo_tf.checkpoints.named_models import (
    LANGUAGES,
    MODELS,
    REPOSITORY,
    cache_folder,
    find_named_model,
)
from elmo_tf.commands.options import ResultFormat, markdown_table, print_results

_FACTS = ("name", "text", "output_dim", "million_parameters", "license", "source", "addresses")
# Rows of names with a part that varies. Models of these names have rows if they are downloaded.
_FAMILIES = (
    ["manylangs-XX", f"{len(LANGUAGES)} languages", "1,024", "unknown", ""],
    ["nlpl-N", "depends on N", "depends on N", "unknown", ""],
)


def models(*, format: ResultFormat = None) -> None:
    """List the named models and which of them are downloaded."""
    cache, layers = cache_folder(""), cache_folder("layers")
    present = map(find_named_model, sorted(path.name for path in cache.glob("nlpl-*")))
    known = [*MODELS.values(), *(model for model in present if model is not None)]
    content = [
        {
            **{name: getattr(model, name) for name in _FACTS},
            "bytes": sum(file.stat().st_size for file in model.files),
        }
        for model in known
    ]
    stored = {"folder": str(layers), "bytes": sum(f.stat().st_size for f in layers.glob("*"))}
    results = {"cache": str(cache), "layers": stored, "models": content}
    print_results(results, lambda: _listing(results), format)


def _listing(results: Mapping[str, Any]) -> str:
    headers = ["name", "text", "vector", "license", "on disk"]
    rows = []
    for model in results["models"]:
        if model["name"].startswith(("manylangs-", "nlpl-")) and not model["bytes"]:
            continue
        width = f"{model['output_dim']:,}" if model["output_dim"] else "unknown"
        size = f"{model['bytes'] / 1e6:,.1f} MB" if model["bytes"] else "-"
        place = size if model["addresses"] else "included"
        rows.append([model["name"], model["text"], width, model["license"] or "unknown", place])
    rows += _FAMILIES
    stored = results["layers"]
    return (
        f"{markdown_table(headers, rows, text_columns=len(headers))}\n\n"
        f"XX: {' '.join(LANGUAGES)}\nN: a number of {REPOSITORY}\nCache: {results['cache']}\n"
        f"Layers for task training and probes, which may be deleted: {stored['folder']} "
        f"({stored['bytes'] / 1e6:,.1f} MB)"
    )
