import gzip

import pytest

from development_data import shared
from elmo_tf.tasks.data.tagged_sentences import read_tagged, read_tagged_files

UNIVERSAL = """# text = du bon
1-2\tdu\t_\t_\t_
1\tde\tde\tADP\tP
2\tle\tle\tDET\tD
2.1\tempty\t_\t_\t_
3\t1 000\t_\tNUM\t_

1\t#\t#\tSYM\tFC
"""


@pytest.fixture
def file(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def pairs(*arguments, **options):
    """Each sentence as `token/tag token/tag`."""
    return [
        " ".join(f"{token}/{tag}" for token, tag in zip(*sentence, strict=True))
        for sentence in read_tagged(*arguments, **options)
    ]


def test_the_last_column_holds_the_tags(file):
    text = "-DOCSTART- -X- O O\n\nEU NNP B-NP B-ORG\n. . O O\n \nend\tNN\tI-NP\tO\n"

    assert pairs(file("train.conll", text)) == ["EU/B-ORG ./O", "end/O"]


def test_columns_of_universal_dependencies_are_known(file):
    path = file("a.conllu", UNIVERSAL)

    assert pairs(path) == ["de/ADP le/DET 1 000/NUM", "#/SYM"]
    assert pairs(path, tag_column=5) == ["de/P le/D 1 000/_", "#/FC"]


def test_other_columns_can_be_named(file):
    path = file("a.conll", "0 x EU ORG more\n1 y . O\n")

    assert pairs(path, token_column=3, tag_column=4) == ["EU/ORG ./O"]


def test_a_name_that_tells_nothing_means_columns(file):
    assert pairs(file("eng.train", "EU ORG\n")) == ["EU/ORG"]
    assert pairs(file("words.txt", UNIVERSAL), "conllu") == pairs(file("a.conllu", UNIVERSAL))


def test_packed_files_are_read(file):
    assert pairs(file("a.conllu.gz", gzip.compress(UNIVERSAL.encode())))[1] == "#/SYM"


def test_tokens_that_are_no_utf_8_are_kept_and_told_of(file, caplog):
    sentences = read_tagged(file("a.conll", b"caf\xe9 NN\n\nna\xefve JJ\n\ncaf\xc3\xa9 NN\n"))

    assert [sentence.tokens for sentence in sentences] == [["caf\udce9"], ["na\udcefve"], ["café"]]
    assert "a.conll: 2 of 3 sentences have invalid UTF-8" in caplog.text


def test_several_files_follow_each_other(file):
    paths = [file("a.conll", "a X\n\nb Y\n"), file("b.conll", "c Z\n")]

    assert [s.tags for s in read_tagged_files(paths)] == [["X"], ["Y"], ["Z"]]


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("EU X\n\nalone Y\n", {"tag_column": 3}, r"line 1: no column 3 with a tag.*'EU X'"),
        ("EU X\n\nb c d\n", {"token_column": 3, "tag_column": 1}, r"line 1: no column 3 .* token"),
        ("EU\tX\nof\t\n", {}, r"line 2: no column 2 with a tag: 'of '"),
        ("EU\tX\n\tO\n", {}, r"line 2: no column 1 with a token: ' O'"),
        ("one\nword\n", {}, r"line 1: no column 2 .* tag.* 'one'\. Specify .*--tag-column"),
        ("some plain text\nof two lines here\n", {}, r"line 2: 4 columns, but line 1 has 3"),
        ("EU NNP ORG\n\nEU NNP\n", {}, r"line 3: 2 columns, but line 1 has 3, so the last"),
        ("", {}, r"data has no sentences"),
        ("\n-DOCSTART- O\n\n", {}, r"data has no sentences"),
        ("# text = a\n", {"format": "conllu"}, r"data has no sentences"),
        (
            "1\ta\ta\t_\n",
            {"format": "conllu"},
            r"line 1: column 4 is unspecified .* 'a' has no",
        ),
        ("1\ta\t_\n", {"format": "conllu"}, r"line 1: no column 4 with a tag"),
        ("EU ORG\n", {"format": "conllu"}, r"line 1: a line of CoNLL-U must begin .*input-format"),
        ("EU ORG\n", {"format": "text"}, r"`format` must be one of conll, conllu. .*'text'"),
        ("EU ORG\n", {"tag_column": 0}, r"`tag_column` must be an integer of at least 1"),
        ("EU ORG\n", {"token_column": -1}, r"`token_column` must be an integer of at least 1"),
    ],
)
def test_what_has_no_tags_is_named_with_its_line(file, content, options, message):
    with pytest.raises(ValueError, match=message):
        read_tagged(file("data", content), **options)


def test_a_damaged_packed_file_is_an_error(file):
    packed = gzip.compress(UNIVERSAL.encode())

    with pytest.raises(ValueError, match=r"Cannot unpack .*a\.conllu\.gz"):
        read_tagged(file("a.conllu.gz", packed[:-20]))


@pytest.mark.parametrize(
    ("name", "sentences", "tokens", "tags"),
    [
        ("de_gsd/de_gsd-ud-dev.conllu", 799, 12_480, 17),
        ("ewt/en_ewt-ud-dev.conllu", 2001, 25_147, 17),
    ],
)
def test_published_data_is_read(name, sentences, tokens, tags):
    found = read_tagged(shared("data", "pos") / name)

    assert len(found) == sentences
    assert sum(len(sentence.tokens) for sentence in found) == tokens
    assert len({tag for sentence in found for tag in sentence.tags}) == tags


def test_spans_can_be_read_as_bio_from_any_scheme(file):
    path = file("ner.conll", "EU I-ORG\nParis I-LOC\nBonn B-LOC\n. O\n")

    (sentence,) = read_tagged(path, scheme="IOB1")

    assert sentence.tags == ["B-ORG", "B-LOC", "B-LOC", "O"]


def test_tags_that_a_scheme_or_the_caller_does_not_allow_are_refused_with_their_line(file):
    path = file("ner.conll", "a O\n\nEU B-ORG\nParis I-LOC\n")

    with pytest.raises(
        ValueError,
        match=r"ner\.conll, line 4: I-LOC may not follow B-ORG\. .* read as BIO.* IOB1 also",
    ):
        read_tagged(path, scheme="BIO")
    with pytest.raises(ValueError, match=r"line 4: unknown tag 'B-LOC'. Known tags: O, B-ORG"):
        read_tagged(path, scheme="IOB1", known=["O", "B-ORG", "I-ORG"])
    with pytest.raises(ValueError, match="`scheme` must be one of BIO, IOB1, BIOUL"):
        read_tagged(path, scheme="BILOU")
