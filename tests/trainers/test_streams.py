import collections

import tensorflow as tf

from elmo_tf.trainers.streams import training_windows


def first_tokens(text, seed, count):
    files = [text / "train_1.txt", text / "train_2.txt"]
    windows = training_windows(files, num_rows=3, window=5, seed=seed).take(count)
    return [window["targets"][0].numpy().tolist() for window in windows]


def test_the_seed_determines_the_order(text):
    assert first_tokens(text, 1, 20) == first_tokens(text, 1, 20)
    assert first_tokens(text, 1, 20) != first_tokens(text, 2, 20)


def test_a_pass_takes_every_token_as_often_as_the_text_has_it(text):
    """Two passes, less what is still in the rows."""
    lines = [
        line.split()
        for name in ("train_1.txt", "train_2.txt")
        for line in (text / name).read_text().splitlines()
    ]
    num_targets = sum(len(line) + 1 for line in lines)
    windows = first_tokens(text, 3, 2 * num_targets // 15)
    counts = collections.Counter(
        token.decode() for window in windows for row in window for token in row
    )
    expected = collections.Counter(token for line in lines for token in line)
    for token, count in expected.items():
        assert abs(counts[token] - 2 * count) <= 45, token


def test_the_text_comes_in_another_order_at_the_second_pass(text):
    num_windows = 250 * 7 // 15
    windows = first_tokens(text, 3, 2 * num_windows)
    assert windows[:20] != windows[num_windows : num_windows + 20]


def test_an_iterator_goes_on_from_where_it_was_saved(text, tmp_path):
    files = [text / "train_1.txt", text / "train_2.txt"]

    def begin():
        iterator = iter(training_windows(files, num_rows=3, window=5, seed=4))
        return iterator, tf.train.Checkpoint(windows=iterator)

    iterator, checkpoint = begin()
    for _ in range(150):  # into the second pass
        next(iterator)
    path = checkpoint.save(str(tmp_path / "state"))
    expected = [next(iterator)["inputs"].numpy().tolist() for _ in range(10)]
    iterator, checkpoint = begin()
    checkpoint.restore(path).assert_consumed()
    assert [next(iterator)["inputs"].numpy().tolist() for _ in range(10)] == expected
