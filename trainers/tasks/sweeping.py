"""A configuration ─► many trainings of it: with and without ELMo, by seed and by share of data."""

import dataclasses
import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
from absl import logging

from elmo_tf.config_checks import check_int
from elmo_tf.trainers.tasks.config import TaskConfig
from elmo_tf.trainers.tasks.kinds import KINDS
from elmo_tf.trainers.tasks.training import train_task


def sweep_task(
    config: TaskConfig, shares: Sequence[float] = (1.0,), num_seeds: int = 5
) -> dict[str, Any]:
    """Trains the same model without and with ELMo, for each share of the data and each seed.

    Each training has a folder of its own in `config.workdir`. Called again, it goes on where it
    ended; what is done is taken as it is, if it was done with these settings and files. `epochs`
    and `patience` may be others: what they leave to do is done.

    Args:
        config: with `elmo`. Its `share` is not read, its `seed` is the first.
        shares: of the training data; see `TaskConfig`.
        num_seeds: int >= 1.

    Returns:
        "metric", what the scores are; "settings"; "runs", a dict for each training, with "share",
        "seed", "elmo" (whether), "score" (on `dev`, of the best epoch), "epoch" (that one),
        "epochs" (how many there were) and "seconds" (the median of an epoch); and "summary", for
        each share the mean and the standard deviation of
        both, and "error_reduction", the part of the errors (1 - score) without ELMo that are gone
        with it.

    Raises:
        ValueError: there is no ELMo to compare with, or see `TaskConfig` and `train_task`.
        OSError: see `train_task`.
    """
    check_int(num_seeds, "num_seeds", least=1)
    if config.elmo is None or config.placement == "none":
        raise ValueError("With ELMo is compared with without: `elmo` and a placement are needed.")
    if not shares:
        raise ValueError("`shares` is empty: there is nothing to train on.")
    if len({_share_name(share) for share in shares}) < len(shares):
        raise ValueError(f"A share stands twice in `shares`: {', '.join(map(str, shares))}.")
    configs = list(_configs(config, shares, num_seeds))
    runs = []
    for number, one in enumerate(configs, start=1):
        logging.info("Training %d of %d: %s.", number, len(configs), Path(one.workdir).name)
        record = train_task(one, keeps_all_layers=True)
        runs.append(_run(one, record))
        keras.utils.clear_session()  # of the model before
    return {
        "metric": KINDS[config.task].metric,
        "settings": config.as_json(),
        "runs": runs,
        "summary": [_summary(share, runs) for share in shares],
    }


def _configs(config: TaskConfig, shares: Sequence[float], num_seeds: int) -> Iterator[TaskConfig]:
    without = {"elmo": None, "placement": "input", "fine_tune": False}
    for share in shares:
        for seed in range(config.seed, config.seed + num_seeds):
            for name, changes in (("without", without), ("with", {})):
                folder = os.path.join(
                    config.workdir, f"{_share_name(share)}_seed_{seed}_{name}_elmo"
                )
                yield dataclasses.replace(
                    config,
                    **changes,
                    share=share,
                    seed=seed,
                    workdir=folder,
                    resume=True,
                    overwrite=False,
                )


def _share_name(share: float) -> str:
    return f"share_{share:g}"


def _run(config: TaskConfig, record: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "share": config.share,
        "seed": config.seed,
        "elmo": config.elmo is not None,
        "score": record["best"]["score"],
        "epoch": record["best"]["epoch"],
        "epochs": len(record["epochs"]),
        "seconds": statistics.median(epoch["seconds"] for epoch in record["epochs"]),
    }


def _summary(share: float, runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    scores = {
        has_elmo: [run["score"] for run in runs if (run["share"], run["elmo"]) == (share, has_elmo)]
        for has_elmo in (False, True)
    }
    means = {has_elmo: statistics.fmean(found) for has_elmo, found in scores.items()}
    errors = 1 - means[False]
    return {
        "share": share,
        **{
            name: {"mean": means[has_elmo], "deviation": _deviation(scores[has_elmo])}
            for name, has_elmo in (("without", False), ("with", True))
        },
        "error_reduction": (means[True] - means[False]) / errors if errors else None,
    }


def _deviation(scores: Sequence[float]) -> float | None:
    return statistics.stdev(scores) if len(scores) > 1 else None
