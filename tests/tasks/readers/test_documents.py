import random

from elmo_tf.tasks.coreference import Document, coreference_column, read_documents
from task_files import COREF
from task_files import document as columns

LITBANK = """#begin document (1_a (novel) brat);
n\t0\t0\tThe\t_\t_\t_\t_\t_\t_\t_\t_\t(7|(7
n\t0\t1\tcaptain\t_\t_\t_\t_\t_\t_\t_\t_\t(2)|7)|7)
n\t0\t2\t's\t_\t_\t_\t_\t_\t_\t_\t_\t
n\t0\t3\tship\t_\t_\t_\t_\t_\t_\t_\t_\t_

#end document
"""


def test_documents_have_parts_sentences_speakers_and_entities(file):
    first, second = read_documents(file(COREF))

    assert first == Document(
        name="nw/cats",
        part="000",
        sentences=[["Anna", "saw", "Bonn"], ["She", "likes", "the", "city"], ["It", "rains"]],
        speakers=[["she"] * 3, ["he"] * 4, ["he"] * 2],
        entities=[[(0, 0), (3, 3)], [(2, 2), (5, 6), (7, 7)]],
    )
    tokens = ["Rain", "falls", "and", "then", "stops"]
    assert second == Document("bc/none", "001", [tokens], None, [])
    first, _ = read_documents(file(COREF.replace(" she ", " - ")))
    assert first.speakers == [[""] * 3, ["he"] * 4, ["he"] * 2]


def test_the_last_column_of_litbank_may_be_empty_and_a_mark_may_have_no_part(file):
    (document,) = read_documents(file(LITBANK))

    assert document == Document(
        "1_a (novel) brat", "", [["The", "captain", "'s", "ship"]], None, [[(0, 1)], [(1, 1)]]
    )


def test_brackets_of_an_entity_nest_as_a_stack_across_sentences(file):
    cells = columns("(b", "(b|(a", "b)", "a)|b)|(b", "b)").replace("d 0 4", "\nd 0 0")

    (document,) = read_documents(file(cells))

    assert document.sentences == [["word0", "word1", "word2", "word3"], ["word4"]]
    assert document.entities == [[(0, 3), (1, 2), (3, 4)], [(1, 3)]]


def test_reading_a_written_column_gives_the_same_entities(file):
    draw = random.Random(11)
    for _ in range(300):
        num_tokens = draw.randrange(1, 12)
        entities = [draw_entity(draw, num_tokens) for _ in range(draw.randrange(5))]

        (cells,) = coreference_column(entities, [["word"] * num_tokens])

        (document,) = read_documents(file(columns(*cells)))
        assert document.entities == sorted(map(sorted, entities))


def draw_entity(draw, num_tokens):
    """Mentions of which none cross, except that they may share a token at their ends."""
    spans = [(i, j) for i in range(num_tokens) for j in range(i, num_tokens)]
    mentions = set()
    for _ in range(draw.randrange(1, 6)):
        first, last = draw.choice(spans)
        if not any(i < first < j < last or first < i < last < j for i, j in mentions):
            mentions.add((first, last))
    return list(mentions)
