"""Examples of a task ─► batches of texts, precomputed biLM layers, and targets."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from elmo_tf.embedding.stored_layers import StoredLayers
from elmo_tf.tasks.task_model import TaskModel
from elmo_tf.tasks.text_model import NO_TAG
from elmo_tf.text.batches import rounded_length
from elmo_tf.text.corpus import prefetch
from elmo_tf.text.reading import encode

# Shuffled examples are sorted by length within pools of this many batches, which saves padding.
_BATCHES_PER_POOL = 50


class Batch(NamedTuple):
    """The inputs and targets of `fit`, and the indices of the examples."""

    inputs: dict[str, Any]
    targets: Any
    indices: list[int]


DistinctTexts = dict[tuple[str, ...], int]
Layers = tuple[DistinctTexts, StoredLayers]


def distinct_texts(examples: Iterable[tuple[list[str], ...]]) -> DistinctTexts:
    """The distinct texts of examples, as tuples of tokens, in their order; each with its index."""
    texts = dict.fromkeys(tuple(tokens) for example in examples for tokens in example)
    return {tokens: index for index, tokens in enumerate(texts)}


class Batches:
    """Batches of examples.

    Args:
        model: the model that reads the batches.
        texts: the texts of each example, lists of tokens.
        targets: one target per example: an int (a label); a list of ints (tags); or an int array
            whose rows are alternative targets, one of which is drawn in each epoch. Or None.
        batch_size: examples per batch.
        layers: distinct texts and the biLM's layers for them; None if the model computes them.
        features: the other inputs of each example by name, see `TaskModel`.
    """

    def __init__(
        self,
        model: TaskModel,
        texts: Sequence[tuple[list[str], ...]],
        targets: Sequence[Any] | None,
        batch_size: int,
        layers: Layers | None = None,
        features: Sequence[Mapping[str, Any]] | None = None,
    ):
        self._model = model
        self._texts = texts
        self._targets = targets
        self._batch_size = batch_size
        self._layers = layers
        self._features = features
        self._lengths = [max(map(len, example)) for example in texts]

    def __len__(self) -> int:
        """The number of batches."""
        return -(-len(self._texts) // self._batch_size)

    def sorted_by_length(self) -> Iterator[Batch]:
        """All examples, for evaluation."""
        order = sorted(range(len(self._texts)), key=self._lengths.__getitem__)
        return (self._batch(indices) for indices in self._split(order))

    def shuffled(self, seed: int, epoch: int) -> Iterator[Batch]:
        """All examples in the random order of an epoch, with similar lengths in a batch."""
        rng = np.random.default_rng((seed, epoch))
        order = rng.permutation(len(self._texts)).tolist()
        pool = self._batch_size * _BATCHES_PER_POOL
        batches = []
        for start in range(0, len(order), pool):
            part = sorted(order[start : start + pool], key=self._lengths.__getitem__)
            batches.extend(self._split(part))
        rng.shuffle(batches)
        return (self._batch(indices, rng) for indices in batches)

    def dataset(self, seed: int, first_epoch: int) -> tf.data.Dataset:
        """`shuffled` of one epoch after the other as an endless dataset for `fit`, to be read once.

        `Dataset.from_generator` would set the trim threshold of malloc to 128 KiB. Then all large
        tensors are in new pages, and a step of `BiDAF` takes 1.9 times as long.
        """
        epochs = (self.shuffled(seed, epoch) for epoch in itertools.count(first_epoch))
        batches = itertools.chain.from_iterable(epochs)
        sample = self._batch([0], np.random.default_rng(0))
        inputs = {name: self._model.spec_of(name, value) for name, value in sample.inputs.items()}
        signature = inputs, tf.TensorSpec([None] * sample.targets.ndim, tf.int32)
        specs = tf.nest.flatten(signature)

        def next_batch():
            batch = next(batches)
            return tf.nest.flatten((batch.inputs, batch.targets))

        def read(_):
            tensors = tf.py_function(next_batch, [], [spec.dtype for spec in specs])
            shaped = [
                tf.ensure_shape(x, spec.shape) for x, spec in zip(tensors, specs, strict=True)
            ]
            return tf.nest.pack_sequence_as(signature, shaped)

        return prefetch(tf.data.Dataset.counter().map(read), 2)

    def _split(self, indices: list[int]) -> list[list[int]]:
        size = self._batch_size
        return [indices[start : start + size] for start in range(0, len(indices), size)]

    def _batch(self, indices: list[int], rng: np.random.Generator | None = None) -> Batch:
        inputs: dict[str, Any] = {}
        for place, text in enumerate(self._model.texts):
            self._add_text(inputs, text, [self._texts[index][place] for index in indices])
        for name, spec in self._model.features.items():
            values = [self._features[index][name] for index in indices]
            inputs[name] = tf.constant(values, spec.dtype)
        return Batch(inputs, self._padded_targets(indices, rng), indices)

    def _add_text(self, inputs: dict[str, Any], text: str, rows: Sequence[list[str]]) -> None:
        """Adds the padded tokens of a text, and its layers."""
        length = rounded_length(max(map(len, rows)))
        inputs[text] = padded_strings(rows, length)
        if self._layers is not None:
            distinct, stored = self._layers
            num_layers, _, dim = stored.layers.shape
            padded = np.zeros((len(rows), num_layers, length, dim), np.float16)
            for row, tokens in enumerate(rows):
                padded[row, :, : len(tokens)] = stored.sentence(distinct[tuple(tokens)])
            inputs[self._model.layers_name(text)] = padded

    def _padded_targets(self, indices: Sequence[int], rng: np.random.Generator | None) -> Any:
        if self._targets is None:
            return None
        targets = [self._targets[index] for index in indices]
        if isinstance(targets[0], int):
            return np.array(targets, np.int32)
        if isinstance(targets[0], np.ndarray):
            return np.array([rng.choice(alternatives) for alternatives in targets], np.int32)
        length = rounded_length(max(map(len, targets)))
        return keras.utils.pad_sequences(targets, length, padding="post", value=NO_TAG)


def padded_strings(rows: Sequence[list[str]], length: int) -> tf.Tensor:
    """Rows of tokens as string (row, length)."""
    return tf.constant(
        [[encode(token) for token in row] + [b""] * (length - len(row)) for row in rows]
    )
