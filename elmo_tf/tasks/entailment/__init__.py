"""One label per pair of texts."""

import json
from collections.abc import Mapping
from typing import ClassVar

from elmo_tf.tasks.entailment.model import ESIM
from elmo_tf.tasks.entailment.reader import read_pairs
from elmo_tf.tasks.task import Task
from elmo_tf.tasks.task_model import TaskModel


class Entailment(Task):
    """One label per pair of sentences."""

    models: ClassVar[Mapping[str, type[TaskModel]]] = {"esim": ESIM}
    packages: ClassVar = ("sklearn.metrics",)
    input_options: ClassVar = ()

    def _read(self, path, config, known):
        return read_pairs(path, known)

    def read_inputs(self, path, config, known, format=None, token_column=None):
        return read_pairs(path, is_labeled=False)

    def texts(self, example):
        return (example.premise, example.hypothesis)

    def lines(self, examples, predicted):
        for pair, label in zip(examples, predicted, strict=True):
            row = {"sentence1": " ".join(pair.premise), "sentence2": " ".join(pair.hypothesis)}
            yield json.dumps({**row, "label": label}, ensure_ascii=False)
