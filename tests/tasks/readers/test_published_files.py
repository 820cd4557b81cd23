"""Published data sets, outside of the repository: how much is read."""

import pytest

from development_data import shared
from elmo_tf.tasks.classification import read_sentiment
from elmo_tf.tasks.coreference import read_documents
from elmo_tf.tasks.entailment import read_pairs
from elmo_tf.tasks.question_answering import read_questions
from elmo_tf.tasks.semantic_roles import read_propositions
from elmo_tf.tasks.tagging import read_tagged


@pytest.mark.parametrize(
    ("reader", "path", "number"),
    [
        (read_tagged, "pos/de_gsd/de_gsd-ud-dev.conllu", 799),
        (read_sentiment, "sst/dev.txt", 1101),
        (read_pairs, "nli/snli/dev.jsonl", 983),
        (read_pairs, "nli/snli_cad/train.tsv", 1666),
        (read_questions, "squad/dev.json", 1374),
        # Propositions, and sentences without a predicate.
        (read_propositions, "srl/dev.gold_conll", 4960 + 434),
    ],
)
def test_published_files_are_read(reader, path, number):
    assert len(reader(shared("data", path))) == number


def test_published_documents_have_all_entities():
    files = sorted(shared("data", "coref/litbank/dev").glob("*.conll"))
    found = [document for file in files for document in read_documents(file)]

    entities = [entity for document in found for entity in document.entities]
    assert (len(found), len(entities), sum(map(len, entities))) == (10, 875, 2842)
