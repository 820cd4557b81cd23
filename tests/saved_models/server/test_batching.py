import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf.saved_models.server import batching
from elmo_tf.saved_models.server.batching import Batcher, Call


class Held:
    """Runs a model; each run waits until the event `release` is set."""

    def __init__(self, version):
        self.release = threading.Event()
        self.num_begun, self.num_rows = 0, []
        self._run = version.run

    def __call__(self, call):
        self.num_begun += 1
        assert self.release.wait(10)
        self.num_rows.append(max(len(array) for array in call.inputs.values() if array.ndim))
        return self._run(call)


@pytest.fixture
def held(version):
    return Held(version)


@pytest.fixture
def call_of(version):
    """Makes a call for sentences: strings, or lists of tokens that may have padding."""

    def make(sentences, aliases=("default", "elmo", "sequence_len"), **changes):
        if sentences and isinstance(sentences[0], list):
            name, longest = "tokens", max(map(len, sentences))
            padded = [tokens + ["?"] * (longest - len(tokens)) for tokens in sentences]
            lengths = [len(list(filter(None, tokens))) for tokens in sentences]
            inputs = {
                "tokens": np.array(padded, object),
                "sequence_len": np.array(lengths, np.int32),
            }
        else:
            name, inputs = "serving_default", {"strings": np.array(sentences, object)}
        inputs |= changes.pop("inputs", {})
        longest = max((len(str(sentence).split()) for sentence in sentences), default=0)
        num_tokens = len(sentences) * longest
        return Call(name, version.signatures[name], inputs, aliases, num_tokens, **changes)

    return make


def run_together(held, calls, max_batch_size=64):
    """Returns the result or error of each call, when all of them wait behind a first one."""
    batcher = Batcher(held, max_batch_size)
    first = Call(calls[0].name, calls[0].signature, calls[0].inputs, calls[0].aliases)
    with ThreadPoolExecutor(len(calls) + 1) as pool:
        futures = []
        for call in (first, *calls):
            futures.append(pool.submit(batcher.run, call))
            while not futures[-1].done() and held.num_begun + len(batcher._waiting) < len(futures):
                time.sleep(0.001)
            while not held.num_begun:
                time.sleep(0.001)
        held.release.set()
        results = [future.exception(10) or future.result() for future in futures]
    batcher.close()
    return results[1:]


def assert_as_single_call(version, call, arrays):
    for array, wanted in zip(arrays, version.run(call), strict=True):
        np.testing.assert_array_equal(array, wanted)


@pytest.mark.parametrize(
    ("calls", "num_rows"),
    [
        ([["a bb", "ccc"], ["d e f g h i"], [""], ["jj", "", "k l m"]], [2, 7]),
        ([[["a", "bb"], ["c"]], [["d"] * 5], [["e", "f", "g"]]], [2, 4]),
        # Each call may have padding of its own, which it gets back.
        ([[["a", "", ""]], [["b", "c"]], [["d", "e", "f", "", ""]]], [1, 3]),
        ([["a"], [["b"]], ["c d"]], [1, 2, 1]),  # each signature has separate batches
        ([[""], [""]], [1, 2]),
    ],
)
def test_waiting_calls_are_batched_with_unchanged_results(version, held, call_of, calls, num_rows):
    outputs = ["word_emb"], ["sequence_len", "default"], ["elmo"], ["default", "elmo"]
    calls = [
        call_of(sentences, aliases) for sentences, aliases in zip(calls, outputs, strict=False)
    ]
    for call, arrays in zip(calls, run_together(held, calls), strict=True):
        assert_as_single_call(version, call, arrays)
    assert held.num_rows == num_rows


def test_an_invalid_call_does_not_fail_the_others(version, held, call_of):
    def refusing(call):
        if "bad" in call.inputs["strings"]:
            raise tf.errors.InvalidArgumentError(None, None, "a bad word")
        return version.run(call)

    held._run = refusing
    calls = [call_of(["c"]), call_of(["bad"]), call_of(["d e f g"])]
    first, error, last = run_together(held, calls)
    assert error.message == "a bad word"
    assert_as_single_call(version, calls[0], first)
    assert_as_single_call(version, calls[2], last)


def test_lengths_beyond_the_tokens_of_a_call_are_refused_in_a_batch(version, held, call_of):
    wrong = call_of([["a", "b"]], inputs={"sequence_len": np.array([3], np.int32)})
    longer = call_of([["d", "e", "f", "g"]])
    arrays, error = run_together(held, [longer, wrong])
    assert isinstance(error, tf.errors.InvalidArgumentError)
    assert "longer than the sentence" in error.message
    assert_as_single_call(version, longer, arrays)


def test_calls_without_a_common_number_of_rows_are_not_batched(version, held, call_of):
    calls = (
        call_of([], ["default"]),
        call_of([["a"], ["b"]], inputs={"sequence_len": np.array([1], np.int32)}),
    )
    for call, arrays in zip(calls, run_together(held, calls), strict=True):
        assert_as_single_call(version, call, arrays)


def test_a_batch_is_limited_in_sentences_and_tokens(held, call_of, monkeypatch):
    monkeypatch.setattr(batching, "_MAX_TOKENS", 20)
    calls = [["a"] * size for size in (3, 2, 1, 7, 1)]
    calls += [["b " * 10], ["c"], ["d"]]
    run_together(held, [call_of(sentences) for sentences in calls], 5)
    assert held.num_rows == [3, 5, 1, 7, 2, 2]


def test_a_call_that_is_cancelled_while_it_waits_frees_its_memory_at_once(held, call_of):
    batcher, call = Batcher(held, 1), call_of(["a", "b"])
    with ThreadPoolExecutor() as pool:
        first, second = pool.submit(batcher.run, call_of(["c"])), pool.submit(batcher.run, call)
        while not (held.num_begun and batcher._waiting):
            time.sleep(0.01)
        call.arrays.cancel()
        assert isinstance(second.exception(10), tf.errors.CancelledError)
        assert not batcher._waiting
        held.release.set()
        assert first.result(10)
    batcher.close()
    assert held.num_rows == [1]


def test_calls_are_computed_singly_if_output_shapes_do_not_match_inputs(version, held, call_of):
    def changed(call):
        sentences = call.inputs["strings"]
        return [np.ones((len(sentences), max(map(len, sentences)), 3))]  # a column per character

    held._run = changed
    calls = [call_of(["abc"], ["word_emb"]), call_of(["b cdefg"], ["word_emb"])]
    arrays = run_together(held, calls)
    assert [one[0].shape for one in arrays] == [(1, 3, 3), (1, 7, 3)]
    assert held.num_rows == [1, 2, 1, 1]
