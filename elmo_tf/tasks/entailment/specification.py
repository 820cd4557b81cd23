"""The task with one label per pair of sentences."""

import json
from typing import ClassVar

from elmo_tf.tasks.entailment.reader import read_pairs
from elmo_tf.tasks.specification import TaskSpecification


class Entailment(TaskSpecification):
    """One label per pair of sentences."""

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
