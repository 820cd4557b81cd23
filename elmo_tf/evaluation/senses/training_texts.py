"""Corpora with senses ─► the texts to train on, and those held out to test on."""

from collections import Counter
from collections.abc import Iterator, Sequence

from elmo_tf.evaluation.senses.sense_corpus import SenseCorpus, SenseSentence

# The number of a corpus, and of a text in it.
_Place = tuple[int, int]


class TrainingTexts:
    """The texts of several corpora, of which the last may be held out.

    The corpora are read once to count, so that an error in them comes before any other work.

    Args:
        corpora: at least one.
        held_out: share of the occurrences, from 0 to below 1. The last texts that hold at least so
            many of them are held out; a text stays whole.

    Attributes:
        num_sentences, num_occurrences: of the texts to train on.

    Raises:
        ValueError: `held_out` is out of its range or leaves no text to train on; and see
            `SenseCorpus`.
    """

    def __init__(self, corpora: Sequence[SenseCorpus], held_out: float = 0.0):
        if not 0 <= held_out < 1:
            raise ValueError(f"`held_out` must be from 0 to below 1. Received: {held_out!r}")
        self._corpora = list(corpora)
        sentences: Counter[_Place] = Counter()
        occurrences: Counter[_Place] = Counter()
        for place, sentence in self._sentences():
            sentences[place] += 1
            occurrences[place] += len(sentence.occurrences)
        self._held_out = _last_places(occurrences, held_out)
        if self._held_out and len(self._held_out) == len(occurrences):
            raise ValueError(
                f"Holding out {held_out:g} of the occurrences would leave no text to train on: "
                f"there are {len(occurrences)} texts. Hold out less, or train on more texts."
            )
        kept = sentences.keys() - self._held_out
        self.num_sentences = sum(sentences[place] for place in kept)
        self.num_occurrences = sum(occurrences[place] for place in kept)

    def training(self) -> Iterator[SenseSentence]:
        """The sentences to train on."""
        return (sentence for place, sentence in self._sentences() if place not in self._held_out)

    def held_out(self) -> Iterator[SenseSentence]:
        """The others."""
        return (sentence for place, sentence in self._sentences() if place in self._held_out)

    def _sentences(self) -> Iterator[tuple[_Place, SenseSentence]]:
        for number, corpus in enumerate(self._corpora):
            for sentence in corpus:
                yield (number, sentence.text), sentence


def _last_places(sizes: Counter[_Place], share: float) -> set[_Place]:
    wanted = share * sizes.total()
    places: set[_Place] = set()
    for place in reversed(sizes):
        if wanted <= 0:
            break
        places.add(place)
        wanted -= sizes[place]
    return places
