"""A task: how it reads its files, builds its model, and is scored."""

import abc
import collections
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import keras
from absl import logging

from elmo_tf.logs import progress_over
from elmo_tf.models.bilm import BiLM
from elmo_tf.models.elmo import Elmo
from elmo_tf.tasks.batches import Batches, Layers
from elmo_tf.tasks.config import TaskConfig
from elmo_tf.tasks.reading import read_word_vectors
from elmo_tf.tasks.scores import label_scores
from elmo_tf.tasks.task_model import TaskModel
from elmo_tf.tasks.text_model import tokens_of
from elmo_tf.tasks.token_vectors import CharacterEmbedding, WordEmbedding, word_counts
from elmo_tf.text.reading import check_regular_file, is_utf_8, read_lines
from elmo_tf.text.sentence_files import sentence_reader

# Rarer words share one vector, so that this vector has training examples.
_MIN_COUNT = 2


class Task(abc.ABC):
    """A description of a task, for training, evaluation and prediction.

    An example is a named tuple, with its gold label or tags last unless `gold` is overridden.
    Examples of unlabeled files may lack the label.

    models: the classes of its models by their names in `TaskConfig.model`.
    metric: the score that selects the best epoch by default; larger is better.
    max_tokens: the limit of `for_training` if the settings have none; None for no limit.
    """

    models: ClassVar[Mapping[str, type[TaskModel]]]
    metric: ClassVar[str] = "accuracy"
    max_tokens: ClassVar[int | None] = None

    # Files ─► examples.

    def read(
        self, files: Sequence[str], config: TaskConfig, known: Collection[str] | None = None
    ) -> list[Any]:
        """Reads the examples of labeled files. A `ValueError` names the line that is wrong.

        `known`: the labels of the model, which other files may hold; None for training files.
        """
        return [example for file in files for example in self._read(file, config, known)]

    @abc.abstractmethod
    def _read(self, path: str, config: TaskConfig, known: Collection[str] | None) -> list[Any]:
        """Reads the examples of one file."""

    def read_inputs(
        self,
        path: str,
        config: TaskConfig,
        format: str | None = None,
        token_column: int | None = None,
    ) -> list[Any]:
        """Reads the examples of a file to predict, and ignores its labels if it has some.

        These are the sentences of text or columns, unless a subclass reads others; for `format`
        and `token_column` see `sentence_reader`.
        """
        return list(sentence_reader(path, format, token_column)())

    def tokenized(
        self, examples: Sequence[Any], model: Any, tokenizer: str | None
    ) -> Sequence[Any]:
        """The examples with the tokens of their raw texts; labeled words are unchanged.

        `model`: a model of the task, or its class.
        """
        if tokenizer is None or model.labels_words:
            return examples
        return [
            example._replace(
                **{
                    name: tokens_of(" ".join(getattr(example, name)), tokenizer)
                    for name in model.texts
                }
            )
            for example in progress_over(examples, len(examples), "tokenizing", "examples")
        ]

    def for_training(self, examples: list[Any], config: TaskConfig) -> list[Any]:
        """The examples whose first text is not too long. Logs the number of those left out."""
        limit = config.max_tokens or self.max_tokens
        if limit is None:
            return examples
        kept = [example for example in examples if len(self.texts(example)[0]) <= limit]
        if len(kept) < len(examples):
            logging.info(
                "%s of %s examples are left out: they have more than %s tokens.",
                *(f"{count:,}" for count in (len(examples) - len(kept), len(examples), limit)),
            )
        return kept

    # Examples ─► inputs and targets of the model.

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
        """The labels of a model that is trained on the examples; empty if it has none."""
        return sorted({self.gold(example) for example in examples})

    def target(self, model: TaskModel, example: Any) -> Any:
        """The gold label or tags of an example as ids, see `Batches`."""
        gold = self.gold(example)
        return model.label_ids(gold) if isinstance(gold, list) else model.label_ids([gold])[0]

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

    # The model.

    def new_model(
        self, config: TaskConfig, labels: Sequence[str], examples: Sequence[Any], bilm: BiLM | None
    ) -> TaskModel:
        """Builds an untrained model for the words of training examples."""
        arguments = self.model_arguments(config)
        if labels:
            arguments["labels"] = labels
        embeddings = new_embeddings(config, [*map(self.texts, examples)])
        elmo = bilm and Elmo(
            bilm,
            num_mixes=2 if config.placement == "both" else 1,
            dropout=config.elmo_dropout,
            layer_norm=config.layer_norm,
            l2=config.mix_l2 if config.mix == "learned" else 0.0,
            trainable_bilm=config.fine_tune,
            top_only=config.mix == "top",
            average=config.mix == "average",
            name="elmo",
        )
        for name, value in map(_parsed_option, config.model_options):
            if name in ("labels", "embeddings", "elmo") or arguments.get(name, value) != value:
                raise ValueError(
                    f"`model_options` (--set) cannot set {name}: another setting does."
                )
        return self.models[config.model](embeddings=embeddings, elmo=elmo, **arguments)

    def model_arguments(self, config: TaskConfig) -> dict[str, Any]:
        """The arguments of the model that the settings contain; others keep their defaults."""
        given = {"units": config.units, "dropout": config.dropout}
        given = {name: value for name, value in given.items() if value is not None}
        options = dict(map(_parsed_option, config.model_options))
        return {**given, **options, "placement": config.placement, "tokenizer": config.tokenizer}

    # Predictions ─► scores and output files.

    def predict(
        self, model: TaskModel, inputs: Mapping[str, Any], examples: Sequence[Any]
    ) -> list[Any]:
        """The predictions of a model or an `Ensemble` for a batch, in the form of `gold`."""
        return model.predict_lists(inputs)

    def metric_of(self, config: TaskConfig) -> str:
        """The score that selects the best epoch."""
        return {None: self.metric, "f1_macro": "macro_f1"}.get(config.metric, config.metric)

    def scores(self, gold: Sequence[Any], predicted: Sequence[Any]) -> dict[str, Any]:
        """The scores of predictions."""
        return label_scores(gold, predicted)

    def outputs(
        self, examples: Sequence[Any], predicted: Sequence[Any]
    ) -> dict[str, Iterable[str]]:
        """The lines of each output file, by what is added to its name."""
        return {"": self.lines(examples, predicted)}

    def lines(self, examples: Sequence[Any], predicted: Sequence[Any]) -> Iterator[str]:
        """The lines of an output file: predictions and their texts."""
        for example, label in zip(examples, predicted, strict=True):
            yield f"{label}\t{' '.join(example.tokens)}"


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


def first_line(path: str) -> str:
    """The first line of a file that is not empty; "" without one."""
    check_regular_file(path)  # which is read again
    return next((line for line in read_lines(path) if line.strip()), "")


def new_embeddings(
    config: TaskConfig, texts: Sequence[tuple[list[str], ...]]
) -> list[keras.layers.Layer]:
    """The embedding layers of a task model for the `texts` of each training example."""
    layers: list[keras.layers.Layer] = []
    counts = word_counts((tokens for example in texts for tokens in example), config.lowercase)
    common = [word for word, count in counts.most_common() if count >= _MIN_COUNT]
    if config.word_vectors is not None:
        layers.append(_pretrained_words(config, counts, common))
    elif config.word_dim and common:
        layers.append(
            WordEmbedding(common, config.word_dim, lowercase=config.lowercase, name="words")
        )
    if config.characters:
        layers.append(CharacterEmbedding(name="characters"))
    return layers


def _pretrained_words(
    config: TaskConfig, counts: collections.Counter[str], common: Sequence[str]
) -> WordEmbedding:
    """Embeds the words of a vector file and the common words; the trained ones come first."""
    vectors = read_word_vectors(config.word_vectors)
    if config.freeze_words:
        trained = [word for word in common if word not in vectors]
    else:
        seen = [word for word in vectors if word in counts]
        trained = list(dict.fromkeys([*seen, *common]))
    return WordEmbedding.from_vectors(
        vectors,
        list(dict.fromkeys([*trained, *vectors])),
        lowercase=config.lowercase,
        num_trained=sum(map(is_utf_8, trained)),
        name="words",
    )
