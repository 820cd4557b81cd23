"""What training, evaluation and prediction need to know of a task: files, model and scores."""

import abc
import importlib
import inspect
import json
import os
import zipfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import keras
from absl import logging

from elmo_tf.models.elmo import Elmo
from elmo_tf.models.layer_mixes import LayerMixes
from elmo_tf.settings import read_record
from elmo_tf.tasks.batches import Batches, Layers
from elmo_tf.tasks.config import FINDER_FOLDER, MODEL_FILE, RECORD_FILE, TASKS, TaskConfig
from elmo_tf.tasks.ensemble import Ensemble, check_same
from elmo_tf.tasks.label_models import LabelModel
from elmo_tf.tasks.scores import label_scores
from elmo_tf.tasks.task_model import TaskModel
from elmo_tf.text.reading import read_lines
from elmo_tf.text.sentence_files import FileSentence, sentence_reader

# Arguments of models that `model_options` cannot set: they have another setting, or none.
_OF_OTHER_SETTINGS = {
    *("labels", "embeddings", "elmo", "placement", "units", "dropout", "scheme", "kwargs")
}


def specification_of(task: str) -> "TaskSpecification":
    """The specification of a task of `TASKS`."""
    return _from_folder(task, "reader", TASKS[task].specification.partition(".")[2])()


def _from_folder(task: str, module: str, name: str) -> Any:
    """A class of a module in the folder of a task."""
    folder = TASKS[task].specification.partition(".")[0]
    return getattr(importlib.import_module(f"elmo_tf.tasks.{folder}.{module}"), name)


def load_task(workdir: str | os.PathLike, *others: str | os.PathLike) -> TaskModel | Ensemble:
    """Loads the best model of a work directory of `train_task`, to predict or to train further.

    Args:
        workdir: the work directory.
        *others: further work directories. With them, the result is an `Ensemble`, whose members
            share one biLM in memory.

    Raises:
        FileNotFoundError: a directory has no model.
        ValueError: a model or record is damaged; or see `Ensemble`.
    """
    workdirs = workdir, *others
    finder = specification_of(read_runs(*workdirs)[0].task).finder
    models: list[TaskModel] = []
    for each in workdirs:
        model = _load_model(Path(each))
        if models and isinstance(model.elmo, Elmo):
            model.elmo.share_bilm(models[0].elmo)
        if finder is not None and has_finder(each):
            model.set_predicate_tagger(_load_model(Path(each, FINDER_FOLDER)))
        models.append(model)
    return Ensemble(models, list(map(os.fspath, workdirs))) if others else models[0]


def read_runs(
    workdir: str | os.PathLike, *others: str | os.PathLike
) -> tuple[TaskConfig, list[str]]:
    """The settings and labels of a trained model, and the check that others fit it, by records."""
    configs, records, bilms = [], [], []
    for folder in map(folder_of_run, (workdir, *others)):
        configs.append(TaskConfig.resumed(folder))  # fails if the record is damaged
        records.append(read_record(folder / RECORD_FILE))
        bilm = f"one trained in {folder} (--fine-tune)"
        bilms.append((bilm if configs[-1].fine_tune else records[-1].get("bilm") or "none",))
    names = list(map(os.fspath, (workdir, *others)))
    check_same(names, "task", [(config.task,) for config in configs])
    check_same(names, "labels", [record["labels"] for record in records])
    check_same(names, "biLM", bilms)
    return configs[0], records[0]["labels"]


def has_finder(workdir: str | os.PathLike) -> bool:
    """Whether a work directory has a second model, see `TaskSpecification.finder`."""
    return Path(workdir, FINDER_FOLDER, MODEL_FILE).is_file()


def _load_model(folder: Path) -> TaskModel:
    try:
        return keras.saving.load_model(folder / MODEL_FILE, compile=False)
    except (TypeError, ValueError, zipfile.BadZipFile) as error:
        # Keras' message ends in the complete configuration, with all words.
        raise ValueError(
            f"Cannot read {folder / MODEL_FILE}: {str(error)[:200]} … Is it damaged, or from "
            "another version of elmo_tf?"
        ) from None


def folder_of_run(workdir: str | os.PathLike) -> Path:
    """Raises `FileNotFoundError` unless a work directory has a trained model and its record."""
    folder = Path(workdir)
    for name in (MODEL_FILE, RECORD_FILE):
        if not (folder / name).is_file():
            raise FileNotFoundError(
                f"{folder} has no trained task model: there is no {name}. Train one with "
                "elmo-tf task train."
            )
    return folder


class TaskSpecification(abc.ABC):
    """How a task reads its files, builds its model, and is scored.

    An example is a named tuple, with its gold label or tags last unless `gold` is overridden.
    Examples of unlabeled files need not have any.

    metric: the score that selects the best epoch; larger is better.
    packages: the modules of the extra `tasks` that the scores need.
    input_options: the arguments of `read_inputs` that the task has.
    finder: the specification of a second model, which finds in plain texts what labeled files give;
        None for most tasks. A task with a finder also has `plain` and `found_scores`.
    """

    metric: ClassVar[str] = "accuracy"
    packages: ClassVar[tuple[str, ...]] = ("sklearn.metrics",)
    input_options: ClassVar[tuple[str, ...]] = ("format", "token_column")
    finder: ClassVar[type["TaskSpecification"] | None] = None

    def read(
        self, files: Sequence[str], config: TaskConfig, known: Collection[str] | None = None
    ) -> list[Any]:
        """Reads the examples of labeled files.

        Args:
            files: labeled files of the task.
            config: the settings of the run.
            known: the labels of the model, which other files may hold; None for training files.

        Raises:
            ValueError: a file is wrong; the message names the line.
        """
        return [example for file in files for example in self._read(file, config, known)]

    @abc.abstractmethod
    def _read(self, path: str, config: TaskConfig, known: Collection[str] | None) -> list[Any]:
        """Reads the examples of one file."""

    @abc.abstractmethod
    def read_inputs(
        self,
        path: str,
        config: TaskConfig,
        known: Collection[str],
        format: str | None = None,
        token_column: int | None = None,
    ) -> list[Any]:
        """Reads the examples of a file to predict, and ignores its labels if it has some.

        Args:
            path: the file.
            config: the settings of the run.
            known: the labels of the model, to recognize a labeled file.
            format, token_column: see `sentence_reader`.
        """

    def join_inputs(self, examples: list[Any], files: Sequence[str]) -> list[Any]:
        """The examples of several files to predict, for one output file.

        Raises:
            ValueError: one output file cannot contain the predictions for all of them.
        """
        return examples

    def for_training(self, examples: list[Any], config: TaskConfig) -> list[Any]:
        """The examples to train on. Logs the number of those left out."""
        return examples

    def _not_longer(self, examples: Sequence[Any], limit: int) -> list[Any]:
        """The examples whose first text has at most `limit` tokens. Logs the number of others."""
        kept = [example for example in examples if len(self.texts(example)[0]) <= limit]
        if len(kept) < len(examples):
            logging.info(
                "%s of %s examples are left out: they have more than %s tokens.",
                *(f"{count:,}" for count in (len(examples) - len(kept), len(examples), limit)),
            )
        return kept

    def texts(self, example: Any) -> tuple[list[str], ...]:
        """The tokens of each text of an example."""
        return (example.tokens,)

    def features(self, example: Any) -> dict[str, Any]:
        """The other inputs of an example, see `TaskModel`."""
        return {}

    def gold(self, example: Any) -> Any:
        """The gold label or tags of an example."""
        return example[-1]

    def labels(self, examples: Sequence[Any]) -> list[str]:
        """The labels of a model that is trained on the examples."""
        return sorted({self.gold(example) for example in examples})

    def target(self, model: TaskModel, example: Any) -> Any:
        """The gold label or tags of an example as ids, see `Batches`."""
        return model.label_ids([self.gold(example)])[0]

    def training_batches(
        self, model: TaskModel, examples: Sequence[Any], config: TaskConfig, layers: Layers | None
    ) -> Batches:
        """The batches of training examples; see `Batches` for the layers."""
        targets = [self.target(model, example) for example in examples]
        return self.batches(model, examples, config.batch_size, layers, targets)

    def batches(
        self,
        model: TaskModel,
        examples: Sequence[Any],
        batch_size: int,
        layers: Layers | None = None,
        targets: Sequence[Any] | None = None,
    ) -> Batches:
        """The batches of examples, without targets by default."""
        texts = [self.texts(example) for example in examples]
        features = [self.features(example) for example in examples]
        return Batches(model, texts, targets, batch_size, layers, features)

    def with_found(
        self,
        model: TaskModel,
        examples: Sequence[Any],
        predict: Callable[["TaskSpecification", TaskModel, Sequence[Any]], list[Any]],
    ) -> Sequence[Any]:
        """The examples of plain texts with what the finder's model finds; others are unchanged.

        Args:
            model: the model of the task.
            examples: any examples.
            predict: returns the predictions of a model for examples of its specification.

        Raises:
            ValueError: the model has no finder.
        """
        return examples

    def predict(
        self, model: TaskModel, inputs: Mapping[str, Any], examples: Sequence[Any]
    ) -> list[Any]:
        """The predictions for a batch, in the form of `gold`."""
        return model.classify(inputs)

    def scores(self, gold: Sequence[Any], predicted: Sequence[Any]) -> dict[str, Any]:
        """The scores of predictions."""
        return label_scores(gold, predicted)

    def count(self, examples: Sequence[Any]) -> int:
        """The number of examples that have predictions."""
        return len(examples)

    def lines(self, examples: Sequence[Any], predicted: Sequence[Any]) -> Iterator[str]:
        """The lines of an output file: predictions and their texts."""
        for example, label in zip(examples, predicted, strict=True):
            yield f"{label}\t{' '.join(example.tokens)}"

    def word_lines(self, examples: Sequence[Any]) -> Iterator[str] | None:
        """The lines of a second output file, with the tokens; None if the task has no such file."""
        return None

    def new_model(
        self,
        config: TaskConfig,
        labels: Sequence[str],
        embeddings: Sequence[keras.layers.Layer],
        elmo: LayerMixes | None,
    ) -> TaskModel:
        """Builds an untrained model."""
        model_class, arguments = self._model_class(config), self.model_arguments(config)
        if issubclass(model_class, LabelModel):
            arguments["labels"] = labels
        return model_class(embeddings=embeddings, elmo=elmo, **arguments)

    def model_arguments(self, config: TaskConfig) -> dict[str, Any]:
        """The arguments of the model that the settings contain; others keep the published defaults.

        Raises:
            ValueError: an option of `model_options` is not an argument of the model.
        """
        given = {"units": config.units, "dropout": config.dropout}
        given = {name: value for name, value in given.items() if value is not None}
        options = dict(map(_parsed_option, config.model_options))
        model_class = self._model_class(config)
        allowed = set(inspect.signature(model_class).parameters) - _OF_OTHER_SETTINGS
        unknown = sorted(options.keys() - allowed)
        if unknown:
            raise ValueError(
                f"{model_class.__name__} has no argument {unknown[0]!r} to set. It has: "
                f"{', '.join(sorted(allowed)) or 'none'}."
            )
        return {**given, **options, "placement": config.placement}

    def _model_class(self, config: TaskConfig) -> type[TaskModel]:
        return _from_folder(config.task, "model", TASKS[config.task].models[config.model])


def _parsed_option(option: str) -> tuple[str, Any]:
    """Parses `name=value`; a value is JSON, or else a string."""
    name, has_value, value = option.partition("=")
    if not has_value:
        raise ValueError(
            f"`model_options` (--set) must be of the form name=value. Received: {option!r}"
        )
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def refuse_repeated(names: Iterable[str], files: Sequence[str]) -> None:
    """Raises a `ValueError` if a name of an example occurs more than once in several files."""
    for name, count in Counter(names).most_common(1):
        if count > 1 and len(files) > 1:
            raise ValueError(f"{name} is in several files of {', '.join(files)}.")


def first_line(path: str) -> str:
    """The first line of a file that is not empty; "" without one."""
    return next((line for line in read_lines(path) if line.strip()), "")


def sentences_of(path: str, format: str | None, token_column: int | None) -> list[FileSentence]:
    """The sentences of text or columns."""
    return list(sentence_reader(path, format, token_column)())
