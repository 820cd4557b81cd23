import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.text.vocabulary import Vocabulary
from elmo_tf.text.windows import boundary_or, lm_windows, target_ids

NUM_LANES, WINDOW = 3, 4


def sentences(seed=0, count=23):
    """Sentences of distinct tokens, so that each can be told by where it is found."""
    rng = np.random.default_rng(seed)
    return [
        [f"{i}.{j}" for j in range(length)] for i, length in enumerate(rng.integers(0, 9, count))
    ]


def dataset_of(sentences):
    ragged = tf.ragged.constant(sentences, dtype=tf.string)
    return tf.data.Dataset.from_tensor_slices(ragged)


def lanes_of(windows):
    """For each lane its real tokens as (forward input, target, backward input, target)."""
    lanes = [[] for _ in range(NUM_LANES)]
    for window in windows:
        inputs, targets, mask = window["inputs"], window["targets"], window["mask"]
        assert inputs.shape == targets.shape == (2, NUM_LANES, WINDOW)
        streams = np.stack([inputs[0], targets[0], inputs[1], targets[1]], axis=-1)
        for lane in range(NUM_LANES):
            real = streams[lane][mask[lane]]
            lanes[lane].extend(tuple(part.decode() for part in row) for row in real)
    return lanes


def sentences_of(lane):
    """Cuts a lane at the forward direction's `<S>`."""
    found = []
    for row in lane:
        if row[0] == " <S>":
            found.append([])
        found[-1].append(row)
    return found


@pytest.fixture(scope="module")
def whole_lanes():
    windows = lm_windows(dataset_of(sentences()), NUM_LANES, WINDOW, drop_remainder=False)
    return lanes_of(windows.as_numpy_iterator())


def test_both_directions_predict_the_next_token_and_the_boundary(whole_lanes):
    for lane in whole_lanes:
        for rows in sentences_of(lane):
            inputs, targets, backward_inputs, backward_targets = zip(*rows, strict=True)
            tokens = list(inputs[1:])
            assert list(inputs) == [" <S>", *tokens]
            assert list(targets) == [*tokens, " </S>"]
            assert list(backward_inputs) == [" </S>", *tokens[::-1]]
            assert list(backward_targets) == [*tokens[::-1], " <S>"]


def test_nothing_is_lost_and_nothing_comes_twice(whole_lanes):
    found = [[row[0] for row in rows[1:]] for lane in whole_lanes for rows in sentences_of(lane)]

    assert sorted(found) == sorted(sentence for sentence in sentences() if sentence)


def test_no_lane_runs_far_ahead_of_the_others(whole_lanes):
    lengths = [len(lane) for lane in whole_lanes]

    assert max(lengths) - min(lengths) <= max(map(len, sentences())) + 1


def test_without_the_remainder_every_token_of_a_window_is_real(whole_lanes):
    windows = list(lm_windows(dataset_of(sentences()), NUM_LANES, WINDOW).as_numpy_iterator())

    assert windows
    assert all(window["mask"].all() for window in windows)
    for lane, whole in zip(lanes_of(windows), whole_lanes, strict=True):
        assert lane == whole[: len(lane)]
        assert len(lane) == WINDOW * len(windows)


def test_padding_comes_last_in_a_lane_and_is_empty():
    windows = list(
        lm_windows(dataset_of(sentences()), NUM_LANES, WINDOW, False).as_numpy_iterator()
    )
    mask = np.concatenate([window["mask"] for window in windows], axis=1)
    inputs = np.concatenate([window["inputs"] for window in windows], axis=2)

    assert (np.diff(mask.astype(int), axis=1) <= 0).all()
    assert not mask.all()
    assert (inputs[:, ~mask] == b"").all()


@pytest.mark.parametrize("count", [1, 2])
def test_fewer_sentences_than_lanes_are_kept_too(count):
    text = [["a", "b"], ["c"]][:count]
    windows = lm_windows(dataset_of(text), NUM_LANES, WINDOW, drop_remainder=False)

    lanes = lanes_of(windows.as_numpy_iterator())

    assert sum(map(len, lanes)) == sum(len(sentence) + 1 for sentence in text)


def test_sentences_of_a_length_that_the_graph_knows_are_the_same():
    text = [["a", "b", "c"], ["d", "e", "f"], ["g", "h", "i"], ["j", "k", "l"]]
    dense = tf.data.Dataset.from_tensor_slices(text)

    known, unknown = (
        list(lm_windows(sentences, NUM_LANES, WINDOW, drop_remainder=False).as_numpy_iterator())
        for sentences in (dense, dataset_of(text))
    )

    assert lanes_of(known) == lanes_of(unknown)
    assert known


def test_no_text_gives_no_window():
    empty = tf.data.Dataset.from_tensor_slices(tf.ragged.constant([[]], dtype=tf.string))

    assert list(lm_windows(empty, NUM_LANES, WINDOW, drop_remainder=False)) == []


def test_the_iterator_goes_on_from_where_it_was_saved(tmp_path):
    def iterator():
        return iter(lm_windows(dataset_of(sentences()), NUM_LANES, WINDOW))

    first = iterator()
    for _ in range(3):
        next(first)
    path = tf.train.Checkpoint(iterator=first).save(str(tmp_path / "state"))
    rest = [window["inputs"].numpy().tolist() for window in first]
    second = iterator()
    next(second)
    tf.train.Checkpoint(iterator=second).restore(path)

    assert [window["inputs"].numpy().tolist() for window in second] == rest
    assert rest


def test_targets_are_looked_up_and_boundaries_are_not_words():
    vocabulary = Vocabulary.build(["a a b"])
    targets = tf.constant([[" <S>", " </S>", "a"], ["b", "other", "<S>"]])

    ids = target_ids(vocabulary, targets)

    assert ids.dtype == tf.int32
    assert ids.numpy().tolist() == [[0, 1, 3], [4, 2, 0]]


def test_boundaries_are_told_from_tokens_of_the_same_name():
    tokens = tf.constant(["<S>", " <S>", "</S>", " </S>"])

    assert boundary_or(tokens, 7, 8, tf.range(4)).numpy().tolist() == [0, 7, 2, 8]
