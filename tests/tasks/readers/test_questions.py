import random
import re

import pytest

from elmo_tf.tasks.question_answering import read_questions, tokens_with_offsets
from task_files import squad_of

PASSAGE = "\U0001f600 Luther didn't go.\nHe was\u00a0born in 1483 (in Eisleben)."


def answer(text):
    return {"text": text, "answer_start": PASSAGE.index(text)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("He didn't, can't.", "He did n't , ca n't ."),
        ("It's IT'S we're I'll you've I'd I'm", "It 's IT 'S we 're I 'll you 've I 'd I 'm"),
        ("don\u2019t Song\u2019s", "do n\u2019t Song \u2019s"),
        ("the dogs' '70s 'style o'clock", "the dogs ' ' 70s ' style o ' clock"),
        (
            "$1,000.50 50% 2:45 1990s 19th 3.5m 5, 6.",
            "$ 1,000.50 50 % 2:45 1990s 19th 3.5m 5 , 6 .",
        ),
        (
            "long-term x86-based mid-1960s pre- -x a--b",
            "long-term x86-based mid-1960s pre - - x a -- b",
        ),
        ("25-year-old 10-15 20\u201318 1-", "25 - year-old 10 - 15 20 \u2013 18 1 -"),
        ("the U.S., e.g. S.W.A.T. J.K.Rowling", "the U.S. , e.g. S.W.A.T. J.K. Rowling"),
        ("``so'' and/or (wait...) Jr.", "`` so '' and / or ( wait ... ) Jr ."),
        ("se\u0301ance, \u6771\u4eac", "se\u0301ance , \u6771\u4eac"),  # a combining accent
        (" \t\n", ""),
    ],
)
def test_text_is_split_nearly_as_the_penn_treebank_is(text, expected):
    assert [token.text for token in tokens_with_offsets(text)] == expected.split()


def test_tokens_are_the_text_at_their_offsets_and_nothing_but_whitespace_is_left_out():
    draw = random.Random(7)
    characters = "ab3nt'\u2019sS.,:-_$%`\"(\u0301\u00a0\u2013\n \U0001f600"
    for _ in range(2000):
        text = "".join(draw.choices(characters, k=draw.randrange(30)))
        found = tokens_with_offsets(text)

        assert [text[start:end] for _, start, end in found] == [token.text for token in found]
        assert "".join(token.text for token in found) == re.sub(r"\s", "", text)


def test_questions_have_tokens_offsets_and_the_tokens_that_cover_their_answers(file):
    """A question has several answers or none. Whitespace around an answer does not matter."""
    answers = [["1483", "in 1483"], [], ["1483 (in Eis"], ["idn"], [" 1483 "]]
    rows = [
        {"id": str(number), "question": "When?", "answers": list(map(answer, texts))}
        for number, texts in enumerate(answers)
    ]

    questions = read_questions(
        file(squad_of(PASSAGE, *rows, {"id": "unlabeled", "question": "When?"}))
    )

    assert [question.answers for question in questions] == [*answers, []]
    spans = [[(10, 10), (9, 10)], [], [(10, 13)], [(2, 3)], [(10, 10)], []]
    assert [question.answer_spans for question in questions] == spans
    first, second, *_ = questions
    assert (first.id, first.passage, first.question_tokens) == ("0", PASSAGE, ["When", "?"])
    assert " ".join(first.passage_tokens) == (
        "\U0001f600 Luther did n't go . He was born in 1483 ( in Eisleben ) ."
    )
    found = [PASSAGE[start:end] for start, end in first.passage_offsets]
    assert found == first.passage_tokens
    assert second.passage_tokens is first.passage_tokens
