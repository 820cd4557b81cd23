"""A small file for each task, and the settings of a small model."""

import json
from pathlib import Path

from elmo_tf.tasks.config import TaskConfig
from elmo_tf.tasks.scores import found_role_scores
from elmo_tf.tasks.semantic_roles import read_propositions
from elmo_tf.tasks.semantic_roles.predicates import tags_by_predicate

NER = """Anna B-PER
Berg I-PER
lives O
in O
Bonn B-LOC

Bonn B-LOC
is O
small O

Berg B-PER
sings O
"""
TREES = "(1 (2 a) (0 (2 bad) (2 film)))\n(3 (2 a) (4 (3 good) (2 film)))\n"
PAIRS = [
    {"sentence1": "A man sleeps .", "sentence2": "He rests .", "gold_label": "entailment"},
    {"sentence1": "A man sleeps .", "sentence2": "He runs .", "gold_label": "contradiction"},
    {"sentence1": "A dog", "sentence2": "A cat", "gold_label": "-"},
]
REVIEWS = 'label,text\nbad,"a bad, bad film"\n\ngood,"a ""good"" film\nto see"\n'


def _question(name, question, **answers):
    """A question of SQuAD; `answers` are the first characters of the answers `on_the_mat` etc."""
    answers = [
        {"text": text.replace("_", " "), "answer_start": start} for text, start in answers.items()
    ]
    return {"id": name, "question": question, "answers": answers}


_CATS = {
    "context": "The cat, a small one, sat on the mat.\nBonn is small.",
    "qas": [
        _question("where", "Where did the cat sit?", on_the_mat=26, the_mat=29),
        _question("who", "Who sat?", The_cat=0),
    ],
}
_BONN = {"context": "Bonn", "qas": [_question("longer", "Which small city is it?", Bonn=0)]}
SQUAD = {"version": "1.1", "data": [{"title": "cats", "paragraphs": [_CATS, _BONN]}]}
SRL = """Cats - (A0*) (A0*)
love love (V*) *
to - (A1* *
sleep sleep *) (V*)

Nobody -
there -

Anna - (A0*)
sings sing (V*)
"""
COREF = """#begin document (nw/cats); part 000
nw/cats 0 0 Anna - - - - - she - (0)
nw/cats 0 1 saw - - - - - she - -
nw/cats 0 2 Bonn - - - - - she - (1)

nw/cats 0 0 She - - - - - he - (0)
nw/cats 0 1 likes - - - - - he - -
nw/cats 0 2 the - - - - - he - (1
nw/cats 0 3 city - - - - - he - 1)

nw/cats 0 0 It - - - - - he - (1)
nw/cats 0 1 rains - - - - - he - -

#end document
#begin document (bc/none); part 001
bc/none 1 0 Rain - - - - - - - -
bc/none 1 1 falls - - - - - - - -
bc/none 1 2 and - - - - - - - -
bc/none 1 3 then - - - - - - - -
bc/none 1 4 stops - - - - - - - -

#end document
"""
FILES = {
    "ner": ("ner.conll", NER),
    "pos": ("pos.conllu", "1\tthe\t_\tDET\n2\tcat\t_\tNOUN\n\n1\tsat\t_\tVERB\n"),
    "sst": ("sst.txt", TREES),
    "snli": ("snli.jsonl", "".join(json.dumps(pair) + "\n" for pair in PAIRS)),
    "classify": ("reviews.csv", REVIEWS),
    "squad": ("squad.json", json.dumps(SQUAD)),
    "srl": ("srl.props", SRL),
    "coref": ("coref.conll", COREF),
}
SMALL = {"units": 6, "word_dim": 5, "learning_rate": 0.03, "dropout": 0.0, "batch_size": 2}


def document(*cells, name="d"):
    """A document of one sentence with these cells in its last column."""
    rows = [f"{name} 0 {index} word{index} {cell}\n" for index, cell in enumerate(cells)]
    return f"#begin document ({name}); part 000\n{''.join(rows)}\n#end document\n"


def squad_of(passage, *questions):
    return {"version": "1.1", "data": [{"paragraphs": [{"context": passage, "qas": questions}]}]}


def config_of(task, **settings):
    """Settings of a task, for files that do not exist."""
    return TaskConfig(task, "train", "dev", "workdir", **settings)


def sentences(columns):
    """The tokens of each sentence of a text in columns."""
    blocks = columns.strip().split("\n\n")
    return [[line.split()[0] for line in block.splitlines()] for block in blocks]


def plain_text(columns):
    """The sentences of a text in columns, one per line."""
    return "".join(f"{' '.join(tokens)}\n" for tokens in sentences(columns))


def written_found_scores(examples, path):
    """The scores of propositions that a model found in plain sentences, as written to a file."""
    return found_role_scores(*map(tags_by_predicate, (examples, written_propositions(path))))


def written_propositions(path):
    """The propositions of an output file and its file of words."""
    words, roles = (Path(f"{path}{end}").read_text().splitlines() for end in (".words", ""))
    columns = Path(f"{path}.columns")
    columns.write_text("\n".join(map("\t".join, zip(words, roles, strict=True))))
    return read_propositions(columns)
