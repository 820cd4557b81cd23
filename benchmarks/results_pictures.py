"""docs/measurements/*.json ─► the pictures of docs/results.md."""

import statistics
from collections.abc import Sequence
from typing import Any

from studies import MEASUREMENTS, STUDIES, WITH_ELMO, rows_of, scores_of


def draw_pictures() -> None:
    """Draws the sample efficiency on semantic roles, and the mixing weights of all tasks."""
    import numpy as np

    from elmo_tf.evaluation.plots import Mix, draw_mixes, draw_sample_efficiency, save_figure

    images = MEASUREMENTS.parent / "images"
    rows = []
    for share in [*STUDIES["srl"].shares, 1.0]:
        scores = {name: scores_of("srl", name, share) for name in ("with", "without")}
        if min(map(len, scores.values())) > 1:
            rows.append({"share": share, **{name: _moments(one) for name, one in scores.items()}})
    if len(rows) > 1:
        figure = draw_sample_efficiency({"metric": "f1", "summary": rows})
        save_figure(figure, str(images / "sample_efficiency.png"), overwrite=True)
    mixes = []
    for name, study in STUDIES.items():
        rows = rows_of(name, WITH_ELMO) or rows_of(name, "with")
        for place, mix in zip(_places(study), rows[0]["mixes"] if rows else [], strict=False):
            mixes.append(Mix(study.title + place, np.array(mix["shares"]), mix["scale"]))
    if mixes:
        save_figure(draw_mixes(mixes), str(images / "mixes.png"), overwrite=True)


def _moments(scores: Sequence[float]) -> dict[str, float]:
    mean, deviation = statistics.fmean(scores), statistics.stdev(scores)
    return {"mean": mean / 100, "deviation": deviation / 100}


def _places(study: Any) -> Sequence[str]:
    both = study.settings.get("placement") == "both"
    return (" (input)", " (output)") if both else ("",)
