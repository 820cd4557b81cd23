"""Entities of documents, and their mentions."""

import itertools
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from elmo_tf.tasks.batches import Batch, Batches, padded_strings
from elmo_tf.tasks.coreference.model import CoreferenceModel
from elmo_tf.tasks.coreference.reader import (
    Document,
    coreference_column,
    part_of_document,
    read_documents,
)
from elmo_tf.tasks.reading import not_empty
from elmo_tf.tasks.scores import coreference_scores
from elmo_tf.tasks.task import Task, file_sentences, first_line, refuse_repeated
from elmo_tf.tasks.task_model import TaskModel
from elmo_tf.text.batches import rounded_length
from elmo_tf.text.reading import encode

_PART = "000"  # of documents without parts


class Coreference(Task):
    """Documents with the mentions of their entities."""

    models: ClassVar[Mapping[str, type[TaskModel]]] = {"coref": CoreferenceModel}
    metric = "average"
    packages: ClassVar = ("scipy.optimize",)
    input_options: ClassVar = ("format",)

    def _read(self, path, config, known):
        return read_documents(path)

    def read_inputs(self, path, config, known, format=None, token_column=None):
        has_marks = first_line(path).startswith("#begin")
        is_text = not has_marks if format is None else format == "text"
        if not is_text:
            return read_documents(path)
        # Documents without names: one sentence per line, an empty line between documents.
        lines = [sentence.tokens for sentence in file_sentences(path, "text", None)]
        documents = [
            Document("", "", list(sentences), None, [])
            for has_tokens, sentences in itertools.groupby(lines, key=bool)
            if has_tokens
        ]
        return not_empty(path, documents, "documents")

    def join_inputs(self, examples, files):
        indices = itertools.count()
        documents = [
            document if document.name else document._replace(name=f"document_{next(indices)}")
            for document in examples
        ]
        names = (f"Document {each.name!r}, part {each.part or _PART!r}," for each in documents)
        refuse_repeated(names, files)
        return documents

    def texts(self, example):
        return tuple(example.sentences)

    def labels(self, examples):
        return []

    def training_batches(self, model, examples, config, layers):
        return DocumentBatches(model, examples, layers, config.window)

    def batches(self, model, examples, batch_size, layers=None):
        return DocumentBatches(model, examples, layers)

    def predict(self, model, inputs, examples):
        return [model.predict_lists(inputs)]

    def scores(self, gold, predicted):
        return coreference_scores(gold, predicted)

    def lines(self, examples, predicted):
        for document, entities in zip(examples, predicted, strict=True):
            yield f"#begin document ({document.name}); part {document.part or _PART}"
            columns = coreference_column(entities, document.sentences)
            for tokens, cells in zip(document.sentences, columns, strict=True):
                for index, (token, cell) in enumerate(zip(tokens, cells, strict=True)):
                    yield f"{document.name}\t{document.part or 0}\t{index}\t{token}\t{cell}"
                yield ""
            yield "#end document"


class DocumentBatches(Batches):
    """Batches of one document, whose rows are its sentences.

    Training reads `window` sentences of a document, from a random one on, with the mentions in
    them. If `window` is None, whole documents are read, without targets.
    """

    def __init__(self, model, documents, layers=None, window=None):
        super().__init__(model, [document.sentences for document in documents], None, 1, layers)
        self._documents = documents
        self._window = window

    def _batch(self, indices, rng=None):
        document = self._documents[indices[0]]
        if self._window is None:
            return Batch(self._inputs(document), None, indices)
        num_starts = max(len(document.sentences) - self._window, 0) + 1
        first = rng.integers(num_starts)
        part = part_of_document(document, first, first + self._window)
        mentions = [
            (*mention, index) for index, entity in enumerate(part.entities) for mention in entity
        ]
        return Batch(self._inputs(part), np.array(mentions, np.int32).reshape(-1, 3), indices)

    def _target_shape(self):
        return (None, 3)

    def _inputs(self, document: Document) -> dict[str, Any]:
        inputs: dict[str, Any] = {}
        self._add_text(inputs, self._model.texts[0], document.sentences)
        length = rounded_length(max(map(len, document.sentences)))
        speakers = document.speakers or [[]] * len(document.sentences)
        inputs["speakers"] = padded_strings(speakers, length)
        inputs["genre"] = tf.constant([encode(document.name.partition("/")[0])])
        return inputs
