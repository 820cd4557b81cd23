"""Prefetching of dataset elements."""

import threading

import tensorflow as tf

from elmo_tf.text.prefetch import prefetch


def test_prefetch_prepares_the_next_elements_in_advance():
    made = []
    is_made = threading.Semaphore(0)

    def numbers():
        for number in range(6):
            made.append(number)
            is_made.release()
            yield number

    dataset = tf.data.Dataset.from_generator(numbers, output_signature=tf.TensorSpec((), tf.int32))
    iterator = iter(prefetch(dataset, 2))
    first = next(iterator)
    for _ in range(3):  # the first and two more, before they are requested
        assert is_made.acquire(timeout=10)
    assert [int(one) for one in (first, *iterator)] == made == list(range(6))


def test_autotuning_is_disabled():
    dataset = prefetch(tf.data.Dataset.range(3), 1)
    assert dataset.options().autotune.enabled is False
