"""Answers to questions, each a part of a passage."""

import json
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from elmo_tf.tasks.question_answering.model import BiDAF
from elmo_tf.tasks.question_answering.reader import read_questions
from elmo_tf.tasks.scores import answer_scores
from elmo_tf.tasks.task import Task, refuse_repeated
from elmo_tf.tasks.task_model import TaskModel


class QuestionAnswering(Task):
    """Questions on passages, with their answers."""

    models: ClassVar[Mapping[str, type[TaskModel]]] = {"bidaf": BiDAF}
    metric = "f1"
    input_options: ClassVar = ()

    def read(self, files, config, known=None):
        return self.join_inputs(super().read(files, config, known), files)

    def _read(self, path, config, known):
        questions = read_questions(path)
        for question in questions:
            if not question.answers:
                raise ValueError(f"{path}, question {question.id!r} has no answer.")
        return questions

    def read_inputs(self, path, config, known, format=None, token_column=None):
        return read_questions(path)

    def join_inputs(self, examples, files):
        refuse_repeated((f"Question {question.id!r}" for question in examples), files)
        return examples

    def for_training(self, examples, config):
        limit = config.max_tokens
        return examples if limit is None else self._not_longer(examples, limit)

    def texts(self, example):
        return (example.passage_tokens, example.question_tokens)

    def gold(self, example):
        return example.answers

    def labels(self, examples):
        return []

    def target(self, model, example):
        return np.array(example.answer_spans, np.int32)

    def predict(self, model, inputs, examples):
        spans = model.predict_lists(inputs)
        return [
            each.passage[each.passage_offsets[first][0] : each.passage_offsets[last][1]]
            for each, (first, last) in zip(examples, spans, strict=True)
        ]

    def scores(self, gold, predicted):
        return answer_scores(gold, predicted)

    def lines(self, examples, predicted):
        answers = {each.id: text for each, text in zip(examples, predicted, strict=True)}
        yield json.dumps(answers, ensure_ascii=False)
