import collections
import random
import re

import pytest

from development_data import shared
from elmo_tf.tasks.semantic_roles.reader import (
    Layout,
    Proposition,
    bio_of_brackets,
    brackets_of_bio,
    read_proposition_lines,
    read_propositions,
)
from elmo_tf.tasks.tag_schemes import Span, spans_of, tags_of

TOKENS = ["My", "cats", "love", "to", "wake", "up"]
LOVE = ["B-A0", "I-A0", "B-V", "B-A1", "I-A1", "I-A1"]
WAKE = ["B-A0", "I-A0", "O", "O", "B-V", "I-V"]
CONLL_2005 = """
My    -     (A0*   (A0*
cats  -        *)     *)
love  love   (V*)     *
to    -     (A1*      *
wake  wake     *    (V*
up    -        *)     *)

Yes   -
"""
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
PROPBANK = """
a.xml\t0\t0\tMy\tPRP\t(TOP(S(NP*\t-\t-\t(A0*\t(A0*
a.xml\t0\t1\tcats\tNNS\t*)\t-\t-\t*)\t*)
a.xml\t0\t2\tlove\tVBP\t(VP*\tlove\tlove.01\t(V*)\t*
a.xml\t0\t3\tto\tTO\t(S(VP*\t-\t-\t(A1*\t*
a.xml\t0\t4\twake\tVB\t(VP*\twake\twake.02\t*\t(V*
a.xml\t0\t5\tup\tRP\t*)))))\t-\t-\t*)\t*)

a.xml\t1\t0\tYes\tUH\t*\t-\t-
"""
FILES = {"conll2005": CONLL_2005, "conll2012": CONLL_2012, "propbank": PROPBANK}


@pytest.mark.parametrize("is_named", [True, False])
@pytest.mark.parametrize("name", list(FILES))
def test_each_layout_has_a_proposition_per_predicate(file, name, is_named):
    propositions = read_propositions(file(FILES[name]), name if is_named else None)

    has_rolesets = name != "conll2005"
    assert propositions == [
        Proposition(TOKENS, 2, LOVE, "love.01" if has_rolesets else "love", "love"),
        Proposition(TOKENS, 4, WAKE, "wake.02" if has_rolesets else "wake", "wake"),
    ]
    assert propositions[0].tokens is propositions[1].tokens


def test_other_columns_can_be_given(file):
    path = file("0 ran run I *\n1 I - He (A0*)\n", "a.txt")

    (proposition,) = read_propositions(path, Layout(token=4, roleset=3, roles=5))

    assert proposition == Proposition(["I", "He"], 0, ["O", "B-A0"], "run")


def test_a_hyphen_in_the_column_of_lemmas_is_no_lemma(file):
    (proposition,) = read_propositions(
        file(PROPBANK.replace("love\tlove.01\t(V*)\t*", "-\tlove.01\t(V*)\t*"))
    )[:1]

    assert (proposition.roleset, proposition.lemma) == ("love.01", "")


def test_a_first_sentence_with_as_many_tokens_as_columns_is_no_trap(file):
    """In PropBank, column 2 could be that of CoNLL-2005's lemmas: all of seven tokens have one."""
    rows = [f"a\t0\t{i}\tw\tNN\t*\t-\t-\t*" for i in range(7)]
    rows[3] = "a\t0\t3\tw\tNN\t*\tgo\tgo.01\t(V*)"

    (proposition,) = read_propositions(file("\n".join(rows)))

    assert (proposition.predicate, proposition.roleset) == (3, "go.01")


def test_sentences_without_a_predicate_are_counted(file, caplog):
    with caplog.at_level("INFO", logger="absl"):
        propositions = read_propositions(file(PROPBANK))

    assert len(propositions) == 2
    assert "file.conll: 2 sentences, 1 of them without a predicate." in caplog.text


def test_sentences_without_a_predicate_are_examples_on_request(file):
    first, second = read_propositions(
        file("Rain -\n! -\n\nCats - (A0*)\nsleep sleep (V*)\n"), all_sentences=True
    )

    assert first == (["Rain", "!"], None, [], "", "")
    assert second.tokens == ["Cats", "sleep"]


def test_the_predicate_and_its_role_may_stand_at_different_tokens(file):
    (proposition,) = read_propositions(file("up - *\nset set *\nit - (V*)\n"))

    assert (proposition.predicate, proposition.tags) == (1, ["O", "O", "B-V"])


def test_invalid_utf_8_in_tokens_is_kept_and_counted(file, caplog):
    columns = b"caf\xe9 - (A1*)\nopen open (V*)\n\nna\xefve -\n"

    (proposition,) = read_propositions(file(columns))
    (of_line,) = read_proposition_lines(file(b"1 caf\xe9 opens", "a.txt"))

    assert proposition.tokens[0] == of_line.tokens[0] == "caf\udce9"
    assert "file.conll: 2 of 2 sentences have invalid UTF-8" in caplog.text
    assert "a.txt: 1 of 1 sentences have invalid UTF-8" in caplog.text


@pytest.mark.parametrize(
    ("content", "layout", "message"),
    [
        ("", None, r"file\.conll has no predicates"),
        (
            "a b c\n",
            None,
            r"line 1: the 3 columns of the first sentence fit none of .*conll2005, co",
        ),
        ("a\n", None, r"line 1: the 1 columns of the first sentence fit none .*: 'a'\. Each"),
        (
            "\ngo go\n",
            None,
            r"line 2: the 2 columns .* fit none .* Each predicate needs a column of",
        ),
        ("go go *\n", "conll2006", r"`layout` must be one of conll2005, conll2012, propbank"),
        ("a -\n\ngo go (V*)\nit *\n", None, r"line 4: 2 columns, but line 3 has 3: 'it \*'"),
        ("a -\n\na\n", None, r"line 3: 1 columns, but the layout has at least 2: 'a'"),
        ("a b c d e f g h i j k\n", "conll2012", r"line 1: 11 columns, but .* at least 12"),
        ("a -\n\na\t-\n\t-\n", None, r"line 4: no token in column 1: ' -'"),
        (
            "a -\n\n1 - *\ngo go (V*)\nsay say *\n",
            None,
            r"line 5: the sentence has 2 predicates \(column 2\), but 1 columns of roles \(from "
            r"column 3\)",
        ),
        ("a -\n\n1 - *\n2 - *\n", None, r"line 3: the sentence has 0 predicates .* but 1 columns"),
        ("a -\n\na go (V\n", None, r"line 3: column 3: '\(V' is not a bracket such as `\(A1\*`"),
        ("a -\n\na - *\nb go (V*\n", None, r"line 4: column 3: the bracket of V is not closed"),
        ("a -\n\na - *\nb go (*)\n", None, r"line 4: column 3: '\(\*\)' is not a bracket"),
        ("a -\n\na - *\nb go (V*))\n", None, r"line 4: column 3: .* closes a bracket that is not"),
        (
            "a go (V*) *\nb say * (A1*\nc - * (A2*)\nd - * *)\n",
            None,
            r"line 3: column 4: the bracket of A2 is nested in that of A1",
        ),
        (b"a -\n\na - *\nb go (\xe9*)\n", None, r"line 4: column 3: the tag is not valid UTF-8"),
    ],
)
def test_what_is_no_proposition_is_refused_with_its_line(file, content, layout, message):
    with pytest.raises(ValueError, match=message):
        read_propositions(file(content), layout)


def test_files_without_the_words_of_the_treebank_are_refused(file):
    content = re.sub(r"\t(My|cats|love|to|wake|up)\t", "\t[WORD]\t", PROPBANK)

    with pytest.raises(ValueError, match=r"line 2: all tokens are \[WORD\]\. Insert the words"):
        read_propositions(file(content))


def test_lines_have_the_predicate_the_tokens_and_perhaps_tags(file):
    lines = "2 My cats love hats . ||| B-A0 I-A0 B-V B-A1 O\n\n0 Go now |||\n1 He left\n"

    assert read_proposition_lines(file(lines)) == [
        Proposition(
            ["My", "cats", "love", "hats", "."], 2, ["B-A0", "I-A0", "B-V", "B-A1", "O"], ""
        ),
        Proposition(["Go", "now"], 0, [], ""),
        Proposition(["He", "left"], 1, [], ""),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("My cats", "a line must begin with the index .* 0 to 0 for 1 tokens. It begins with 'My'"),
        ("-1 My cats", "begins with '-1'"),
        ("2 My cats", "from 0 to 1 for 2 tokens. It begins with '2'"),
        ("0", "a line must begin with the index of the predicate, and have tokens"),
        ("0 ||| O", "a line must begin with the index of the predicate, and have tokens"),
        ("0 My cats ||| B-V", "1 tags for 2 tokens"),
        ("0 My cats ||| B-V I-A0", "I-A0 may not follow B-V"),
        ("0 My cats ||| V O", "'V' is not a tag of BIO"),
    ],
)
def test_lines_that_do_not_suit_are_refused_with_their_number(file, line, message):
    with pytest.raises(ValueError, match=rf"a\.txt, line 2: .*{message}"):
        read_proposition_lines(file(f"0 Go\n{line}\n", "a.txt"))


def test_lines_must_be_utf_8_in_their_tags_and_there_must_be_one(file):
    with pytest.raises(
        ValueError, match=r"a\.txt, line 1: the tag is not valid UTF-8: 'B-\\udce9'"
    ):
        read_proposition_lines(file(b"0 Go ||| B-\xe9", "a.txt"))
    with pytest.raises(ValueError, match=r"a\.txt has no predicates"):
        read_proposition_lines(file("\n", "a.txt"))


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


def test_a_bracket_opens_where_the_role_changes():
    """As the scorer of CoNLL-2005 reads tags that a model without constraints may give."""
    tags = ["I-A0", "I-A0", "I-V", "O", "I-A1", "B-A1"]

    assert brackets_of_bio(tags) == ["(A0*", "*)", "(V*)", "*", "(A1*)", "(A1*)"]


@pytest.mark.parametrize(
    ("name", "sentences", "propositions", "arguments", "roles"),
    [
        ("train", "12,506 sentences, 1,968", 40_423, 81_251, 59),
        ("dev", "1,963 sentences, 434", 4960, 9556, 45),
    ],
)
def test_published_propositions_are_read(name, sentences, propositions, arguments, roles, caplog):
    with caplog.at_level("INFO", logger="absl"):
        found = read_propositions(shared("data", "srl", f"{name}.gold_conll"))

    spans = [span for proposition in found for span in spans_of(proposition.tags, "BIO")]
    counts = collections.Counter(span.label for span in spans)
    assert f"{sentences} of them without a predicate" in caplog.text
    assert len(found) == counts["V"] == propositions
    assert len(spans) - counts["V"] - counts["C-V"] == arguments
    assert len(counts) == roles
    sample = [proposition.tags for proposition in found[:500]]
    assert [bio_of_brackets(brackets_of_bio(tags)) for tags in sample] == sample
