import tensorflow as tf

from elmo_tf.trainers.streams import training_windows


def test_a_restored_iterator_resumes_from_its_saved_position(text, tmp_path):
    files = [text / "train_1.txt", text / "train_2.txt"]

    def new_iterator():
        iterator = iter(training_windows(files, num_rows=3, window=5, seed=4))
        return iterator, tf.train.Checkpoint(windows=iterator)

    iterator, checkpoint = new_iterator()
    for _ in range(150):  # into the second pass
        next(iterator)
    path = checkpoint.save(str(tmp_path / "state"))
    expected = [next(iterator)["inputs"].numpy().tolist() for _ in range(10)]
    iterator, checkpoint = new_iterator()
    checkpoint.restore(path).assert_consumed()
    assert [next(iterator)["inputs"].numpy().tolist() for _ in range(10)] == expected
