"""Tasks with one label per text or pair of texts."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from elmo_tf.tasks import BCN, ESIM, BiLSTMClassifier
from elmo_tf.tasks.data.labelled_texts import is_table, read_labelled, read_pairs, read_sentiment
from elmo_tf.tasks.data.sentiment_trees import read_trees
from elmo_tf.text.sentence_files import FileSentence
from elmo_tf.trainers.tasks.kinds.base import TaskKind, sentences_of

# A bracketed tree and the label of its root.
_TREE = re.compile(r"\(([^\s()]+) .*\)\s*")
_TREE_LABELS = "01234"


class Classification(TaskKind):
    """One label per text."""

    models: ClassVar = {"bcn": BCN, "bilstm": BiLSTMClassifier}

    def _read(self, path, settings, known):
        return read_labelled(path, *_columns(settings), known)

    def read_inputs(self, path, settings, known):
        if is_table(path) and settings["format"] is None:
            if settings["token_column"] is not None:
                raise ValueError("`token_column` is not for tables of texts and labels.")
            return read_labelled(path, *_columns(settings), is_labelled=False)
        return sentences_of(path, settings)


class Sentiment(Classification):
    """One label per sentence of a file of trees."""

    def _read(self, path, settings, known):
        return read_sentiment(path, settings["phrases"], settings["binary"], known)

    def read_inputs(self, path, settings, known):
        sentences = sentences_of(path, settings)
        if settings["format"] is None and _look_like_trees(sentences, {*known, *_TREE_LABELS}):
            return [phrases[0] for _, phrases in read_trees(path)]
        return sentences


def _look_like_trees(sentences: Sequence[FileSentence], known: Collection[str]) -> bool:
    """Whether all lines are trees with a known label, rather than text in brackets."""
    trees = [_TREE.fullmatch(sentence.text) for sentence in sentences if sentence.tokens]
    return bool(trees) and all(tree and tree[1] in known for tree in trees)


class Entailment(TaskKind):
    """One label per pair of sentences."""

    models: ClassVar = {"esim": ESIM}

    def _read(self, path, settings, known):
        return read_pairs(path, known)

    def read_inputs(self, path, settings, known):
        if settings["format"] is not None or settings["token_column"] is not None:
            raise ValueError("`format` and `token_column` are not for files of sentence pairs.")
        return read_pairs(path, is_labelled=False)

    def texts(self, example):
        return (example.premise, example.hypothesis)

    def lines(self, examples, predicted):
        for pair, label in zip(examples, predicted, strict=True):
            row = {"sentence1": " ".join(pair.premise), "sentence2": " ".join(pair.hypothesis)}
            yield json.dumps({**row, "label": label}, ensure_ascii=False)


def _columns(settings: Mapping[str, Any]) -> list[str | int]:
    """The names or numbers of the columns of text and label."""
    columns = (settings[name] for name in ("text_column", "label_column"))
    return [int(column) if column.isdecimal() else column for column in columns]
