"""What tasks differ in: how their files are read, what model they have, how it is judged."""

import abc
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import keras

from elmo_tf.evaluation.task_scores import label_scores, span_scores, tag_scores
from elmo_tf.models.elmo import Elmo
from elmo_tf.tasks import BCN, ESIM, BiLSTMClassifier, CRFTagger
from elmo_tf.tasks.data.labelled_texts import (
    LabelledPair,
    LabelledText,
    is_table,
    read_labelled,
    read_pairs,
    read_sentiment,
)
from elmo_tf.tasks.data.sentiment_trees import read_trees
from elmo_tf.tasks.data.tag_schemes import converted, scheme_tags
from elmo_tf.tasks.data.tagged_sentences import TaggedSentence, read_tagged_files
from elmo_tf.tasks.task_model import TaskModel
from elmo_tf.text.sentence_files import Sentence, format_of, sentence_reader
from elmo_tf.trainers.tasks.config import TaskConfig

# Of the tags of spans within a model: they say where a span ends, too.
_MODEL_SCHEME = "BIOUL"
# A bracket, with what may be the label of a tree behind it.
_TREE = re.compile(r"\(([^\s()]+) .*\)\s*")
_TREE_LABELS = "01234"


class TaskKind(abc.ABC):
    """A kind of task.

    metric: the score by which the best epoch is chosen; larger is better.
    """

    metric: ClassVar[str] = "accuracy"

    @abc.abstractmethod
    def read(
        self, files: Sequence[str], settings: Mapping[str, Any], known: Collection[str] | None
    ) -> list[Any]:
        """The examples of files. Errors name the line.

        Args:
            files: of the task.
            settings: those of `TaskConfig`.
            known: labels that may stand in them; None allows all.
        """

    def texts(self, example: Any) -> tuple[list[str], ...]:
        """The texts of an example, lists of tokens."""
        return (example[0],)

    def answer(self, example: Any) -> Any:
        """What is true of an example."""
        return example[-1]

    def labels(self, examples: Sequence[Any]) -> list[str]:
        """What a model is to predict."""
        return sorted({self.answer(example) for example in examples})

    def known(self, labels: Sequence[str]) -> list[str]:
        """The labels of a model as they stand in files."""
        return list(labels)

    def target(self, model: TaskModel, answer: Any) -> Any:
        """What is true, as `fit` takes it."""
        return model.label_ids([answer])[0]

    def answers(self, model: TaskModel, inputs: Mapping[str, Any]) -> list[Any]:
        """What a model says of a batch."""
        return model.classify(inputs)

    def scores(self, gold: Sequence[Any], predicted: Sequence[Any]) -> dict[str, Any]:
        """How good the answers are."""
        return label_scores(gold, predicted)

    @abc.abstractmethod
    def unlabelled(
        self, path: str, settings: Mapping[str, Any], known: Collection[str]
    ) -> list[tuple[list[str], ...]]:
        """The texts of a file whose labels, if it has some, are not read.

        Args:
            path: the file.
            settings: those of `TaskConfig`, with the `format` and `token_column` of this file, see
                `sentence_reader`.
            known: labels that would stand in such a file.
        """

    def lines(
        self, texts: Sequence[tuple[list[str], ...]], answers: Sequence[Any]
    ) -> Iterator[str]:
        """Answers, with their texts, as lines of a file."""
        for (tokens,), label in zip(texts, answers, strict=True):
            yield f"{label}\t{' '.join(tokens)}"

    @abc.abstractmethod
    def new_model(
        self,
        config: TaskConfig,
        labels: Sequence[str],
        embeddings: Sequence[keras.layers.Layer],
        elmo: Elmo | None,
    ) -> TaskModel:
        """A model that has learnt nothing yet."""


class Tagging(TaskKind):
    """A tag for each token."""

    def read(self, files, settings, known):
        """See `TaskKind`."""
        columns = [settings[name] for name in ("format", "token_column", "tag_column")]
        return read_tagged_files(files, *columns, scheme=self._scheme(settings), known=known)

    def _scheme(self, settings: Mapping[str, Any]) -> str | None:
        return None

    def labels(self, examples: Sequence[TaggedSentence]) -> list[str]:
        """See `TaskKind`."""
        return sorted({tag for example in examples for tag in example.tags})

    def target(self, model, answer):
        """See `TaskKind`."""
        return model.label_ids(answer)

    def answers(self, model, inputs):
        """See `TaskKind`."""
        return model.tag(inputs)

    def scores(self, gold, predicted):
        """See `TaskKind`."""
        return tag_scores(gold, predicted)

    def unlabelled(self, path, settings, known):
        """See `TaskKind`."""
        format = settings["format"]
        sentences = _sentences(path, settings)
        is_text = (format or format_of(path)) == "text"
        if format is None and is_text and _look_like_columns(sentences, known):
            raise ValueError(
                f"{path} is read as text by its name, but each line ends in a label of the model: "
                "are these columns? Name the format (format, --input-format)."
            )
        return [(one.tokens,) for one in sentences]

    def lines(self, texts, answers):
        """See `TaskKind`."""
        for (tokens,), tags in zip(texts, answers, strict=True):
            yield from (f"{token}\t{tag}" for token, tag in zip(tokens, tags, strict=True))
            yield ""

    def new_model(self, config, labels, embeddings, elmo):
        """See `TaskKind`."""
        units = {} if config.units is None else {"units": (config.units, max(config.units // 2, 1))}
        return CRFTagger(
            *(labels, embeddings, elmo, config.placement),
            dropout=config.dropout,
            scheme=self._model_scheme(),
            **units,
        )

    def _model_scheme(self) -> str | None:
        return None


def _look_like_columns(sentences: Sequence[Sentence], known: Collection[str]) -> bool:
    """Whether lines have as many parts each, and end in a tag; not in a full stop alone."""
    rows = [one.tokens for one in sentences if one.tokens]
    last = [row[-1] for row in rows]
    return (
        len({len(row) for row in rows}) == 1
        and len(rows[0]) > 1
        and all(tag in known for tag in last)
        and any(character.isalnum() for tag in last for character in tag)
    )


class NamedEntities(Tagging):
    """Spans of tokens with a type. Files are read as BIO; a model has tags of its own."""

    metric = "f1"

    def _scheme(self, settings):
        return settings["scheme"]

    def _model_scheme(self):
        return _MODEL_SCHEME

    def labels(self, examples):
        """See `TaskKind`."""
        types = sorted({tag[2:] for example in examples for tag in example.tags if tag != "O"})
        return scheme_tags(types, _MODEL_SCHEME)

    def known(self, labels):
        """See `TaskKind`."""
        return scheme_tags(sorted({label[2:] for label in labels if label != "O"}), "BIO")

    def target(self, model, answer):
        """See `TaskKind`."""
        return model.label_ids(converted(answer, "BIO", _MODEL_SCHEME))

    def answers(self, model, inputs):
        """See `TaskKind`."""
        return [converted(tags, _MODEL_SCHEME, "BIO") for tags in model.tag(inputs)]

    def scores(self, gold, predicted):
        """See `TaskKind`."""
        return span_scores(gold, predicted)


class Classification(TaskKind):
    """A label for each text."""

    def read(self, files, settings, known) -> list[LabelledText]:
        """See `TaskKind`."""
        columns = [_column(settings[name]) for name in ("text_column", "label_column")]
        return [text for file in files for text in read_labelled(file, *columns, known)]

    def unlabelled(self, path, settings, known):
        """See `TaskKind`. A table is read as one, unless a format is named."""
        if is_table(path) and settings["format"] is None:
            columns = [_column(settings[name]) for name in ("text_column", "label_column")]
            return [(one.tokens,) for one in read_labelled(path, *columns, is_labelled=False)]
        return [(one.tokens,) for one in _sentences(path, settings)]

    def new_model(self, config, labels, embeddings, elmo):
        """See `TaskKind`."""
        model_class = {"bcn": BCN, "bilstm": BiLSTMClassifier}[config.model]
        return model_class(
            *(labels, embeddings, elmo, config.placement), dropout=config.dropout, **_units(config)
        )


class Sentiment(Classification):
    """A label for each sentence, of trees."""

    def read(self, files, settings, known) -> list[LabelledText]:
        """See `TaskKind`."""
        return [
            text
            for file in files
            for text in read_sentiment(file, settings["phrases"], settings["binary"], known)
        ]

    def unlabelled(self, path, settings, known):
        """See `TaskKind`. A file of trees is read as one."""
        sentences = _sentences(path, settings)
        if settings["format"] is None and _look_like_trees(sentences, {*known, *_TREE_LABELS}):
            return [(phrases[0].tokens,) for _, phrases in read_trees(path)]
        return [(one.tokens,) for one in sentences]


def _look_like_trees(sentences: Sequence[Sentence], known: Collection[str]) -> bool:
    """Whether lines are trees with such labels, and not in brackets for another reason."""
    found = [_TREE.fullmatch(one.text) for one in sentences if one.tokens]
    return bool(found) and all(tree and tree[1] in known for tree in found)


class Entailment(TaskKind):
    """A label for each pair of sentences."""

    def read(self, files, settings, known) -> list[LabelledPair]:
        """See `TaskKind`."""
        return [pair for file in files for pair in read_pairs(file, known)]

    def texts(self, example: LabelledPair) -> tuple[list[str], ...]:
        """See `TaskKind`."""
        return (example.premise, example.hypothesis)

    def unlabelled(self, path, settings, known):
        """See `TaskKind`."""
        if settings["format"] is not None or settings["token_column"] is not None:
            raise ValueError("Pairs have no other format, and no columns of tokens.")
        return [self.texts(pair) for pair in read_pairs(path, is_labelled=False)]

    def lines(self, texts, answers):
        """See `TaskKind`."""
        for (premise, hypothesis), label in zip(texts, answers, strict=True):
            row = {"sentence1": " ".join(premise), "sentence2": " ".join(hypothesis)}
            yield json.dumps({**row, "label": label}, ensure_ascii=False)

    def new_model(self, config, labels, embeddings, elmo):
        """See `TaskKind`."""
        return ESIM(
            *(labels, embeddings, elmo, config.placement), dropout=config.dropout, **_units(config)
        )


KINDS: dict[str, TaskKind] = {
    "ner": NamedEntities(),
    "pos": Tagging(),
    "sst": Sentiment(),
    "snli": Entailment(),
    "classify": Classification(),
}


def _sentences(path: str, settings: Mapping[str, Any]) -> list[Sentence]:
    return list(sentence_reader(path, settings["format"], settings["token_column"])())


def _units(config: TaskConfig) -> dict[str, int]:
    return {} if config.units is None else {"units": config.units}


def _column(setting: str) -> str | int:
    """The name of a column, or its number."""
    return int(setting) if setting.isdecimal() else setting
