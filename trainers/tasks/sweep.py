"""Trains a task with and without ELMo, for several seeds and shares of the training data."""

import dataclasses
import itertools
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
from absl import logging

from elmo_tf.compat import release_reductions
from elmo_tf.tasks.config import TaskConfig
from elmo_tf.tasks.registry import TASKS
from elmo_tf.trainers.tasks.training import train_model, with_tokenizer_code


def sweep_task(
    config: TaskConfig, shares: Sequence[float] = (1.0,), num_seeds: int = 5
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

    Raises: see `train_task`.
    """
    if config.elmo is None or config.placement == "none":
        raise ValueError(
            "A sweep compares with and without ELMo: it needs `elmo` and a `placement`."
        )
    config, configs = with_tokenizer_code(config), []
    seeds = range(config.seed, config.seed + num_seeds)
    for share, seed, has_elmo in itertools.product(shares, seeds, (False, True)):
        folder = f"share_{share:g}_seed_{seed}_{'with' if has_elmo else 'without'}_elmo"
        changes = {"workdir": Path(config.workdir, folder), "resume": True, "overwrite": False}
        if not has_elmo:
            changes |= {"elmo": None, "fine_tune": False, "placement": "input"}
        configs.append(dataclasses.replace(config, share=share, seed=seed, **changes))
    task, runs = TASKS[config.task](), []
    for count, each in enumerate(configs, start=1):
        logging.info("Training %d of %d: %s.", count, len(configs), Path(each.workdir).name)
        record = train_model(each, task)
        runs.append(
            {
                "share": each.share,
                "seed": each.seed,
                "elmo": each.elmo is not None,
                "score": record["best"]["score"],
                "epoch": record["best"]["epoch"],
                "epochs": len(record["epochs"]),
                "seconds": statistics.median(epoch["seconds"] for epoch in record["epochs"]),
            }
        )
        release_reductions()  # the next line alone does not free the model
        keras.utils.clear_session()
    return {
        "metric": task.metric_of(config),
        "settings": config.as_json(),
        "runs": runs,
        "summary": [_summary(share, runs) for share in shares],
    }


def _summary(share: float, runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    row: dict[str, Any] = {"share": share}
    for name, has_elmo in (("without", False), ("with", True)):
        scores = [run["score"] for run in runs if (run["share"], run["elmo"]) == (share, has_elmo)]
        deviation = statistics.stdev(scores) if len(scores) > 1 else None
        row[name] = {"mean": statistics.fmean(scores), "deviation": deviation}
    error, gain = 1 - row["without"]["mean"], row["with"]["mean"] - row["without"]["mean"]
    return {**row, "error_reduction": gain / error if error else None}
