"""The kinds of tasks: how each reads its files, builds its model, and is scored.

To add a task, write a subclass of `TaskKind`, add it to `KINDS`, and add the task to `TASKS` and
`MODELS` in `config.py`.
"""

import abc
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import keras

from elmo_tf.evaluation.task_scores import label_scores, span_scores, tag_scores
from elmo_tf.models.elmo import Elmo
from elmo_tf.tasks import BCN, ESIM, BiLSTMClassifier, CRFTagger
from elmo_tf.tasks.data.labelled_texts import is_table, read_labelled, read_pairs, read_sentiment
from elmo_tf.tasks.data.sentiment_trees import read_trees
from elmo_tf.tasks.data.tag_schemes import converted, scheme_tags
from elmo_tf.tasks.data.tagged_sentences import read_tagged
from elmo_tf.tasks.task_model import TaskModel
from elmo_tf.text.sentence_files import Sentence, format_of, sentence_reader
from elmo_tf.trainers.tasks.config import TaskConfig

Texts = tuple[list[str], ...]  # the tokens of each text of an example

# Files of named entities are converted to BIO; models predict BIOUL, which also marks span ends.
_FILE_SCHEME, _MODEL_SCHEME = "BIO", "BIOUL"
# A bracketed tree and the label of its root.
_TREE = re.compile(r"\(([^\s()]+) .*\)\s*")
_TREE_LABELS = "01234"


class TaskKind(abc.ABC):
    """A kind of task. An example is a named tuple of its texts and, last, its gold label or tags.

    metric: the score that selects the best epoch; larger is better.
    """

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
    def read_texts(
        self, path: str, settings: Mapping[str, Any], known: Collection[str]
    ) -> list[Texts]:
        """Reads the texts of a file, and ignores its labels if it has some.

        Args:
            path: the file.
            settings: the settings of `TaskConfig`, with the `format` and `token_column` of this
                file, see `sentence_reader`.
            known: labels that a labelled file may hold, to recognize such a file.
        """

    def texts(self, example: Any) -> Texts:
        """The texts of an example."""
        return (example[0],)

    def gold(self, example: Any) -> Any:
        """The gold label or tags of an example."""
        return example[-1]

    def labels(self, examples: Sequence[Any]) -> list[str]:
        """The labels of a model that is trained on the examples."""
        return sorted({self.gold(example) for example in examples})

    def file_labels(self, labels: Sequence[str]) -> list[str]:
        """The labels that files may hold, for the labels of a model."""
        return list(labels)

    def target(self, model: TaskModel, gold: Any) -> Any:
        """The gold label or tags as ids: an int, or one int per token."""
        return model.label_ids([gold])[0]

    def predict(self, model: TaskModel, inputs: Mapping[str, Any]) -> list[Any]:
        """The predictions for a batch, in the form of `gold`."""
        return model.classify(inputs)

    def scores(self, gold: Sequence[Any], predicted: Sequence[Any]) -> dict[str, Any]:
        """The scores of predictions, see `elmo_tf.evaluation.task_scores`."""
        return label_scores(gold, predicted)

    def lines(self, texts: Sequence[Texts], predicted: Sequence[Any]) -> Iterator[str]:
        """The lines of an output file: predictions and their texts."""
        for (tokens,), label in zip(texts, predicted, strict=True):
            yield f"{label}\t{' '.join(tokens)}"

    @abc.abstractmethod
    def new_model(
        self,
        config: TaskConfig,
        labels: Sequence[str],
        embeddings: Sequence[keras.layers.Layer],
        elmo: Elmo | None,
    ) -> TaskModel:
        """Builds an untrained model."""


class _Tagging(TaskKind):
    """One tag per token."""

    model_scheme: ClassVar[str | None] = None  # of tags that mark spans

    def _read(self, path, settings, known):
        columns = [settings[name] for name in ("format", "token_column", "tag_column")]
        scheme = settings["scheme"] if self.model_scheme else None
        return read_tagged(path, *columns, scheme=scheme, known=known)

    def read_texts(self, path, settings, known):
        sentences = _sentences(path, settings)
        is_text = settings["format"] is None and format_of(path) == "text"
        if is_text and _look_like_columns(sentences, known):
            raise ValueError(
                f"{path} is read as text because of its name, but each line ends in a label of the "
                "model. If the file has columns, name its format (format, --input-format)."
            )
        return [(sentence.tokens,) for sentence in sentences]

    def labels(self, examples):
        return sorted({tag for example in examples for tag in example.tags})

    def target(self, model, gold):
        return model.label_ids(gold)

    def predict(self, model, inputs):
        return model.tag(inputs)

    def scores(self, gold, predicted):
        return tag_scores(gold, predicted)

    def lines(self, texts, predicted):
        for (tokens,), tags in zip(texts, predicted, strict=True):
            yield from (f"{token}\t{tag}" for token, tag in zip(tokens, tags, strict=True))
            yield ""

    def new_model(self, config, labels, embeddings, elmo):
        units = {} if config.units is None else {"units": (config.units, max(config.units // 2, 1))}
        return CRFTagger(
            *(labels, embeddings, elmo, config.placement),
            dropout=config.dropout,
            scheme=self.model_scheme,
            **units,
        )


def _look_like_columns(sentences: Sequence[Sentence], known: Collection[str]) -> bool:
    """Whether all lines have the same number of parts and end in a tag other than punctuation."""
    rows = [sentence.tokens for sentence in sentences if sentence.tokens]
    last = [row[-1] for row in rows]
    return (
        len({len(row) for row in rows}) == 1
        and len(rows[0]) > 1
        and all(tag in known for tag in last)
        and any(character.isalnum() for tag in last for character in tag)
    )


class _NamedEntities(_Tagging):
    """Spans of tokens, each with a type."""

    metric = "f1"
    model_scheme = _MODEL_SCHEME

    def labels(self, examples):
        tags = (tag for example in examples for tag in example.tags)
        return scheme_tags(_span_types(tags), _MODEL_SCHEME)

    def file_labels(self, labels):
        return scheme_tags(_span_types(labels), _FILE_SCHEME)

    def target(self, model, gold):
        return model.label_ids(converted(gold, _FILE_SCHEME, _MODEL_SCHEME))

    def predict(self, model, inputs):
        return [converted(tags, _MODEL_SCHEME, _FILE_SCHEME) for tags in model.tag(inputs)]

    def scores(self, gold, predicted):
        return span_scores(gold, predicted)


def _span_types(tags: Iterable[str]) -> list[str]:
    return sorted({tag[2:] for tag in tags if tag != "O"})


class _Classification(TaskKind):
    """One label per text."""

    def _read(self, path, settings, known):
        return read_labelled(path, *_columns(settings), known)

    def read_texts(self, path, settings, known):
        if is_table(path) and settings["format"] is None:
            texts = read_labelled(path, *_columns(settings), is_labelled=False)
        else:
            texts = _sentences(path, settings)
        return [(text.tokens,) for text in texts]

    def new_model(self, config, labels, embeddings, elmo):
        model_class = {"bcn": BCN, "bilstm": BiLSTMClassifier}[config.model]
        return model_class(
            *(labels, embeddings, elmo, config.placement), dropout=config.dropout, **_units(config)
        )


class _Sentiment(_Classification):
    """One label per sentence of a file of trees."""

    def _read(self, path, settings, known):
        return read_sentiment(path, settings["phrases"], settings["binary"], known)

    def read_texts(self, path, settings, known):
        sentences = _sentences(path, settings)
        if settings["format"] is None and _look_like_trees(sentences, {*known, *_TREE_LABELS}):
            return [(phrases[0].tokens,) for _, phrases in read_trees(path)]
        return [(sentence.tokens,) for sentence in sentences]


def _look_like_trees(sentences: Sequence[Sentence], known: Collection[str]) -> bool:
    """Whether all lines are trees with a known label, rather than text in brackets."""
    trees = [_TREE.fullmatch(sentence.text) for sentence in sentences if sentence.tokens]
    return bool(trees) and all(tree and tree[1] in known for tree in trees)


class _Entailment(TaskKind):
    """One label per pair of sentences."""

    def _read(self, path, settings, known):
        return read_pairs(path, known)

    def read_texts(self, path, settings, known):
        if settings["format"] is not None or settings["token_column"] is not None:
            raise ValueError("`format` and `token_column` are not for files of sentence pairs.")
        return [self.texts(pair) for pair in read_pairs(path, is_labelled=False)]

    def texts(self, example):
        return (example.premise, example.hypothesis)

    def lines(self, texts, predicted):
        for (premise, hypothesis), label in zip(texts, predicted, strict=True):
            row = {"sentence1": " ".join(premise), "sentence2": " ".join(hypothesis)}
            yield json.dumps({**row, "label": label}, ensure_ascii=False)

    def new_model(self, config, labels, embeddings, elmo):
        return ESIM(
            *(labels, embeddings, elmo, config.placement), dropout=config.dropout, **_units(config)
        )


KINDS: dict[str, TaskKind] = {
    "ner": _NamedEntities(),
    "pos": _Tagging(),
    "sst": _Sentiment(),
    "snli": _Entailment(),
    "classify": _Classification(),
}


def _sentences(path: str, settings: Mapping[str, Any]) -> list[Sentence]:
    return list(sentence_reader(path, settings["format"], settings["token_column"])())


def _units(config: TaskConfig) -> dict[str, int]:
    return {} if config.units is None else {"units": config.units}


def _columns(settings: Mapping[str, Any]) -> list[str | int]:
    """The names or numbers of the columns of text and label."""
    columns = (settings[name] for name in ("text_column", "label_column"))
    return [int(column) if column.isdecimal() else column for column in columns]
