"""The trainings of docs/results.md: their settings, seeds and variants."""

import json
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

MEASUREMENTS = Path(__file__).parents[1] / "docs" / "measurements"


# The inputs that are compared: 400,000 word vectors, the included model, and both, as in the paper.
# The other variants have the 5,050 word vectors of glove.txt; "without" has no ELMo.
_GLOVE = {"word_vectors": "glove.6B.50d.txt"}
INPUTS: dict[str, dict[str, Any]] = {
    "small-en": {"word_vectors": None},
    "GloVe": {**_GLOVE, "elmo": None, "placement": "input"},
    "GloVe + small-en": _GLOVE,
}
WITH_ELMO = "GloVe + small-en"


class Study(NamedTuple):
    """Trainings of one task with several inputs, and with other settings of ELMo.

    title: the task and its data.
    settings: of `TaskConfig`; files are relative to the folder of the data.
    metrics: the scores to report, the most important first.
    paper: relative error reduction in the paper, in percent, or None.
    inputs: the variants of the main comparison.
    without: settings that differ without ELMo.
    shares: of the training data, for the comparison with and without ELMo by share.
    ablations: settings of ELMo to compare, by name.
    ablation_share: of the training data, for the ablations.
    tuned: share of the training data for a biLM that is fine-tuned on the text, or None.
    """

    title: str
    settings: dict[str, Any]
    metrics: tuple[str, ...]
    paper: float | None = None
    inputs: Sequence[str] = tuple(INPUTS)
    without: Mapping[str, Any] = types.MappingProxyType({})
    shares: tuple[float, ...] = ()
    ablations: Mapping[str, dict[str, Any]] = types.MappingProxyType({})
    ablation_share: float = 1.0
    tuned: float | None = None


# Of the main comparison, and of all other variants.
SEEDS, OTHER_SEEDS = 3, 2
_INPUTS = {"word_vectors": "glove.txt", "lowercase": True, "elmo": "small-en"}
_MIXES = {"lambda 1": {"mix_l2": 1}, "top": {"mix": "top"}}
_PLACEMENTS = {name: {"placement": name} for name in ("input", "both", "output")}
_SST = {
    "task": "sst",
    "train": ["sst/train.txt"],
    "dev": ["sst/dev.txt"],
    **_INPUTS,
    "units": 150,
    "dropout": 0.5,
    "ema": 0.995,
}

STUDIES = {
    "wnut17": Study(
        "named entities, WNUT17",
        {
            "task": "ner",
            "train": ["ner/wnut17/train.conll"],
            "dev": ["ner/wnut17/dev.conll"],
            **_INPUTS,
            "epochs": 100,
            "patience": 8,
        },
        metrics=("f1",),
        paper=21,
    ),
    "ewt_pos": Study(
        "parts of speech, EWT",
        {
            "task": "pos",
            "train": ["pos/ewt/en_ewt-ud-train.conllu"],
            "dev": ["pos/ewt/en_ewt-ud-dev.conllu"],
            **_INPUTS,
            "epochs": 40,
            "patience": 3,
        },
        metrics=("accuracy",),
    ),
    "sst": Study(
        "sentiment, SST-5",
        _SST | {"epochs": 30, "patience": 4},
        metrics=("accuracy",),
        without={"dropout": 0.3},
        tuned=1.0,
    ),
    "sst_phrases": Study(
        "sentiment, SST-5, with phrases",
        _SST | {"phrases": 5, "batch_size": 128, "epochs": 6, "patience": 2},
        metrics=("accuracy",),
        paper=6.8,
        without={"dropout": 0.3, "epochs": 10},
    ),
    "snli": Study(
        "entailment, part of SNLI",
        {
            "task": "snli",
            "train": ["nli/snli/train.jsonl"],
            "dev": ["nli/snli/dev.jsonl"],
            **_INPUTS,
            "units": 100,
            "dropout": 0.2,
            "epochs": 60,
            "patience": 4,
        },
        metrics=("accuracy",),
        paper=5.8,
        tuned=1.0,
    ),
    "squad": Study(
        "question answering, SQuAD",
        {
            "task": "squad",
            "train": ["squad/train.json"],
            "dev": ["squad/dev.json"],
            **_INPUTS,
            "placement": "both",
            "units": 60,
            "max_tokens": 400,
            "ema": 0.99,
            "epochs": 16,
            "patience": 3,
        },
        metrics=("f1", "em"),
        paper=24.9,
        without={"epochs": 30},
        ablations={name: _PLACEMENTS[name] for name in ("input", "output")} | _MIXES,
        ablation_share=0.25,
        tuned=0.25,
    ),
    "srl": Study(
        "semantic roles, EWT",
        {
            "task": "srl",
            "train": ["srl/train.gold_conll"],
            "dev": ["srl/dev.gold_conll"],
            **_INPUTS,
            "units": 100,
            "model_options": ["num_layers=4"],
            "batch_size": 64,
            "clip_norm": 1,
            "epochs": 8,
            "patience": 3,
        },
        metrics=("f1", "end_to_end", "predicates"),
        paper=17.2,
        shares=(0.01, 0.05, 0.25),
        ablations={name: _PLACEMENTS[name] for name in ("both", "output")} | _MIXES,
        ablation_share=0.25,
    ),
    "litbank": Study(
        "coreference, LitBank",
        {
            "task": "coref",
            "train": ["coref/litbank/train/*.conll"],
            "dev": ["coref/litbank/dev/*.conll"],
            **_INPUTS,
            "mix_l2": 0.1,
            "units": 100,
            "model_options": ["span_ratio=0.25", "max_antecedents=100", "mention_loss=0.1"],
            "epochs": 10,
            "patience": 6,
        },
        metrics=("average", "muc", "b_cubed", "ceaf_e", "without singletons"),
        paper=9.8,
    ),
}
# An epoch of a small share has few steps.
EPOCHS = {
    "squad": {0.25: (40, 8)},
    "srl": {0.01: (60, 60), 0.05: (30, 30), 0.25: (12, 12)},
}


class Run(NamedTuple):
    """One training: of a study, of one of its variants, on a share of the data, with a seed."""

    study: str
    variant: str
    share: float
    seed: int

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Run":
        """The run of a result."""
        return cls(*(row[field] for field in cls._fields))

    @property
    def name(self) -> str:
        """The folder of the run below that of all runs."""
        variant = self.variant.replace(" ", "_")
        return f"{self.study}/{variant}_share_{self.share:g}_seed_{self.seed}"


def runs_of(name: str) -> Iterator[Run]:
    """The trainings of a study, the first seed of all first."""
    study = STUDIES[name]
    shares = {*study.shares, *([1.0] if study.shares else []), study.tuned}
    if study.ablations:
        shares.add(study.ablation_share)
    for seed in range(SEEDS):
        for variant in study.inputs:
            yield Run(name, variant, 1.0, seed)
        if seed >= OTHER_SEEDS:
            continue
        for share in sorted(shares - {None}):
            for variant in ("without", "with"):
                yield Run(name, variant, share, seed)
        for variant in study.ablations:
            yield Run(name, variant, study.ablation_share, seed)
        if study.tuned is not None:
            yield Run(name, "tuned", study.tuned, seed)


def settings_of(run: Run, data: Path, tuned: Path) -> dict[str, Any]:
    """The settings of `TaskConfig` for a training.

    Args:
        run: the training.
        data: the folder of the data.
        tuned: the biLM of the variant "tuned".
    """
    study = STUDIES[run.study]
    changes = INPUTS.get(run.variant, study.ablations.get(run.variant, {}))
    settings = {**study.settings, **changes}
    if run.variant == "without":
        settings |= {"elmo": None, "placement": "input"}
    elif run.variant == "tuned":
        settings["elmo"] = str(tuned)
    if settings["elmo"] is None:
        settings |= study.without
    for name in ("train", "dev"):
        files = [file for pattern in settings[name] for file in sorted(data.glob(pattern))]
        settings[name] = tuple(map(str, files))
    if settings["word_vectors"]:
        settings["word_vectors"] = str(data / settings["word_vectors"])
    epochs = EPOCHS.get(run.study, {}).get(run.share)
    if epochs:
        settings |= dict(zip(("epochs", "patience"), epochs, strict=True))
    return {**settings, "share": run.share, "seed": run.seed}


def measured(name: str) -> Any:
    """The contents of a file in docs/measurements.

    Raises:
        FileNotFoundError: it was not measured yet.
    """
    return json.loads((MEASUREMENTS / f"{name}.json").read_text("utf-8"))


def results_of(study: str) -> list[dict[str, Any]]:
    """The collected results of a study, if they were measured with its current settings."""
    try:
        found = measured(study)
    except FileNotFoundError:
        return []
    settings = json.loads(json.dumps(STUDIES[study].settings))
    return found["runs"] if found["settings"] == settings else []


def scores_of(
    study: str, variant: str, share: float = 1.0, metric: str | None = None
) -> list[float]:
    """The scores of a variant in percent, by seed."""
    metric = metric or STUDIES[study].metrics[0]
    scores = [row["scores"][metric] for row in rows_of(study, variant, share)]
    return [100 * (one["average"] if isinstance(one, dict) else one) for one in scores]


def rows_of(study: str, variant: str, share: float = 1.0) -> list[dict[str, Any]]:
    """The collected results of a variant, by seed."""
    rows = results_of(study)
    return [row for row in rows if row["variant"] == variant and row["share"] == share]
