"""The first-sense baseline on SemEval-2007, compared with the published F1."""

import pytest

from development_data import shared
from elmo_tf.evaluation import SenseCorpus, SenseInventory, sense_scores

# Raganato et al. 2017, table 3: the first sense of WordNet 3.0. The inventory used here differs:
# it lacks some of those senses.
PUBLISHED = 0.552


def test_the_first_sense_baseline_matches_the_published_f1():
    directory = shared("data", "wsd")
    corpus = SenseCorpus(directory / "semeval2007" / "semeval2007.data.xml")
    inventory = SenseInventory(directory / "wsd_oewn_inventory.tsv")

    occurrences = [one for sentence in corpus for one in sentence.occurrences]
    gold = {one.id: one.senses for one in occurrences}
    pos = {one.id: one.pos for one in occurrences}
    first = {one.id: [inventory.first_sense(*one.lemma_pos)] for one in occurrences}
    scores = sense_scores(gold, first, pos)

    assert scores["all"].f1 == pytest.approx(PUBLISHED, abs=0.02)
    assert (scores["noun"].occurrences, scores["verb"].occurrences) == (159, 296)
    assert sum(scores[part].correct for part in ("noun", "verb")) == scores["all"].correct
