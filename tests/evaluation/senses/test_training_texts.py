import pytest

from elmo_tf.evaluation import SenseCorpus
from elmo_tf.evaluation.senses.disambiguation import TrainingTexts
from sense_files import word

CAT = word("cat", "cat", "cat%1")


@pytest.fixture
def corpora(corpus):
    """Two corpora with texts of 2, 1, 2, and 3 instances, and a sentence without instances."""
    sentences = [["a", CAT, CAT], ["b", CAT], ["c"]], [["d", CAT], ["e", CAT], ["f", CAT, CAT, CAT]]
    return [
        SenseCorpus(corpus(sentences[0], "one", texts=[1, 2])),
        SenseCorpus(corpus(sentences[1], "two", texts=[2, 1])),
    ]


def names(sentences):
    return "".join(sentence.tokens[0] for sentence in sentences)


def test_all_texts_are_used_for_training_by_default(corpora):
    texts = TrainingTexts(corpora)

    assert (names(texts.training()), names(texts.held_out())) == ("abcdef", "")
    assert (texts.num_sentences, texts.num_occurrences) == (6, 8)


@pytest.mark.parametrize(
    ("share", "training", "held_out"),
    [
        (0.01, "abcde", "f"),  # texts are not split
        (3 / 8, "abcde", "f"),
        (0.38, "abc", "def"),
        (0.75, "a", "bcdef"),
    ],
)
def test_the_last_texts_are_held_out_by_share_of_instances(corpora, share, training, held_out):
    texts = TrainingTexts(corpora, share)

    assert (names(texts.training()), names(texts.held_out())) == (training, held_out)
    assert texts.num_sentences == len(training)


def test_holding_out_all_texts_is_an_error(corpora):
    with pytest.raises(ValueError, match=r"Holding out 0\.76 of the occurrences would leave no"):
        TrainingTexts(corpora, 0.76)


@pytest.mark.parametrize("share", [-0.1, 1.0])
def test_a_held_out_share_outside_0_to_1_is_an_error(corpora, share):
    with pytest.raises(ValueError, match="`held_out` must be from 0 to below 1"):
        TrainingTexts(corpora, share)
