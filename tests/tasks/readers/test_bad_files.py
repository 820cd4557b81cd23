"""Errors in files of all tasks: each names the file, and the line or the place."""

import functools
import json

import pytest

from elmo_tf.tasks.classification import read_labeled, read_sentiment
from elmo_tf.tasks.coreference import read_documents
from elmo_tf.tasks.entailment import read_pairs
from elmo_tf.tasks.question_answering import read_questions
from elmo_tf.tasks.reading import read_word_vectors
from elmo_tf.tasks.semantic_roles import read_propositions
from elmo_tf.tasks.tagging import read_tagged
from task_files import document, squad_of

TAGS = [
    ("EU X\n\nalone Y\n", {"tag_column": 3}, r", line 1: no column 3 with a tag.*'EU X'"),
    ("EU\tX\nof\t\n", {}, r", line 2: no column 2 with a tag: 'of '"),
    ("EU\tX\n\tO\n", {}, r", line 2: no column 1 with a token: ' O'"),
    ("EU NNP ORG\n\nEU NNP\n", {}, r", line 3: 2 columns, but line 1 has 3, so the last"),
    ("", {}, r" has no sentences"),
    ("EU ORG\n", {"format": "conllu"}, r", line 1: a line of CoNLL-U must begin .*input-format"),
    ("a O\n\nEU B-Y\nX I-Z\n", {"scheme": "BIO"}, r", line 4: I-Z may not follow B-Y in BIO"),
    ("X I-Y\nY I-Z\n", {"scheme": "IOB1", "known": ["B-Y", "I-Y"]}, r", line 2: unknown tag 'I-Z'"),
]
TREES = [
    ("\n(3 (2 a) (2 b)", ", line 2: .*not balanced: 1 brackets are not closed"),
    ("\na line of text", ", line 2: .*not a tree such as .*: 'a' in column 1"),
    ("\n(3 a) (2 b)", ", line 2: .*not a tree .* in column 7"),
    ("\n(3 (2 ) a)", ", line 2: .*not a tree .* in column 7"),
]
PAIR = {"sentence1": "A man sleeps .", "sentence2": "He rests", "gold_label": "entailment"}
PAIRS = [
    ("\n{", ", line 2: .*Expecting property name"),
    ('{"sentence1": "a", "gold_label": "x"}', ".*`sentence2` is missing. Fields: sentence1, gold"),
    (json.dumps({**PAIR, "gold_label": 0.5}), r".*`gold_label` must be a string. Received: 0\.5"),
    ("\n[1]", r", line 2: .*not a JSON object: \[1\]"),
    (json.dumps({**PAIR, "sentence2": " "}), ", line 1: .*`sentence2` has no token"),
    (json.dumps({**PAIR, "gold_label": "a"}), ", line 1: .*unknown label 'a'. Known .*: entail"),
]
TABLES = [
    ("", ", line 1: there is no column text or label. Columns: none"),
    ("text,class", r", line 1: there is no column label\. Columns: text, class\."),
    ('text,label\n"a\nb",x\n ,x', ", line 4: the text is empty"),
    ("text,label\na, ", ", line 2: the label is empty"),
    ("text,label\na,z", ", line 2: unknown label 'z'. Known labels: x, y"),
    ("text,label\na,x\na", ", line 3: 1 columns, not 2 as in line 1"),
    ('text,label\na,x\n"b,x\nc,y', r", line 3: not valid CSV: unexpected end of data"),
    ("text,label", " has no examples"),
    ("a,x", {"text_column": 3, "label_column": 2}, ", line 1: there is no column 3; the line has"),
]
PROPOSITIONS = [
    ("", {}, r" has no predicates"),
    ("\ngo go\n", {}, r", line 2: the 2 columns .* fit none .* Each predicate needs a column of"),
    ("a -\n\ngo go (V*)\nit - * *\n", {}, r", line 4: .* 3 columns .* 1 predicates .*'it"),
    ("a -\n\na\t-\n\t-\n", {}, r", line 4: no token in column 1, or .*: ' -'"),
    ("a -\n\na go (V\n", {}, r", line 3: column 3: '\(V' is not a bracket such as `\(A1\*`"),
    ("a -\n\na - *\nb go (V*\n", {}, r", line 4: column 3: the bracket of V is not closed"),
    ("a -\n\na - *\nb go (V*))\n", {}, r", line 4: column 3: .* closes a bracket that is not"),
    ("a go (V*) *\nb go * (A1*\nc - * (A2*)\nd - * *)\n", {}, r", line 3: .* of A2 is nested in"),
]
OPEN = document("-").replace("#end document\n", "")
DOCUMENTS = [
    ("", r" has no documents: no line begins with `#begin document`"),
    ("\nd 0 0 word -\n", r", line 2: not of the form `#begin document \(NAME\); part"),
    ("#begin document (d)\n\n#end document\n", r", line 1: the document 'd' has no token"),
    (OPEN + document("-", name="e"), r", line 4: '000' is not a bracket"),
    (OPEN, r", line 1: no `#end document` for this"),
    (document("-", ""), r", line 3: at least 5 columns .* column 4: 'd 0 1 word1'"),
    (document("-", "12"), r", line 3: '12' is not a bracket of an entity, such as `\(12`"),
    (document("(2", "-", "3)"), r", line 4: `3\)` closes what is not open"),
    (document("(2", "(3|(2", "2)"), r", line 2: `\(2` is not closed in its document"),
]
PASSAGE = "Luther didn't go."
squad = functools.partial(squad_of, PASSAGE)
QUESTION = {"id": "q1", "question": "Where?", "answers": [{"text": "go", "answer_start": 14}]}


def answered(text, start):
    return squad({**QUESTION, "answers": [{"text": text, "answer_start": start}]})


def latin_1(value):
    return json.dumps(value, ensure_ascii=False).encode("latin-1")


QUESTIONS = [
    ("", r": Expecting value"),
    ({"version": "1.1"}, r": here or next, not the JSON of SQuAD 1\.1: KeyError\('data'\)"),
    ({"data": []}, r" has no questions"),
    (squad_of(" "), r": a text has no token: ' '"),
    (squad(QUESTION, QUESTION), r", question 'q1': the id occurs twice"),
    (squad({**QUESTION, "answers": ["a"]}), r", question 'q1': here or next, .*TypeError"),
    (answered("Luther", 1), r".* the answer 'Luther' is not at `answer_start` 1 "),
    (answered("", 3), r", question 'q1': the answer '' is not at"),
]
VECTORS = [
    ("", r", line 1: not a token and its numbers: ''"),
    ("a 1 2\n\nb 1 2 3\n", r", line 3: not a token and 2 numbers: 'b 1 2 3'"),
    ("a 1 2\n 3 4\n", r", line 2: not a token and 2 numbers: ' 3 4'"),
    ("a 1 2\nb 3 x4\n", r", line 2: .*'x4'"),
    ("a 1 2\nb 3 1e39\n", r", line 2: a number is infinite or NaN"),
    ("3 2\na 1 2\nb 3 4\n", r" has 2 vectors; its header says 3"),
]
READERS = [
    (read_tagged, "conll", TAGS),
    (read_sentiment, "txt", TREES),
    (functools.partial(read_pairs, known=["entailment"]), "jsonl", PAIRS),
    (functools.partial(read_labeled, known=["x", "y"]), "csv", TABLES),
    (read_propositions, "conll", PROPOSITIONS),
    (read_documents, "conll", DOCUMENTS),
    (read_questions, "json", QUESTIONS),
    (read_word_vectors, "txt", VECTORS),
]


@pytest.mark.parametrize(
    ("reader", "suffix", "content", "options", "message"),
    [
        (reader, suffix, content, own[0] if own else {}, message)
        for reader, suffix, table in READERS
        for content, *own, message in table
    ],
)
def test_the_error_names_the_file_and_the_line(reader, suffix, content, options, message, file):
    with pytest.raises(ValueError, match=rf"wrong\.{suffix}{message}"):
        reader(file(content, f"wrong.{suffix}"), **options)


@pytest.mark.parametrize(
    ("reader", "content", "options", "message"),
    [
        (read_tagged, "a X", {"format": "text"}, "`format` must be conll or conllu"),
        (read_tagged, "a O", {"scheme": "BILOU"}, "`scheme` must be one of BIO, IOB1, BIOUL"),
        (read_labeled, "text,label\na,x", {}, r"a\.txt: .* must end in \.csv or \.tsv or \.js"),
        (read_sentiment, "(5 a)", {"is_binary": True}, r"unknown label '5'. .*: 0, 1, 3, 4"),
        (read_sentiment, "(5 a)", {"known": ["1"]}, r"line 1: unknown label '5'. Known .*: 1\."),
        (read_pairs, json.dumps({**PAIR, "gold_label": "-"}), {}, r"a\.txt has no examples"),
    ],
)
def test_wrong_options_are_refused(reader, content, options, message, file):
    with pytest.raises(ValueError, match=message):
        reader(file(content, "a.txt"), **options)


ODD_DOCUMENT = document("-").replace("word0", "caf\udce9").encode("utf-8", "surrogateescape")
ODD_QUESTION = {"id": "q2", "question": "Caf\u00e9?"}


@pytest.mark.parametrize(
    ("reader", "content", "count"),
    [
        (read_tagged, b"caf\xe9 NN\n\nna\xefve JJ\n\ncaf\xc3\xa9 NN\n", 2),
        (read_propositions, b"caf\xe9 - *\ngo go (V*)\n\nna\xefve -\n", 2),
        (read_documents, ODD_DOCUMENT + document("-").encode(), 1),
        (read_questions, latin_1(squad(QUESTION, ODD_QUESTION)), 1),
    ],
)
def test_invalid_utf_8_in_tokens_is_kept_and_counted(reader, content, count, file, caplog):
    examples = reader(file(content, "a"))

    assert r"\udce9" in repr(examples)
    assert f"{count} with invalid UTF-8" in caplog.text
