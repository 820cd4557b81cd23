"""docs/measurements/korean.json ─► the tables of saved_models/small_ko/README.md."""

import functools
from collections.abc import Callable
from typing import Any

from studies import measured
from tables import accuracies, in_context, spread, table

_REVIEW_ROWS = {"without": "task model without small-ko", "with": "task model with small-ko"}


def _block(name: str, content: Callable[[Any], str]) -> str:
    """The content for a part of the measurements, if it was measured."""
    found = measured("korean").get(name)
    return "Not measured yet." if found is None else content(found)


def _perplexity(found: dict[str, Any]) -> str:
    names = ("forward", "backward", "average")
    rows = [
        [text, one["tokens"], *(f"{one[name]:.1f}" for name in names)]
        for text, one in found.items()
    ]
    return table(["held-out text", "tokens", *names], rows)


def _probes(probes: dict[str, Any]) -> str:
    parts = ("all", "known", "unknown")
    rows = [["most frequent tag", *accuracies([one["baseline"] for one in probes.values()], parts)]]
    for layers in zip(*(one["layers"] for one in probes.values()), strict=True):
        scores = accuracies([layer["accuracy"] for layer in layers], parts)
        rows.append([f"layer {layers[0]['layer']}", *scores])
    return table(["accuracy (%)", *(f"{name}, {part}" for name in probes for part in parts)], rows)


def _reviews(found: dict[str, dict[str, Any]]) -> str:
    rows = []
    for name in next(iter(found.values())):
        scores = [one[name] for one in found.values()]
        cells = [one if isinstance(one, list) else [one] for one in scores]
        rows.append([_REVIEW_ROWS.get(name, name), *(spread([100 * x for x in c]) for c in cells)])
    return table(["accuracy (%)", *(f"{size} reviews" for size in found)], rows)


def _neighbors(occurrences: list[dict[str, Any]]) -> str:
    rows = []
    for occurrence in occurrences:
        (nearest,) = occurrence["neighbors"].values()
        for number, near in enumerate(nearest):
            use = "" if number else in_context(occurrence)
            rows.append([use, in_context(near), f"{near['similarity']:.2f}"])
    return table(["use", "nearest uses", "cosine"], rows)


KOREAN_BLOCKS: dict[str, Callable[[], str]] = {
    "perplexity_ko": functools.partial(_block, "perplexity", _perplexity),
    "probe_ko": functools.partial(_block, "probes", _probes),
    "reviews_ko": functools.partial(_block, "reviews", _reviews),
    "neighbors_ko": functools.partial(_block, "neighbors", _neighbors),
}
