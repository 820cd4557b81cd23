import itertools

import pytest

from elmo_tf.tasks.tag_schemes import (
    Span,
    TokenError,
    constraints_of,
    converted,
    scheme_tags,
    spans_of,
    tags_of,
)

# One sentence in all schemes: two people side by side, a place of one token, a group of three.
TAGS = {
    "BIO": "O B-PER I-PER B-PER O B-LOC B-GRP I-GRP I-GRP",
    "IOB1": "O I-PER I-PER B-PER O I-LOC I-GRP I-GRP I-GRP",
    "BIOUL": "O B-PER L-PER U-PER O U-LOC B-GRP I-GRP L-GRP",
}
SPANS = [Span("PER", 1, 3), Span("PER", 3, 4), Span("LOC", 5, 6), Span("GRP", 6, 9)]
SCHEMES = tuple(TAGS)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_spans_are_found_and_written(scheme):
    tags = TAGS[scheme].split()

    assert spans_of(tags, scheme) == SPANS
    if scheme != "IOB1":
        assert tags_of(SPANS, len(tags), scheme) == tags


@pytest.mark.parametrize(("source", "target"), [*itertools.product(SCHEMES, ("BIO", "BIOUL"))])
def test_a_scheme_can_be_written_as_another(source, target):
    assert converted(TAGS[source].split(), source, target) == TAGS[target].split()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_sentence_may_have_no_span_and_no_token(scheme):
    assert spans_of([], scheme) == spans_of(["O"], scheme) == []
    assert converted(["O", "O"], scheme, "BIO") == ["O", "O"]


def test_iob1_reads_what_is_broken_bio():
    assert spans_of(["I-PER", "O", "I-LOC", "I-PER", "B-PER"], "IOB1") == [
        Span("PER", 0, 1),
        Span("LOC", 2, 3),
        Span("PER", 3, 4),
        Span("PER", 4, 5),
    ]


@pytest.mark.parametrize(
    ("scheme", "tags", "position", "message"),
    [
        ("BIO", "I-PER", 0, "I-PER may not come first."),
        ("BIO", "O I-PER", 1, "I-PER may not follow O."),
        ("BIO", "B-LOC I-PER", 1, "I-PER may not follow B-LOC."),
        ("BIOUL", "U-PER I-PER", 1, "I-PER may not follow U-PER."),
        ("BIOUL", "O L-PER", 1, "L-PER may not follow O."),
        ("BIOUL", "B-PER O", 1, "O may not follow B-PER."),
        ("BIOUL", "O B-PER I-PER", 2, "I-PER may not come last."),
        ("BIOUL", "B-PER U-PER", 1, "U-PER may not follow B-PER."),
        ("BIO", "O U-PER", 1, "'U-PER' is not a tag of BIO: O, or one of B, I with a dash"),
        ("BIO", "B", 0, "'B' is not a tag of BIO"),
        ("BIOUL", "O O B-", 2, "'B-' is not a tag of BIOUL"),
        ("IOB1", "-PER", 0, "'-PER' is not a tag of IOB1"),
        ("BIO", "o", 0, "'o' is not a tag of BIO"),
    ],
)
def test_what_a_scheme_does_not_allow_is_refused_with_its_place(scheme, tags, position, message):
    with pytest.raises(TokenError) as error:
        spans_of(tags.split(), scheme)

    assert message in str(error.value)
    assert error.value.position == position


@pytest.mark.parametrize("scheme", SCHEMES)
def test_constraints_allow_exactly_what_can_be_read(scheme):
    labels = scheme_tags(["PER", "LOC"], scheme)
    first, between, last = constraints_of(labels, scheme)

    for length in (1, 2, 3):
        for indices in itertools.product(range(len(labels)), repeat=length):
            allowed = first[indices[0]] and last[indices[-1]]
            allowed &= all(between[a][b] for a, b in itertools.pairwise(indices))
            try:
                spans_of([labels[index] for index in indices], scheme)
            except TokenError:
                assert not allowed
            else:
                assert allowed


def test_the_tags_of_a_scheme():
    assert scheme_tags(["A", "B-C"], "BIO") == ["O", "B-A", "I-A", "B-B-C", "I-B-C"]
    assert set(scheme_tags(["A"], "BIOUL")) == {"O", "B-A", "I-A", "U-A", "L-A"}


def test_an_unknown_scheme_is_refused():
    for call in (spans_of, constraints_of):
        with pytest.raises(ValueError, match="`scheme` must be one of BIO, IOB1, BIOUL"):
            call(["O"], "BILOU")
    with pytest.raises(ValueError, match="`scheme` must be one of"):
        tags_of([], 1, "IO")
