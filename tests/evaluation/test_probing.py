import random

import keras
import pytest

from elmo_tf import BiLM, BiLMConfig, Embedder
from elmo_tf.evaluation import probe
from elmo_tf.tasks.tagging.reader import TaggedSentence

pytestmark = pytest.mark.usefixtures("eager_module")

TRAIN = [
    TaggedSentence(["the", "dog", "saw", "a", "saw"], ["D", "N", "V", "D", "N"]),
    TaggedSentence(["a", "dog", "saw", "cats"], ["D", "N", "V", "N"]),
]
TEST = [
    TaggedSentence(["the", "saw", "saw", "a", "house"], ["D", "N", "V", "D", "N"]),
    TaggedSentence(["cats", "sleep", "well"], ["N", "V", "ADV"]),
]
WORDS = ["one", "two", "three", "four", "stop"]


def follows_stop(count, seed):
    """Sentences of random words; the tag of each says whether `stop` precedes it."""
    draw = random.Random(seed)
    sentences = []
    for _ in range(count):
        tokens = draw.choices(WORDS, weights=[1, 1, 1, 1, 3], k=draw.randint(1, 9))
        before = ["", *tokens[:-1]]
        sentences.append(TaggedSentence(tokens, ["no" if t != "stop" else "yes" for t in before]))
    return sentences


@pytest.fixture(scope="module")
def wide_embedder():
    """An embedder of an untrained biLM whose vectors encode much of the context."""
    keras.utils.set_random_seed(0)
    return Embedder(BiLM(BiLMConfig.preset("tiny")))


def test_data_are_counted_and_the_baseline_uses_the_most_frequent_tags(embedder):
    found = probe(embedder, TRAIN, TEST)

    # the/D saw/V saw/V a/D house/N cats/N sleep/N well/N: "saw" is mostly V; N is the commonest.
    assert found.to_json()["baseline"] == {"all": 5 / 8, "known": 4 / 5, "unknown": 1 / 3}
    assert found.tags == 3
    assert (found.train_sentences, found.train_tokens) == (2, 9)
    assert (found.test_sentences, found.test_tokens) == (2, 8)
    assert found.test_unknown == 3
    assert found.test_unseen_tags == 1  # ADV
    assert [one.layer for one in found.layers] == [0, 1, 2]
    for one in found.layers:
        assert one.accuracy.unknown <= 2 / 3


def test_only_layers_above_0_depend_on_the_context(wide_embedder):
    train, test = follows_stop(300, seed=1), follows_stop(100, seed=2)

    found = probe(wide_embedder, train, test, c=10.0, max_iterations=1000)

    tokens_alone, first, _ = (one.accuracy.all for one in found.layers)
    assert tokens_alone == pytest.approx(found.baseline.all, abs=0.05)
    assert first > 0.9 > found.baseline.all + 0.2
    assert all(one.converged and 1 < one.iterations < 1000 for one in found.layers)
    assert all(one.accuracy.unknown is None for one in found.layers)
    assert all(one.accuracy.known == one.accuracy.all for one in found.layers)
    assert found.baseline.unknown is None


def test_large_training_data_are_sampled_by_sentence_with_the_seed(embedder, caplog):
    train = [TaggedSentence([f"w{i}", "x", "y"], ["A", "B", "C"]) for i in range(40)]
    # Of the sampled tokens, only those of the first half have their training tag.
    test = [TaggedSentence([f"w{i}"], ["A" if i < 20 else "B"]) for i in range(40)]

    drawn = [probe(embedder, train, test, max_train_tokens=20, seed=seed) for seed in (0, 0, 1)]

    assert [(one.train_sentences, one.train_tokens) for one in drawn] == [(6, 18)] * 3
    # Tokens of sentences that were not sampled are unknown.
    assert [one.test_unknown for one in drawn] == [34] * 3
    shares = [one.baseline.known for one in drawn]
    assert shares[0] == shares[1] != shares[2]
    assert "trained on 6 of the 40 sentences, sampled with seed 0" in caplog.text
    assert probe(embedder, train, test, max_train_tokens=1).train_sentences == 1


@pytest.mark.parametrize(
    ("train", "test", "settings", "message"),
    [
        ([], TEST, {}, r"There is no token in the training data"),
        (TRAIN, [TaggedSentence([], [])], {}, r"There is no token in the test data"),
        (
            TRAIN,
            [TaggedSentence(["a", "b"], ["D"])],
            {},
            r"A sentence of the test data has 2 tokens but 1 tags: 'a b'",
        ),
        (
            [TaggedSentence(["a", "b"], ["_", "_"])],
            TEST,
            {},
            r"All training tokens have the tag '_'.*--tag-column",
        ),
        (TRAIN, TEST, {"c": 0.0}, r"`c` must be above 0. Received: 0\.0"),
        (TRAIN, TEST, {"max_iterations": 0}, r"`max_iterations` must be an integer of at least 1"),
        (TRAIN, TEST, {"max_train_tokens": 0}, r"`max_train_tokens` must be an integer"),
    ],
)
def test_invalid_data_and_settings_are_errors(embedder, train, test, settings, message):
    with pytest.raises(ValueError, match=message):
        probe(embedder, train, test, **settings)
