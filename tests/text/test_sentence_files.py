import gzip

import pytest

from elmo_tf.text.reading import format_of
from elmo_tf.text.sentence_files import sentence_reader
from elmo_tf.text.tokenizers import Token


@pytest.fixture
def file(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def tokens_of(*arguments):
    return [sentence.tokens for sentence in sentence_reader(*arguments)()]


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("text", "text"),
        ("wikigold.conll.txt", "conll"),
        ("A.BIO", "conll"),
        ("folder.conll/text.txt", "text"),
        ("en-ud-dev.conllu.gz", "conllu"),
        ("uniref50.FASTA.gz", "fasta"),
    ],
)
def test_the_format_is_inferred_from_the_file_name(name, format):
    assert format_of(name) == format


def test_whitespace_separates_columns_and_empty_lines_separate_sentences(file):
    text = "-DOCSTART- -X- O\n\n\nEU NNP B-ORG\n. . O\n \n# SYM O\n#begin document (x);\nend NN O"
    path = file("a.conll.gz", gzip.compress(text.encode()))

    assert tokens_of(path) == [["EU", "."], ["#"], ["end"]]
    assert tokens_of(path, None, 2) == [["NNP", "."], ["SYM"], ["NN"]]
    with_tabs = file("b.conll", "New York\tB-LOC\nis\tO\n")
    assert tokens_of(with_tabs) == [["New York", "is"]]


def test_conllu_comments_multiword_ranges_and_empty_nodes_are_skipped(file):
    rows = "# text = du bon\n1-2\tdu\t_\n1\tde\tADP\n2\tle\tDET\n2.1\tempty\t_\n3\t1 000\tNUM\n"
    path = file("a.conllu", rows + "\n# text = #\n1\t#\tSYM\n")

    assert tokens_of(path) == [["de", "le", "1 000"], ["#"]]
    assert tokens_of(path, None, 3) == [["ADP", "DET", "NUM"], ["SYM"]]
    assert [sentence.text for sentence in sentence_reader(path)()] == ["de le 1 000", "#"]


def characters(text):
    return [[Token(text.strip(), 0, len(text.strip()))]] if text.strip() else []


@pytest.mark.parametrize("tokenizer", [None, characters])
def test_fasta_is_refused_as_text_but_not_as_columns(file, tokenizer):
    with pytest.raises(ValueError, match=r"a\.txt, line 1: the text begins with '>', as in FASTA"):
        tokens_of(file("a.txt", ">P1\nMKT\n"), None, None, tokenizer)

    assert tokens_of(file("a.conll", "> SYM\nI PRON\n")) == [[">", "I"]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a.txt", "x"), "`format` must be one of text, conll, conllu, fasta. Received: 'x'"),
        (("a.fa", None, None, characters), r"`tokenizer` requires text; the tokens of a\.fa"),
        (("a.txt", None, 2), r"`token_column` requires a CoNLL file; a\.txt is text"),
        (("a.conll", None, 0), "`token_column` must be at least 1. Received: 0"),
        (("a.fa", None, None, None, "drop"), "`on_invalid` must be error or skip. Received: 'drop"),
    ],
)
def test_invalid_format_arguments_raise_an_error(arguments, message):
    with pytest.raises(ValueError, match=message):
        sentence_reader(*arguments)
