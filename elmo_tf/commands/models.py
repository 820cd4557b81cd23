"""The subcommand `models`: the models that have a name, and which of them are on this machine."""

from collections.abc import Iterable

from elmo_tf.checkpoints.named_models import (
    LANGUAGES,
    MODELS,
    REPOSITORY,
    NamedModel,
    cache_folder,
    find_named_model,
)
from elmo_tf.commands.options import ResultFormat, markdown_table, print_results

_FACTS = ("name", "text", "output_dim", "million_parameters", "license", "source", "addresses")
# Names with a part that varies, by what they begin with.
_FAMILIES = {
    "manylangs-": ["manylangs-XX", f"{len(LANGUAGES)} languages", "1,024", "unknown"],
    "nlpl-": ["nlpl-N", "depends on N", "depends on N", "unknown"],
}


def models(*, format: ResultFormat = None) -> None:
    """List the named models and which of them are downloaded."""
    cache = cache_folder("")
    present = map(find_named_model, sorted(path.name for path in cache.glob("nlpl-*")))
    known = {**MODELS, **{model.name: model for model in present if model is not None}}.values()
    sizes = {model.name: sum(file.stat().st_size for file in model.files) for model in known}
    content = [
        {**{name: getattr(model, name) for name in _FACTS}, "bytes": sizes[model.name]}
        for model in known
    ]
    layers = cache_folder("layers")
    stored = {"folder": str(layers), "bytes": sum(f.stat().st_size for f in layers.glob("*"))}
    footer = (
        f"Cache: {cache}\nLayers for task training and probes, which may be deleted: {layers} "
        f"({stored['bytes'] / 1e6:,.1f} MB)"
    )
    results = {"cache": str(cache), "layers": stored, "models": content}
    print_results(results, lambda: _listing(known, sizes, footer), format)


def _listing(known: Iterable[NamedModel], sizes: dict[str, int], footer: str) -> str:
    headers = ["name", "text", "vector", "license", "on disk"]
    rows = []
    on_disk: dict[str, list[str]] = {family: [] for family in _FAMILIES}
    for model in known:
        size = f"{sizes[model.name] / 1e6:,.1f} MB" if sizes[model.name] else "-"
        family = next((family for family in _FAMILIES if model.name.startswith(family)), None)
        if family is None:
            width = f"{model.output_dim:,}" if model.output_dim else "unknown"
            place = "included" if model.is_built_in else size
            rows.append([model.name, model.text, width, model.license or "unknown", place])
        elif sizes[model.name]:
            on_disk[family].append(f"{model.name} {size}")
    rows += [[*facts, ", ".join(on_disk[family]) or "-"] for family, facts in _FAMILIES.items()]
    table = markdown_table(headers, rows, text_columns=len(headers))
    languages = f"XX: {' '.join(LANGUAGES)}"
    return f"{table}\n\n{languages}\nN: a number of {REPOSITORY}\n{footer}"
