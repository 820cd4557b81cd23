"""Trains a task with and without ELMo, for several seeds and shares of the training data."""

import dataclasses
import itertools
import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import keras
from absl import logging

from elmo_tf.config_checks import check_int
from elmo_tf.tasks.config import TaskConfig
from elmo_tf.tasks.specification import specification_of
from elmo_tf.trainers.tasks.training import train_model


def sweep_task(
    config: TaskConfig,
    shares: Sequence[float] = (1.0,),
    num_seeds: int = 5,
    vectors: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """Compares a task model with and without ELMo, by share of the training data and by seed.

    Each training has its own directory in `config.workdir`. If the sweep is called again with the
    same settings and files, it resumes: finished trainings are not repeated. `epochs` and
    `patience` may change, and trainings continue accordingly.

    Args:
        config: the settings, with `elmo`. Its `share` is ignored; its `seed` is the first seed.
        shares: fractions of the training data, see `TaskConfig`. Defaults to all data.
        num_seeds: int >= 1. Number of seeds. Defaults to 5.
        vectors: files of vectors by name, see `vectors` of `TaskConfig`; each seed is also trained
            with each of them in place of ELMo. Defaults to none.

    Returns:
        A dict: "metric", the name of the score; "settings"; "runs", one dict per training with
        "share", "seed", "elmo" (bool), "vectors" (their name, or None), "score" (on `dev`, of the
        best epoch), "epoch" (the best), "epochs" (their number) and "seconds" (median per epoch);
        and "summary", one dict per share with the mean and standard deviation of the scores
        "without" and "with" ELMo; "error_reduction", the relative reduction of the error
        (1 - score) by ELMo; and "vectors", these three numbers by the names of the vectors.

    Raises:
        ValueError: `elmo` is missing, or see `TaskConfig` and `train_task`.
        OSError: see `train_task`.
    """
    check_int(num_seeds, "num_seeds", ge=1)
    if config.elmo is None or config.placement == "none":
        raise ValueError(
            "A sweep compares with and without ELMo: it needs `elmo` and a `placement`."
        )
    if not shares:
        raise ValueError("`shares` is empty. Pass at least one share.")
    if len({_share_name(share) for share in shares}) < len(shares):
        raise ValueError(f"`shares` has duplicates: {', '.join(map(str, shares))}.")
    configs = list(_configs(config, shares, num_seeds, vectors))
    task, runs = specification_of(config.task), []
    for count, (name, each) in enumerate(configs, start=1):
        logging.info("Training %d of %d: %s.", count, len(configs), Path(each.workdir).name)
        record = train_model(each, task, cache_all=True)
        run = {
            "share": each.share,
            "seed": each.seed,
            "elmo": each.elmo is not None,
            "vectors": name,
            "score": record["best"]["score"],
            "epoch": record["best"]["epoch"],
            "epochs": len(record["epochs"]),
            "seconds": statistics.median(epoch["seconds"] for epoch in record["epochs"]),
        }
        runs.append(run)
        keras.utils.clear_session()  # frees the previous model
    return {
        "metric": task.metric,
        "settings": config.as_json(),
        "runs": runs,
        "summary": [_summary(share, runs) for share in shares],
    }


def _configs(
    config: TaskConfig, shares: Sequence[float], num_seeds: int, vectors: Mapping[str, str]
) -> Iterator[tuple[str | None, TaskConfig]]:
    """The name of the vectors, or None, and the settings of each training."""
    no_elmo: dict[str, Any] = {"elmo": None, "fine_tune": False}
    arms = [
        ("without_elmo", None, {**no_elmo, "placement": "input"}),
        ("with_elmo", None, {}),
        *(
            (f"with_vectors_{name}", name, {**no_elmo, "vectors": file})
            for name, file in vectors.items()
        ),
    ]
    seeds = range(config.seed, config.seed + num_seeds)
    for share, seed, (arm, name, changes) in itertools.product(shares, seeds, arms):
        folder = f"{_share_name(share)}_seed_{seed}_{arm}"
        settings = {
            **changes,
            "share": share,
            "seed": seed,
            "workdir": os.path.join(config.workdir, folder),
            "resume": True,
            "overwrite": False,
        }
        yield name, dataclasses.replace(config, **settings)


def _share_name(share: float) -> str:
    return f"share_{share:g}"


def _summary(share: float, runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    scores: dict[Any, list[float]] = {}
    for run in runs:
        if run["share"] == share:
            scores.setdefault((run["elmo"], run["vectors"]), []).append(run["score"])
    without = scores.pop((False, None))
    with_elmo = _comparison(without, scores.pop((True, None)))
    return {
        "share": share,
        "without": _mean_and_deviation(without),
        "with": {name: with_elmo[name] for name in ("mean", "deviation")},
        "error_reduction": with_elmo["error_reduction"],
        "vectors": {name: _comparison(without, others) for (_, name), others in scores.items()},
    }


def _comparison(without: Sequence[float], scores: Sequence[float]) -> dict[str, float | None]:
    error = 1 - statistics.fmean(without)
    gain = statistics.fmean(scores) - statistics.fmean(without)
    return {**_mean_and_deviation(scores), "error_reduction": gain / error if error else None}


def _mean_and_deviation(scores: Sequence[float]) -> dict[str, float | None]:
    deviation = statistics.stdev(scores) if len(scores) > 1 else None
    return {"mean": statistics.fmean(scores), "deviation": deviation}
