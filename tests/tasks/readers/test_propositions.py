import random

import pytest

from elmo_tf.tasks.semantic_roles import Proposition, read_propositions
from elmo_tf.tasks.tag_schemes import Span, bio_of_brackets, brackets_of_bio, tags_of

TOKENS = ["My", "cats", "love", "to", "wake", "up"]
LOVE = ["B-A0", "I-A0", "B-V", "B-A1", "I-A1", "I-A1"]
WAKE = ["B-A0", "I-A0", "O", "O", "B-V", "I-V"]
CONLL_2012 = """#begin document (a/b); part 000
a/b 0 0 My PRP (TOP(S(NP* - - - Ann * (A0* (A0* (0
a/b 0 1 cats NNS *) - - - Ann * *) *) 0)
a/b 0 2 love VBP (VP* love love.01 1 Ann * (V*) * -
a/b 0 3 to TO (S(VP* - - - Ann * (A1* * -
a/b 0 4 wake VB (VP* wake wake.02 1 Ann * * (V* -
a/b 0 5 up RP *))))) - - - Ann * *) *) -

a/b 0 0 Yes UH * - - - - * -
#end document
"""


def columns_of(select):
    """The file with some of its columns, without comments."""
    rows = map(str.split, CONLL_2012.splitlines()[1:-1])
    return "".join("\t".join(select(row) if row else []) + "\n" for row in rows)


FILES = {
    "conll2005": columns_of(lambda row: [row[3], row[6], *row[11:-1]]),
    "conll2012": CONLL_2012,
    "propbank": columns_of(lambda row: [*row[:8], *row[11:-1]]),
}


@pytest.mark.parametrize("name", list(FILES))
def test_each_layout_has_a_proposition_per_predicate(file, name):
    propositions = read_propositions(file(FILES[name]))

    assert propositions == [
        Proposition(TOKENS, 2, LOVE, "love"),
        Proposition(TOKENS, 4, WAKE, "wake"),
        Proposition(["Yes"], None, []),
    ]
    assert propositions[0].tokens is propositions[1].tokens


def test_a_first_sentence_with_as_many_tokens_as_columns_is_no_trap(file):
    """In PropBank, column 2 could be that of CoNLL-2005's lemmas: all of seven tokens have one."""
    rows = [f"a\t0\t{i}\tw\tNN\t*\t-\t-\t*" for i in range(7)]
    rows[3] = "a\t0\t3\tw\tNN\t*\tgo\tgo.01\t(V*)"

    (proposition,) = read_propositions(file("\n".join(rows)))

    assert (proposition.predicate, proposition.lemma) == (3, "go")


def test_the_predicate_and_its_role_may_stand_at_different_tokens(file):
    (proposition,) = read_propositions(file("up - *\nset set *\nit - (V*)\n"))

    assert (proposition.predicate, proposition.tags) == (1, ["O", "O", "B-V"])


def test_brackets_and_bio_are_inverse():
    draw = random.Random(3)
    for _ in range(500):
        num_tokens = draw.randrange(1, 12)
        borders = sorted(draw.sample(range(num_tokens + 1), draw.randrange(num_tokens + 1)))
        spans = [
            Span(draw.choice(["V", "A0", "C-A0", "ARGM-TMP"]), first, end)
            for first, end in zip(borders[::2], borders[1::2], strict=False)
        ]
        tags = tags_of(spans, num_tokens, "BIO")

        brackets = brackets_of_bio(tags)

        assert bio_of_brackets(brackets) == tags
        assert brackets_of_bio(bio_of_brackets(brackets)) == brackets
        assert sum(bracket.count("(") for bracket in brackets) == len(spans)
