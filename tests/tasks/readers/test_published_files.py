"""Published data sets, outside of the repository: how much is read."""

import collections

import pytest

from development_data import shared
from elmo_tf.tasks.classification.reader import read_sentiment
from elmo_tf.tasks.coreference.reader import coreference_column, read_documents
from elmo_tf.tasks.entailment.reader import read_pairs
from elmo_tf.tasks.question_answering.reader import read_questions
from elmo_tf.tasks.semantic_roles.reader import read_propositions
from elmo_tf.tasks.tag_schemes import bio_of_brackets, brackets_of_bio, spans_of
from elmo_tf.tasks.tagging.reader import read_tagged


def total(sequences):
    return sum(map(len, sequences))


def tags(sentences):
    distinct = {tag for sentence in sentences for tag in sentence.tags}
    return total(sentence.tokens for sentence in sentences), len(distinct)


def labels(examples):
    return len({example.label for example in examples})


def questions(found):
    by_passage = {question.passage: question.passage_tokens for question in found}
    tokens = total(by_passage.values()), total(question.question_tokens for question in found)
    return len(by_passage), *tokens, total(question.answers for question in found)


def roles(found):
    spans = [span for proposition in found for span in spans_of(proposition.tags, "BIO")]
    counts = collections.Counter(span.label for span in spans)
    assert counts["V"] == len(found)
    sample = [proposition.tags for proposition in found[:500]]
    assert [bio_of_brackets(brackets_of_bio(tags)) for tags in sample] == sample
    return len(spans) - counts["V"] - counts["C-V"], len(counts)


def entities(found):
    assert all(document.speakers is None for document in found)
    for document in found:
        cells = coreference_column(document.entities, document.sentences)
        assert [*map(len, cells)] == [*map(len, document.sentences)]
    sentences = [sentence for document in found for sentence in document.sentences]
    entities = [entity for document in found for entity in document.entities]
    return len(sentences), total(sentences), len(entities), total(entities)


@pytest.mark.parametrize(
    ("reader", "path", "number", "counts", "expected", "logged"),
    [
        (read_tagged, "pos/de_gsd/de_gsd-ud-dev.conllu", 799, tags, (12_480, 17), ""),
        (read_tagged, "pos/ewt/en_ewt-ud-dev.conllu", 2001, tags, (25_147, 17), ""),
        (read_sentiment, "sst/dev.txt", 1101, labels, 5, ""),
        (read_pairs, "nli/snli/dev.jsonl", 983, labels, 3, ""),
        (read_pairs, "nli/snli_cad/train.tsv", 1666, labels, 3, ""),
        (
            *(read_questions, "squad/dev.json", 1374, questions, (304, 41_509, 15_462, 4906)),
            "37 of 4,906 answers begin or end within a token",
        ),
        (
            *(read_propositions, "srl/dev.gold_conll", 4960, roles, (9556, 45)),
            "1,963 sentences, 434 of them without a predicate",
        ),
        (read_documents, "coref/litbank/dev", 10, entities, (697, 21_018, 875, 2842), ""),
    ],
)
def test_published_files_are_read(reader, path, number, counts, expected, logged, caplog):
    caplog.set_level("INFO", logger="absl")
    path = shared("data", path)

    files = sorted(path.glob("*.conll")) if path.is_dir() else [path]
    found = [example for file in files for example in reader(file)]

    assert (len(found), counts(found)) == (number, expected)
    assert logged in caplog.text
