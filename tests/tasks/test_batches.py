import itertools

import numpy as np
import pytest

from elmo_tf.tasks.batches import Batches
from elmo_tf.tasks.coreference import Document, DocumentBatches, part_of_document
from elmo_tf.tasks.text_model import NO_TAG
from task_models import new_model

TEXTS = [(["the"] * length,) for length in (3, 9, 1, 4, 1, 5, 9, 2)]
TARGETS = [[place % 3] * len(text[0]) for place, text in enumerate(TEXTS)]


@pytest.fixture(scope="module")
def batches():
    return Batches(new_model("tagger"), TEXTS, TARGETS, 3)


def test_each_epoch_has_every_example_once_in_a_new_order(batches):
    def orders(seed):
        return [[batch.indices for batch in batches.shuffled(seed, epoch)] for epoch in (1, 2)]

    first, second = orders(seed=0)

    for order in (first, second):
        assert sorted(place for places in order for place in places) == list(range(8))
        assert len(order) == len(batches) == 3
    assert first != second
    assert orders(seed=0) == [first, second]
    assert orders(seed=1) != [first, second]


def test_examples_of_similar_length_are_batched_together(batches):
    places = [batch.indices for batch in batches.sorted_by_length()]

    lengths = [[len(TEXTS[place][0]) for place in each] for each in places]
    assert lengths == [[1, 1, 2], [3, 4, 5], [9, 9]]


def test_a_batch_is_padded(batches):
    for batch in batches.shuffled(0, 1):
        tokens = batch.inputs["tokens"].numpy()
        for row, place in enumerate(batch.indices):
            length = len(TEXTS[place][0])
            assert (tokens[row, :length] == b"the").all()
            assert (tokens[row, length:] == b"").all()
            np.testing.assert_array_equal(batch.targets[row, :length], TARGETS[place])
            np.testing.assert_array_equal(batch.targets[row, length:], NO_TAG)


def test_the_dataset_for_fit_has_the_same_batches_as_shuffled(batches):
    expected = itertools.chain(batches.shuffled(5, 2), batches.shuffled(5, 3))
    dataset = batches.dataset(5, first_epoch=2).take(2 * len(batches))
    for (inputs, targets), batch in zip(dataset, expected, strict=True):
        np.testing.assert_array_equal(inputs["tokens"], batch.inputs["tokens"])
        np.testing.assert_array_equal(targets, batch.targets)


def test_one_of_several_targets_is_drawn():
    target = np.array([(1, 3), (2, 2)])
    batches = Batches(new_model("tagger"), TEXTS[:1], [target], 1)

    drawn = {tuple(batch.targets[0]) for epoch in range(9) for batch in batches.shuffled(0, epoch)}

    assert drawn == {(1, 3), (2, 2)}


SENTENCES = [["Anna", "saw", "Bonn"], ["She", "likes", "the", "city"], ["It", "rains"]]
ENTITIES = [[(0, 0), (3, 3)], [(2, 2), (5, 6), (7, 7)]]
DOCUMENT = Document("cats", "", SENTENCES, [["A"] * 3, ["B"] * 4, ["C"] * 2], ENTITIES)


def test_a_document_window_contains_only_mentions_inside_the_window():
    part = part_of_document(DOCUMENT, 1, 3)

    assert part.sentences == DOCUMENT.sentences[1:]
    assert part.speakers == DOCUMENT.speakers[1:]
    assert part.entities == [[(0, 0)], [(2, 3), (4, 4)]]


def test_document_windows_are_drawn_again_in_each_epoch():
    batches = DocumentBatches(new_model("tagger"), [DOCUMENT], window=1)

    def drawn():
        inputs = [batch.inputs for epoch in range(12) for batch in batches.shuffled(0, epoch)]
        return [one["tokens"].numpy()[0, 0] for one in inputs]

    assert set(drawn()) == {b"Anna", b"She", b"It"}
    assert drawn() == drawn()
