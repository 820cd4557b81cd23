"""One label per text: tables, and the trees of the Stanford Sentiment Treebank."""

import re
from collections.abc import Mapping
from typing import ClassVar

from elmo_tf.tasks.classification.model import BCN, BiLSTMClassifier
from elmo_tf.tasks.classification.reader import read_labeled, read_sentiment, read_trees
from elmo_tf.tasks.config import TaskConfig
from elmo_tf.tasks.reading import is_table
from elmo_tf.tasks.task import Task, file_sentences
from elmo_tf.tasks.task_model import TaskModel

# A bracketed tree and the label of its root.
_TREE = re.compile(r"\(([^\s()]+) .*\)\s*")
_TREE_LABELS = "01234"


class Classification(Task):
    """One label per text."""

    models: ClassVar[Mapping[str, type[TaskModel]]] = {"bcn": BCN, "bilstm": BiLSTMClassifier}
    packages: ClassVar = ("sklearn.metrics",)

    def _read(self, path, config, known):
        return read_labeled(path, *_columns(config), known)

    def read_inputs(self, path, config, known, format=None, token_column=None):
        if is_table(path) and format is None:
            if token_column is not None:
                raise ValueError("`token_column` is not for tables of texts and labels.")
            return read_labeled(path, *_columns(config), is_labeled=False)
        return file_sentences(path, format, token_column)


def _columns(config: TaskConfig) -> list[str | int]:
    """The names or numbers of the columns of text and label."""
    columns = (config.text_column, config.label_column)
    return [int(column) if column.isdecimal() else column for column in columns]


class Sentiment(Classification):
    """One label per sentence of a file of trees."""

    def _read(self, path, config, known):
        phrases = config.phrases if known is None else None  # for training only
        return read_sentiment(path, phrases, config.binary, known)

    def read_inputs(self, path, config, known, format=None, token_column=None):
        sentences = file_sentences(path, format, token_column)
        trees = [_TREE.fullmatch(sentence.text) for sentence in sentences if sentence.tokens]
        # Trees have a known label, unlike text in brackets.
        labels = {*known, *_TREE_LABELS}
        if format is None and trees and all(tree and tree[1] in labels for tree in trees):
            return [phrases[0] for _, phrases in read_trees(path)]
        return sentences
