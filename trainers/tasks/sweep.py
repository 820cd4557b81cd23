"""Trains a task with and without ELMo, for several seeds and shares of the training data."""

import dataclasses
import itertools
import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
from absl import logging

from elmo_tf.config_checks import check_int
from elmo_tf.tasks.config import TaskConfig
from elmo_tf.tasks.registry import TASKS
from elmo_tf.trainers.tasks.training import train_model


def sweep_task(
    config: TaskConfig,
    shares: Sequence[float] = (1.0,),
    num_seeds: int = 5,
) -> dict[str, Any]:
    """Compares a task model with and without ELMo, by share of the training data and by seed.

    Each training has its own directory in `config.workdir`. If the sweep is called again with the
    same settings and files, it resumes: finished trainings are not repeated. `epochs` and
    `patience` may change, and trainings continue accordingly.

    Args:
        config: the settings, with `elmo`. Its `share` is ignored; its `seed` is the first seed.
        shares: fractions of the training data, see `TaskConfig`. Defaults to all data.
        num_seeds: int >= 1. Number of seeds. Defaults to 5.

    Returns:
        A dict: "metric", the name of the score; "settings"; "runs", one dict per training with
        "share", "seed", "elmo" (bool), "score" (on `dev`, of the best epoch), "epoch" (the best),
        "epochs" (their number) and "seconds" (median per epoch); and "summary", one dict per share
        with the mean and standard deviation of the scores "without" and "with" ELMo, and
        "error_reduction", the relative reduction of the error (1 - score) by ELMo.

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
    configs = list(_configs(config, shares, num_seeds))
    task, runs = TASKS[config.task](), []
    for count, each in enumerate(configs, start=1):
        logging.info("Training %d of %d: %s.", count, len(configs), Path(each.workdir).name)
        record = train_model(each, task)
        run = {
            "share": each.share,
            "seed": each.seed,
            "elmo": each.elmo is not None,
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


def _configs(config: TaskConfig, shares: Sequence[float], num_seeds: int) -> Iterator[TaskConfig]:
    """The settings of each training."""
    without = {"elmo": None, "fine_tune": False, "placement": "input"}
    arms: dict[str, dict[str, Any]] = {"without_elmo": without, "with_elmo": {}}
    seeds = range(config.seed, config.seed + num_seeds)
    for share, seed, (arm, changes) in itertools.product(shares, seeds, arms.items()):
        folder = f"{_share_name(share)}_seed_{seed}_{arm}"
        settings = {
            **changes,
            "share": share,
            "seed": seed,
            "workdir": os.path.join(config.workdir, folder),
            "resume": True,
            "overwrite": False,
        }
        yield dataclasses.replace(config, **settings)


def _share_name(share: float) -> str:
    return f"share_{share:g}"


def _summary(share: float, runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    without, with_elmo = (
        [run["score"] for run in runs if (run["share"], run["elmo"]) == (share, has_elmo)]
        for has_elmo in (False, True)
    )
    error = 1 - statistics.fmean(without)
    gain = statistics.fmean(with_elmo) - statistics.fmean(without)
    return {
        "share": share,
        "without": _mean_and_deviation(without),
        "with": _mean_and_deviation(with_elmo),
        "error_reduction": gain / error if error else None,
    }


def _mean_and_deviation(scores: Sequence[float]) -> dict[str, float | None]:
    deviation = statistics.stdev(scores) if len(scores) > 1 else None
    return {"mean": statistics.fmean(scores), "deviation": deviation}
