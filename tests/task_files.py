"""A small file of each task, and settings of a small model."""

import json

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
FILES = {
    "ner": ("ner.conll", NER),
    "pos": ("pos.conllu", "1\tthe\t_\tDET\n2\tcat\t_\tNOUN\n\n1\tsat\t_\tVERB\n"),
    "sst": ("sst.txt", TREES),
    "snli": ("snli.jsonl", "".join(json.dumps(pair) + "\n" for pair in PAIRS)),
    "classify": ("reviews.csv", REVIEWS),
}
SMALL = {"units": 6, "word_dim": 5, "learning_rate": 0.03, "dropout": 0.0, "batch_size": 2}
