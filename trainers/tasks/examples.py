"""Examples of a task ─► batches: texts, the layers of the biLM that are kept, and targets."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from elmo_tf.embedding.layer_files import LayerFiles
from elmo_tf.tasks.crf_tagger import NO_TAG
from elmo_tf.tasks.task_model import TaskModel
from elmo_tf.text.batches import rounded_length
from elmo_tf.text.prefetch import prefetch
from elmo_tf.text.sentences import encode

# Batches within which examples of like length are put together.
_BATCHES_SORTED_TOGETHER = 50


class Batch(NamedTuple):
    """What `fit` takes. `places` are those of the examples."""

    inputs: dict[str, Any]
    targets: Any
    places: list[int]


class DistinctTexts:
    """The texts of several lists of examples, each once.

    Args:
        lists: of examples, each its one or two texts, lists of tokens.
    """

    def __init__(self, *lists: Sequence[tuple[list[str], ...]]):
        self._numbers: dict[tuple[str, ...], int] = {}
        for examples in lists:
            for texts in examples:
                for tokens in texts:
                    self._numbers.setdefault(tuple(tokens), len(self._numbers))
        self.sentences = list(self._numbers)

    def number(self, tokens: Sequence[str]) -> int:
        """The place of a text in `sentences`."""
        return self._numbers[tuple(tokens)]


class Batches:
    """Cuts examples into batches.

    Args:
        model: whose inputs they become.
        texts: of each example, its one or two texts.
        targets: of each example, an int or as many ints as tokens; None for none.
        batch_size: int >= 1.
        kept: the layers of the biLM, and where the texts are in them; None for none.
    """

    def __init__(
        self,
        model: TaskModel,
        texts: Sequence[tuple[list[str], ...]],
        targets: Sequence[Any] | None,
        batch_size: int,
        kept: tuple[DistinctTexts, LayerFiles] | None = None,
    ):
        self._model = model
        self._texts = texts
        self._targets = targets
        self._batch_size = batch_size
        self._kept = kept
        self._lengths = [max(map(len, one)) for one in texts]

    def __len__(self) -> int:
        """How many batches there are."""
        return -(-len(self._texts) // self._batch_size)

    def in_order_of_length(self) -> Iterator[Batch]:
        """All examples, for evaluation."""
        order = sorted(range(len(self._texts)), key=lambda place: self._lengths[place])
        return map(self._batch, self._cut(order))

    def shuffled(self, seed: int, epoch: int) -> Iterator[Batch]:
        """All examples in the order of an epoch, those of like length together."""
        rng = np.random.default_rng((seed, epoch))
        order = rng.permutation(len(self._texts)).tolist()
        pool = self._batch_size * _BATCHES_SORTED_TOGETHER
        cut = []
        for start in range(0, len(order), pool):
            part = sorted(order[start : start + pool], key=lambda place: self._lengths[place])
            cut.extend(self._cut(part))
        rng.shuffle(cut)
        return map(self._batch, cut)

    def dataset(self, seed: int, epoch: int) -> tf.data.Dataset:
        """`shuffled`, as `fit` takes it, prepared while the step before is computed."""
        batches = tf.data.Dataset.from_generator(
            lambda: ((batch.inputs, batch.targets) for batch in self.shuffled(seed, epoch)),
            output_signature=self._signature(),
        )
        batches = batches.apply(tf.data.experimental.assert_cardinality(len(self)))
        return prefetch(batches, 2)

    def _cut(self, places: Sequence[int]) -> list[list[int]]:
        size = self._batch_size
        return [list(places[start : start + size]) for start in range(0, len(places), size)]

    def _signature(self) -> Any:
        inputs: dict[str, tf.TensorSpec] = {}
        for text in self._model.texts:
            inputs[text] = tf.TensorSpec((None, None), tf.string)
            if self._kept is not None:
                num_layers, _, dim = self._kept[1].shape
                shape = (None, num_layers, None, dim)
                inputs[self._model.layers_name(text)] = tf.TensorSpec(shape, tf.float16)
        is_sequence = isinstance(self._targets[0], Sequence)
        return inputs, tf.TensorSpec((None, None) if is_sequence else (None,), tf.int32)

    def _batch(self, places: list[int]) -> Batch:
        inputs: dict[str, Any] = {}
        for index, text in enumerate(self._model.texts):
            rows = [self._texts[place][index] for place in places]
            length = rounded_length(max(map(len, rows)))
            inputs[text] = _padded_strings(rows, length)
            if self._kept is not None:
                inputs[self._model.layers_name(text)] = self._padded_layers(rows, length)
        return Batch(inputs, self._padded_targets(places), places)

    def _padded_layers(self, rows: Sequence[list[str]], length: int) -> np.ndarray:
        distinct, files = self._kept
        num_layers, _, dim = files.shape
        padded = np.zeros((len(rows), num_layers, length, dim), np.float16)
        for row, tokens in enumerate(rows):
            padded[row, :, : len(tokens)] = files.sentence(distinct.number(tokens))
        return padded

    def _padded_targets(self, places: Sequence[int]) -> Any:
        if self._targets is None:
            return None
        targets = [self._targets[place] for place in places]
        if not isinstance(targets[0], Sequence):
            return np.array(targets, np.int32)
        length = rounded_length(max(map(len, targets)))
        padded = np.full((len(targets), length), NO_TAG, np.int32)
        for row, target in enumerate(targets):
            padded[row, : len(target)] = target
        return padded


def _padded_strings(rows: Sequence[list[str]], length: int) -> tf.Tensor:
    return tf.constant(
        [[encode(token) for token in row] + [b""] * (length - len(row)) for row in rows]
    )
