"""docs/measurements/*.json ─► the tables of the pages that report them.

A page has a block for each table, between `<!-- NAME -->` and `<!-- end of NAME -->`.
"""

import json
import re
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from korean_page import KOREAN_BLOCKS
from studies import INPUTS, STUDIES, WITH_ELMO, measured, scores_of
from tables import accuracies, spread, table

_ROOT = Path(__file__).parents[1]
PAGES = (
    "docs/results.md",
    "docs/guides/which_vectors.md",
    "saved_models/small_en/README.md",
    "saved_models/small_ko/README.md",
)
_METRICS = {
    "f1": "F1",
    "em": "EM",
    "muc": "MUC",
    "b_cubed": "B³",
    "ceaf_e": "CEAF-φ4",
    "end_to_end": "end-to-end F1",
    "predicates": "F1 of predicates",
    "without singletons": "average without singletons",
}
_TEXTS = {
    "wikipedia": "Wikipedia, `valid`",
    "wikitext2": "WikiText-2, validation, as published",
    "wikitext2_sentences": "the same, one sentence per line, `1 @,@ 000` joined",
    "ewt_pos": "web pages and mail, EWT development set",
    "sst": "film reviews, SST development set",
    "snli": "captions, SNLI development set",
    "squad": "passages and questions, SQuAD development set",
    "litbank": "novels, LitBank development set",
}


def write_pages() -> None:
    """Replaces the blocks of all pages."""
    for name in PAGES:
        page = _ROOT / name
        page.write_text(filled(page.read_text("utf-8")), encoding="utf-8")


def filled(text: str) -> str:
    """A page with the current contents of its blocks."""
    return re.sub(
        r"(<!-- (\w+) -->\n).*?(\n<!-- end of \2 -->)",
        lambda found: f"{found[1]}\n{BLOCKS[found[2]]()}\n{found[3]}",
        text,
        flags=re.DOTALL,
    )


def _compared(*inputs: Sequence[float], digits: int = 1) -> Iterator[str]:
    """The scores with each input; the highest, if there are several, in bold."""
    best = max(inputs, key=lambda scores: statistics.fmean(scores or [0]))
    for scores in inputs:
        text = spread(scores, digits)
        yield f"**{text}**" if scores is best and sum(map(bool, inputs)) > 1 else text


def _reduction(without: Sequence[float], with_elmo: Sequence[float]) -> str:
    """The relative error reduction."""
    if not without or not with_elmo:
        return ""
    error = 100 - statistics.fmean(without)
    return f"{100 * (statistics.fmean(with_elmo) - statistics.fmean(without)) / error:.1f} %"


def _tasks() -> str:
    rows = []
    inputs = [one for one in INPUTS if any(scores_of(name, one) for name in STUDIES)]
    for name, study in STUDIES.items():
        if not scores_of(name, WITH_ELMO):
            continue
        for metric in study.metrics:
            is_first = metric == study.metrics[0]
            scores = [scores_of(name, one, metric=metric) for one in inputs]
            digits = 2 if name == "ewt_pos" else 1
            rows.append(
                [
                    study.title if is_first else "",
                    _METRICS.get(metric, metric),
                    _control(name) if is_first else "",
                    *_compared(*scores, digits=digits),
                    _reduction(*scores[-2:]),
                    f"{study.paper:g} %" if is_first and study.paper else "",
                ]
            )
    head = ["task", "metric", "TF-IDF", *inputs, "relative error reduction", "in the paper"]
    return table(head, rows)


def _control(name: str) -> str:
    """The accuracy of TF-IDF with logistic regression, if it was measured."""
    controls = measured("tfidf")
    return f"{100 * controls[name]:.1f}" if name in controls else ""


def _tasks_with_few_words() -> str:
    rows = []
    for name, study in STUDIES.items():
        if scores_of(name, WITH_ELMO) or not scores_of(name, "with"):
            continue
        for metric in study.metrics:
            scores = [scores_of(name, one, metric=metric) for one in ("without", "with")]
            digits, is_first = 2 if name == "ewt_pos" else 1, metric == study.metrics[0]
            rows.append(
                [
                    study.title if is_first else "",
                    _METRICS.get(metric, metric),
                    _control(name) if is_first else "",
                    *_compared(*scores, digits=digits),
                    _reduction(*scores),
                ]
            )
    head = ["task", "metric", "TF-IDF", "without", "with small-en", "relative error reduction"]
    return table(head, rows)


def _ensembles() -> str:
    found = measured("ensembles")
    rows = []
    for name, scores in found.items():
        metric, members = STUDIES[name].metrics[0], scores["members"]
        cells = [
            spread([100 * score for score in members]),
            f"{100 * max(members):.1f}",
            f"{100 * scores['ensemble']:.1f}",
        ]
        rows.append([STUDIES[name].title, _METRICS.get(metric, metric), len(members), *cells])
    head = ["task", "metric", "members", "mean of the members", "best member", "ensemble"]
    return table(head, rows)


def _range(values: Iterable[float], digits: int = 0) -> str:
    """The smallest and the largest value, with a number of decimal places (see `round`)."""
    values = sorted(values)
    if not values:
        return ""
    first, last = (
        f"{round(value, digits):,.{max(digits, 0)}f}" for value in (values[0], values[-1])
    )
    return first if first == last else f"{first} to {last}"


def _shares() -> str:
    rows = []
    for share in [*STUDIES["srl"].shares, 1.0]:
        without, with_elmo = (scores_of("srl", variant, share) for variant in ("without", "with"))
        cells = [*_compared(without, with_elmo), _reduction(without, with_elmo)]
        rows.append([f"{100 * share:g} %", *cells])
    return table(["share", "without", "with small-en", "relative error reduction"], rows)


_ABLATED = {"squad": "SQuAD", "srl": "roles"}
# Of the paper: its Tables 2 and 3.
_PAPER_PLACEMENTS = {
    "input": (85.1, 88.9, 84.7),
    "both": (85.6, 89.5, 84.3),
    "output": (84.8, 88.7, 80.8),
}
_PAPER_MIXES = {
    "without": (80.8, 88.1, 81.6),
    "top": (84.7, 89.1, 84.1),
    "lambda 1": (85.0, 89.3, 84.6),
    "lambda 0.001": (85.2, 89.5, 84.8),
}
_MIX_NAMES = {
    "without": "no ELMo",
    "top": "top layer (`--mix top`)",
    "lambda 1": "all, λ = 1 (`--mix-l2 1`)",
    "lambda 0.001": "all, λ = 0.001 (default)",
}


def _ablated(study: str, variant: str) -> str:
    """The scores of a setting, which may be that of the main comparison."""
    usual = (STUDIES[study].settings.get("placement", "input"), "lambda 0.001")
    name = "with" if variant in usual else variant
    return spread(scores_of(study, name, STUDIES[study].ablation_share))


def _placements() -> str:
    rows = [
        [f"`{name}`", *(_ablated(study, name) for study in _ABLATED), *paper]
        for name, paper in _PAPER_PLACEMENTS.items()
    ]
    return table(["`--placement`", *_ABLATED.values(), *_PAPER_COLUMNS], rows)


_PAPER_COLUMNS = ("paper: SQuAD", "paper: SNLI", "paper: roles")


def _mixes() -> str:
    rows = []
    for name, title in _MIX_NAMES.items():
        scores = [_ablated(study, name) for study in _ABLATED]
        rows.append([title, *scores, *_PAPER_MIXES.get(name, ("", "", ""))])
    return table(["layers", *_ABLATED.values(), *_PAPER_COLUMNS], rows)


def _tuning() -> str:
    rows = []
    for name, found in measured("tuning").items():
        study = STUDIES[name]
        before, after = (found[when]["average"] for when in ("before", "after"))
        scores = [scores_of(name, variant, study.tuned) for variant in ("without", "with", "tuned")]
        rows.append(
            [study.title, f"{100 * study.tuned:g} %", f"{before:.1f}", f"{after:.1f}"]
            + [spread(found[: len(scores[2])]) for found in scores]
        )
    head = ["task", "share", "perplexity of small-en", "after fine-tuning", "score without ELMo"]
    return table([*head, "with small-en", "with the fine-tuned model"], rows)


def _mix() -> str:
    found = measured("mix")
    rows = [[one["text"], one["license"], f"{one['weight']:g}", one["tokens"]] for one in found]
    rows.append(["total", "", "", sum(one["tokens"] for one in found)])
    return table(["text", "license", "weight", "tokens"], rows)


def _perplexity() -> str:
    names = ("tokens", "forward", "backward", "average")
    rows = [
        [
            _TEXTS[text],
            *(one if name == "tokens" else f"{one:.1f}" for name in names for one in [found[name]]),
        ]
        for text, found in measured("perplexity").items()
    ]
    return table(["held-out text", *names], rows)


def _probe() -> str:
    found = {tags: measured(f"probe_{tags}") for tags in ("upos", "xpos")}
    parts = ("all", "known", "unknown")
    rows = [["most frequent tag", *accuracies([found[tags]["baseline"] for tags in found], parts)]]
    for number in range(len(found["upos"]["layers"])):
        layers = [found[tags]["layers"][number]["accuracy"] for tags in found]
        rows.append([f"layer {number}", *accuracies(layers, parts)])
    head = [f"{tags.upper()}, {part}" for tags in found for part in parts]
    return table(["accuracy (%)", *head], rows)


def _senses() -> str:
    found = measured("senses")
    titles = {"noun": "nouns", "verb": "verbs", "all": "all"}
    rows = [
        [method.replace("_", " "), *(f"{100 * scores[part]:.1f}" for part in titles)]
        for method, scores in found["f1"].items()
    ]
    head = [f"{title} ({found['instances'][part]:,})" for part, title in titles.items()]
    return table(["F1 (%)", *head], rows)


def _speed() -> str:
    found = measured("speed")
    seconds = found["seconds"]
    rows = [["a file with one sentence, seconds", _range(seconds["start"], 1), ""]]
    speeds = [
        _range((found["tokens"] / one for one in seconds[name]), -2)
        for name in ("float32", "bfloat16")
    ]
    text = f"`valid` ({found['tokens']:,} tokens) into HDF5, all layers, tokens per second"
    rows.append([text, *speeds])
    return table(["`elmo-tf embed`, start included", "float32", "`--precision bfloat16`"], rows)


def _training() -> str:
    record = json.loads((_ROOT / "saved_models/small_en/training.json").read_text("utf-8"))
    settings = record["settings"]
    tokens = settings["batch_size"] * settings["unroll"]
    rows = [
        [one["step"], f"{one['step'] * tokens / 1e6:.1f} M"]
        + [f"{one[name]:.1f}" for name in ("forward", "backward", "average")]
        for one in record["perplexity"]
    ]
    return table(["step", "tokens", "forward", "backward", "average"], rows)


def _which_vectors() -> str:
    found = measured("which_vectors")
    rows = []
    for one in found:
        speed = round(statistics.median(one["tokens_per_second"]), -2)
        sizes = [f"{one['parameters'] / 1e6:.1f} M", f"{one['bytes'] / 1e6:.0f}"]
        times = [f"{speed:,.0f}", f"{1000 * one['single_seconds']:.2f}"]
        scores = [_best(one[name]) for name in ("probe", "senses", "wnut17", "srl", "sst")]
        rows.append([one["vectors"], *sizes, *times, *scores])
    head = ["vectors", "parameters", "MB", "tokens/s", "ms per sentence", "parts of speech"]
    return table([*head, "senses", "named entities", "semantic roles", "SST-5"], rows)


def _best(scores: Sequence[float]) -> str:
    """The best score in percent, and its layer if there are several."""
    layer = f" (layer {scores.index(max(scores))})" if len(scores) > 1 else ""
    return f"{100 * max(scores):.1f}{layer}"


def _sentence_vectors() -> str:
    found = measured("sentence_vectors")
    methods = next(iter(found.values()))
    rows = [[one, *(f"{100 * scores[one]:.1f}" for scores in found.values())] for one in methods]
    return table(["sentence vectors", *found], rows)


BLOCKS: dict[str, Callable[[], str]] = {
    "tasks": _tasks,
    "tasks_with_few_words": _tasks_with_few_words,
    "ensembles": _ensembles,
    "shares": _shares,
    "placements": _placements,
    "mixes": _mixes,
    "tuning": _tuning,
    "mix": _mix,
    "perplexity": _perplexity,
    "probe": _probe,
    "senses": _senses,
    "speed": _speed,
    "training": _training,
    "which_vectors": _which_vectors,
    "sentence_vectors": _sentence_vectors,
    **KOREAN_BLOCKS,
}
