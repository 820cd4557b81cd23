"""The base class of the kinds of tasks, for training, evaluation and prediction."""

import abc
import inspect
import itertools
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import keras
from absl import logging

from elmo_tf.evaluation.task_scores import label_scores
from elmo_tf.models.layer_mixes import LayerMixes
from elmo_tf.tasks.task_model import LabelModel, TaskModel
from elmo_tf.text.sentence_files import FileSentence, sentence_reader
from elmo_tf.text.vocabulary import read_lines
from elmo_tf.trainers.tasks.config import TaskConfig
from elmo_tf.trainers.tasks.examples import Batches, Layers

Texts = tuple[list[str], ...]  # the tokens of each text of an example

# Arguments of models that `model_options` cannot set: they have another setting, or none.
_OF_OTHER_SETTINGS = {
    *("labels", "embeddings", "elmo", "placement", "units", "dropout", "scheme", "kwargs"),
}


class TaskKind(abc.ABC):
    """A kind of task.

    An example is a named tuple, with its gold label or tags last unless `gold` is overridden.
    Examples of unlabelled files need not have any.

    models: the classes of models by their names in `config.MODELS`.
    metric: the score that selects the best epoch; larger is better.
    """

    models: ClassVar[dict[str, type[TaskModel]]]
    metric: ClassVar[str] = "accuracy"

    def read(
        self, files: Sequence[str], settings: Mapping[str, Any], known: Collection[str] | None
    ) -> list[Any]:
        """Reads the examples of files.

        Args:
            files: labelled files of the task.
            settings: the settings of `TaskConfig`.
            known: labels that the files may hold; None allows all.

        Raises:
            ValueError: a file is wrong; the message names the line.
        """
        return [example for file in files for example in self._read(file, settings, known)]

    @abc.abstractmethod
    def _read(
        self, path: str, settings: Mapping[str, Any], known: Collection[str] | None
    ) -> list[Any]:
        """Reads the examples of one file."""

    @abc.abstractmethod
    def read_inputs(
        self, path: str, settings: Mapping[str, Any], known: Collection[str]
    ) -> list[Any]:
        """Reads the examples of a file to predict, and ignores its labels if it has some.

        Args:
            path: the file.
            settings: the settings of `TaskConfig`, with the `format` and `token_column` of this
                file, see `sentence_reader`.
            known: labels that a labelled file may hold, to recognize such a file.
        """

    def join_inputs(self, parts: Sequence[list[Any]], files: Sequence[str]) -> list[Any]:
        """The examples of several files to predict, for one output file.

        Raises:
            ValueError: one output file cannot contain the predictions for all of them.
        """
        return list(itertools.chain.from_iterable(parts))

    def for_training(self, examples: list[Any], settings: Mapping[str, Any]) -> list[Any]:
        """The examples to train on. Logs the number of those left out."""
        return examples

    def _not_longer(self, examples: Sequence[Any], limit: int) -> list[Any]:
        """The examples whose first text has at most `limit` tokens. Logs the number of others."""
        kept = [example for example in examples if len(self.texts(example)[0]) <= limit]
        if len(kept) < len(examples):
            logging.info(
                "%s of %s examples are left out: they have more than %s tokens.",
                *(f"{number:,}" for number in (len(examples) - len(kept), len(examples), limit)),
            )
        return kept

    def texts(self, example: Any) -> Texts:
        """The texts of an example."""
        return (example.tokens,)

    def features(self, example: Any) -> dict[str, Any]:
        """The other inputs of an example, see `TaskModel`."""
        return {}

    def gold(self, example: Any) -> Any:
        """The gold label or tags of an example."""
        return example[-1]

    def perfect_prediction(self, example: Any) -> Any:
        """A prediction that has the best score."""
        return self.gold(example)

    def labels(self, examples: Sequence[Any]) -> list[str]:
        """The labels of a model that is trained on the examples."""
        return sorted({self.gold(example) for example in examples})

    def file_labels(self, labels: Sequence[str]) -> list[str]:
        """The labels that files may hold, for the labels of a model."""
        return list(labels)

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

    def predict(
        self, model: TaskModel, inputs: Mapping[str, Any], examples: Sequence[Any]
    ) -> list[Any]:
        """The predictions for a batch, in the form of `gold`."""
        return model.classify(inputs)

    def scores(self, gold: Sequence[Any], predicted: Sequence[Any]) -> dict[str, Any]:
        """The scores of predictions, see `elmo_tf.evaluation`."""
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

    def read_predictions(self, path: Path, examples: Sequence[Any]) -> list[Any] | None:
        """Reads the predictions for examples from an output file; None if it lacks some."""
        return None

    def new_model(
        self,
        config: TaskConfig,
        labels: Sequence[str],
        embeddings: Sequence[keras.layers.Layer],
        elmo: LayerMixes | None,
    ) -> TaskModel:
        """Builds an untrained model."""
        model_class = self.models[config.model]
        labels_of_model = [labels] if issubclass(model_class, LabelModel) else []
        arguments = self.model_arguments(config)
        return model_class(*labels_of_model, embeddings=embeddings, elmo=elmo, **arguments)

    def model_arguments(self, config: TaskConfig) -> dict[str, Any]:
        """The arguments of the model that the settings contain; others keep the published defaults.

        Raises:
            ValueError: an option of `model_options` is not an argument of the model.
        """
        given = {"units": config.units, "dropout": config.dropout}
        given = {name: value for name, value in given.items() if value is not None}
        options = _parsed_options(config.model_options)
        model_class = self.models[config.model]
        allowed = set(inspect.signature(model_class).parameters) - _OF_OTHER_SETTINGS
        unknown = sorted(options.keys() - allowed)
        if unknown:
            raise ValueError(
                f"{model_class.__name__} has no argument {unknown[0]!r} to set. It has: "
                f"{', '.join(sorted(allowed)) or 'none'}."
            )
        return {**given, **options, "placement": config.placement}


def _parsed_options(options: Sequence[str]) -> dict[str, Any]:
    """Parses `name=value`; a value is JSON, or else a string."""
    parsed = {}
    for option in options:
        name, has_value, value = option.partition("=")
        if not has_value:
            raise ValueError(
                f"`model_options` (--set) must be of the form name=value. Received: {option!r}"
            )
        try:
            parsed[name] = json.loads(value)
        except ValueError:
            parsed[name] = value
    return parsed


def refuse_repeated(names: Iterable[str], files: Sequence[str]) -> None:
    """Raises a `ValueError` if a name of an example occurs more than once in several files."""
    for name, count in Counter(names).most_common(1):
        if count > 1 and len(files) > 1:
            raise ValueError(f"{name} is in several files of {', '.join(files)}.")


def first_line(path: str) -> str:
    """The first line of a file that is not empty; "" without one."""
    return next((line for line in read_lines(path) if line.strip()), "")


def sentences_of(path: str, settings: Mapping[str, Any]) -> list[FileSentence]:
    """The sentences of text or columns."""
    return list(sentence_reader(path, settings["format"], settings["token_column"])())
