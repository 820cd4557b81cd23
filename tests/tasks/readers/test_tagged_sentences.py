from elmo_tf.tasks.tagging.reader import read_tagged, read_tagged_files

UNIVERSAL = """# text = du bon
1-2\tdu\t_\t_\t_
1\tde\tde\tADP\tP
2\tle\tle\tDET\tD
2.1\tempty\t_\t_\t_
3\t1 000\t_\tNUM\t_

1\t#\t#\tSYM\tFC
"""


def pairs(*arguments, **options):
    """Each sentence as `token/tag token/tag`."""
    return [
        " ".join(f"{token}/{tag}" for token, tag in zip(*sentence, strict=True))
        for sentence in read_tagged(*arguments, **options)
    ]


def test_the_last_column_holds_the_tags(file):
    text = "-DOCSTART- -X- O O\n\nEU NNP B-NP B-ORG\n. . O O\n \nend\tNN\tI-NP\tO\n"

    assert pairs(file(text, "train.conll")) == ["EU/B-ORG ./O", "end/O"]


def test_columns_of_universal_dependencies_are_known(file):
    path = file(UNIVERSAL, "a.conllu.gz")

    assert pairs(path) == ["de/ADP le/DET 1 000/NUM", "#/SYM"]
    assert pairs(path, tag_column=5) == ["de/P le/D 1 000/_", "#/FC"]


def test_a_sentence_begins_where_the_word_numbers_restart(file, caplog):
    text = "1\tthe\tthe\tDET\n2\tcat\tcat\tNOUN\n1\tsit\tsit\tVERB\n"

    assert pairs(file(text, "a.conllu")) == ["the/DET cat/NOUN", "sit/VERB"]
    assert "a.conllu: sentences without an empty line before them" in caplog.text


def test_other_columns_can_be_named(file):
    path = file("0 x EU ORG more\n1 y . O\n", "a.conll")

    assert pairs(path, token_column=3, tag_column=4) == ["EU/ORG ./O"]


def test_a_name_that_tells_nothing_means_columns(file):
    assert pairs(file("EU ORG\n", "eng.train")) == ["EU/ORG"]
    assert pairs(file(UNIVERSAL, "words.txt"), "conllu") == pairs(file(UNIVERSAL, "a.conllu"))


def test_several_files_follow_each_other(file):
    paths = [file("a X\n\nb Y\n", "a.conll"), file("c Z\n", "b.conll")]

    assert [s.tags for s in read_tagged_files(paths)] == [["X"], ["Y"], ["Z"]]


def test_spans_can_be_read_as_bio_from_any_scheme(file):
    path = file("EU I-ORG\nParis I-LOC\nBonn B-LOC\n. O\n", "ner.conll")

    (sentence,) = read_tagged(path, scheme="IOB1")

    assert sentence.tags == ["B-ORG", "B-LOC", "B-LOC", "O"]
