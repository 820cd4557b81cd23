from elmo_tf.tasks.tagging import read_tagged

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

    for name in ("train.conll", "eng.train"):
        assert pairs(file(text, name)) == ["EU/B-ORG ./O", "end/O"]


def test_columns_of_universal_dependencies_are_known(file):
    path = file(UNIVERSAL, "a.conllu.gz")

    assert pairs(path) == ["de/ADP le/DET 1 000/NUM", "#/SYM"]
    assert pairs(file(UNIVERSAL, "words.txt"), "conllu") == pairs(path)
    assert pairs(path, tag_column=5) == ["de/P le/D 1 000/_", "#/FC"]


def test_spans_can_be_read_as_bio_from_any_scheme(file):
    path = file("EU I-ORG\nParis I-LOC\nBonn B-LOC\n. O\n", "ner.conll")

    (sentence,) = read_tagged(path, scheme="IOB1")

    assert sentence.tags == ["B-ORG", "B-LOC", "B-LOC", "O"]
