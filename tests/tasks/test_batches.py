import numpy as np

from elmo_tf.tasks.batches import Batches
from elmo_tf.tasks.coreference import Document, DocumentBatches, part_of_document
from task_models import new_model

TEXTS = [(["the"] * length,) for length in (3, 9, 1, 4, 1, 5, 9, 2)]


def test_each_epoch_has_every_example_once_in_a_new_order():
    batches = Batches(new_model("tagger"), TEXTS, None, 3)

    def orders(seed):
        return [[batch.indices for batch in batches.shuffled(seed, epoch)] for epoch in (1, 2)]

    first, second = orders(seed=0)

    for order in (first, second):
        assert sorted(place for places in order for place in places) == list(range(8))
        assert len(order) == len(batches) == 3
    assert first != second
    assert orders(seed=0) == [first, second]
    assert orders(seed=1) != [first, second]


def test_examples_of_similar_length_are_batched_together():
    batches = Batches(new_model("tagger"), TEXTS, None, 3)

    places = [batch.indices for batch in batches.sorted_by_length()]

    lengths = [[len(TEXTS[place][0]) for place in each] for each in places]
    assert lengths == [[1, 1, 2], [3, 4, 5], [9, 9]]


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
