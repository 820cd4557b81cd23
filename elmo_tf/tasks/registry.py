"""The tasks by name, and their trained models in work directories."""

import dataclasses
import os
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import keras

from elmo_tf.models.bilm import BiLM
from elmo_tf.models.copies import model_digest
from elmo_tf.settings import read_record
from elmo_tf.tasks.classification import Classification, Sentiment
from elmo_tf.tasks.config import MODEL_FILE, RECORD_FILE, TaskConfig
from elmo_tf.tasks.coreference import Coreference
from elmo_tf.tasks.entailment import Entailment
from elmo_tf.tasks.question_answering import QuestionAnswering
from elmo_tf.tasks.semantic_roles import SemanticRoles
from elmo_tf.tasks.tagging import NamedEntities, Tagging
from elmo_tf.tasks.task import Task
from elmo_tf.tasks.task_model import Ensemble, TaskModel

TASKS: Mapping[str, type[Task]] = {
    "ner": NamedEntities,
    "pos": Tagging,
    "sst": Sentiment,
    "snli": Entailment,
    "classify": Classification,
    "squad": QuestionAnswering,
    "srl": SemanticRoles,
    "coref": Coreference,
}


def load_task(
    workdir: str | os.PathLike, *others: str | os.PathLike, tokenizer: str | None = None
) -> TaskModel | Ensemble:
    """Loads the best model of a work directory of `train_task`, to predict or to train further.

    Args:
        workdir: the work directory.
        *others: further work directories. With them, the result is an `Ensemble`, whose members
            share one biLM in memory.
        tokenizer: replaces the recorded one, see `TaskModel`. None keeps it.

    Raises:
        FileNotFoundError: a directory has no model.
        ValueError: a model or record is damaged; or see `Ensemble`.

    Example:
        >>> tagger = elmo_tf.tasks.load_task("ner")
        >>> [len(tags) for tags in tagger.tag(["Anna lives in Bonn"])]
        [4]
    """
    workdirs = workdir, *others
    config, _ = read_runs(*workdirs)
    models = load_models(workdirs)
    if config.task == "ner":  # models of version 0.4 do not have this setting
        for model in models:
            model.settings["output_scheme"] = config.scheme
    if tokenizer is not None:
        dataclasses.replace(config, tokenizer=tokenizer)  # checks that the task has one
        for model in models:
            model.tokenizer = tokenizer
    return Ensemble(models, list(map(os.fspath, workdirs))) if others else models[0]


def read_runs(*workdirs: str | os.PathLike) -> tuple[TaskConfig, list[str]]:
    """The settings and the labels of the first of several trained models, by their records.

    Raises: see `load_task`.
    """
    configs = []
    for folder in map(Path, workdirs):
        for name in (MODEL_FILE, RECORD_FILE):
            if not (folder / name).is_file():
                raise FileNotFoundError(
                    f"{folder} has no trained task model: there is no {name}. Train one with "
                    "elmo-tf task train."
                )
        configs.append(TaskConfig(workdir=folder, resume=True))
    return configs[0], read_record(Path(workdirs[0], RECORD_FILE))["labels"]


def load_models(workdirs: Iterable[str | os.PathLike], bilm: BiLM | None = None) -> list[TaskModel]:
    """Loads the models of work directories, without a check of their records.

    Those with the same biLM, or that of `bilm`, share it in memory.
    """
    models = []
    for workdir in workdirs:
        path = Path(workdir, MODEL_FILE)
        try:
            model = keras.saving.load_model(path, compile=False)
        except (TypeError, ValueError, zipfile.BadZipFile) as error:
            # Keras' message ends in the complete configuration, with all words.
            raise ValueError(
                f"Cannot read {path}: {str(error)[:200]} … Is it damaged, or from another version "
                "of elmo_tf?"
            ) from None
        if model.elmo is not None and bilm is not None:
            if model_digest(bilm) == model_digest(model.elmo.bilm):
                model = model.on_bilm(bilm)
        elif model.elmo is not None:
            bilm = model.elmo.bilm
        models.append(model)
    return models
