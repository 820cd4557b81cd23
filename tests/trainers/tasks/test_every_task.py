"""Training, scores, predictions and resuming of all tasks, and the files of single tasks."""

import functools
import gzip
import json
import os
import shutil

import pytest

from elmo_tf.tasks import PropositionTagger, load_task
from elmo_tf.tasks.coreference import read_documents
from elmo_tf.tasks.registry import TASKS
from elmo_tf.tasks.scores import found_role_scores
from elmo_tf.tasks.semantic_roles.predicates import load_predicate_tagger, tags_by_predicate
from elmo_tf.trainers.tasks.predict import evaluate_task, predict_task
from task_files import (
    FILES,
    PAIRS,
    SRL,
    config_of,
    plain_text,
    sentences,
    squad_of,
    written_found_scores,
    written_propositions,
)

DROPOUT = {"dropout": 0.3, "elmo_dropout": 0.3}
SETTINGS = {
    "ner": {"scheme": "IOB1"},
    "pos": {"has_elmo": False, "lowercase": True},
    "sst": {"placement": "both", "mix": "average", "phrases": 1, "binary": True},
    "snli": {"placement": "output", "layer_norm": True},
    "classify": {"model": "bilstm", "fine_tune": True},
    "squad": {"placement": "both", "optimizer": "adadelta", "ema": 0.9, **DROPOUT},
    "srl": {"model_options": ["num_layers=2", "predicate_dim=3"], "ema": 0.9, **DROPOUT},
    "coref": {"batch_size": 32, "model_options": ["mention_loss=1", "hidden_units=4"], **DROPOUT},
}

# The predictions in an output file.
WRITTEN = {
    "squad": lambda path: [*json.loads(path.read_text()).values()],
    "srl": lambda path: [each.tags or None for each in written_propositions(path)],
    "coref": lambda path: [document.entities for document in read_documents(path)],
}


@pytest.fixture(scope="module")
def trained(run, tmp_path_factory, eager_module):
    """A function that returns the work directory of a task after one epoch, and its record."""
    folder = tmp_path_factory.mktemp("tasks")

    @functools.cache
    def train(task):
        return folder / task, run(task, folder / task, epochs=1, **SETTINGS[task])

    return train


@pytest.fixture
def predicted(trained, tmp_path):
    """A function that predicts a file with this content; returns the number and the lines."""

    def predict(task, content, name="in.txt"):
        (tmp_path / name).write_text(content)
        number = predict_task(trained(task)[0], tmp_path / name, tmp_path / "out", overwrite=True)
        return number, (tmp_path / "out").read_text().splitlines()

    return predict


@pytest.mark.parametrize("task", SETTINGS)
def test_scores_match_those_of_the_written_predictions(trained, task, files, tmp_path):
    workdir, record = trained(task)
    out, again = tmp_path / "predicted", tmp_path / "again"

    scores = evaluate_task(workdir, [files[task]], out)

    found = {name: scores.pop(name) for name in ("predicates", "end_to_end") if task == "srl"}
    assert scores == record["best"]["dev"]
    description = TASKS[task]()
    examples = description.read([str(files[task])], config_of(task, binary=task == "sst"))
    gold = [description.gold(example) for example in examples]
    if task not in ("sst", "snli"):  # which predict trees from text, and pairs without a label
        assert predict_task(workdir, files[task], again) == sum(each is not None for each in gold)
        assert again.read_bytes() == out.read_bytes()
    if task in WRITTEN:
        assert description.scores(gold, WRITTEN[task](out)) == scores
    if task == "srl":
        propositions = [
            {one.predicate: one.tags for one in each}
            for each in PropositionTagger.load(workdir).propositions(sentences(FILES["srl"][1]))
        ]
        assert found == found_role_scores(tags_by_predicate(examples), propositions)
        (tmp_path / "plain.txt").write_text(plain_text(FILES["srl"][1]))
        predict_task(workdir, tmp_path / "plain.txt", again, overwrite=True)
        assert found == written_found_scores(examples, again)
    with pytest.raises(FileExistsError, match="predicted"):
        evaluate_task(workdir, [files[task]], out)


@pytest.mark.parametrize(
    "task", ["srl", *(pytest.param(task, marks=pytest.mark.more) for task in ("squad", "coref"))]
)
def test_a_resumed_run_has_the_same_losses_and_scores_as_an_uninterrupted_run(
    trained, task, run, tmp_path
):
    settings = {**SETTINGS[task], "epochs": 2}
    begun = shutil.copytree(trained(task)[0], tmp_path / "parts")

    whole = run(task, tmp_path / "whole", **settings)
    parts = run(task, begun, resume=True, **settings)

    for name in ("loss", "dev"):
        assert [each[name] for each in parts["epochs"]] == [each[name] for each in whole["epochs"]]
    assert parts["best"] == whole["best"]
    if task == "srl":
        folders = begun, tmp_path / "whole"
        first, second = (json.loads((f / "predicates/task.json").read_text()) for f in folders)
        assert first["best"] == second["best"]
        losses = [[each["loss"] for each in record["epochs"]] for record in (first, second)]
        assert losses[0] == losses[1]


def test_old_runs_refuse_plain_sentences_until_they_are_resumed(trained, run, files, tmp_path):
    old = shutil.copytree(trained("srl")[0], tmp_path / "old")
    shutil.rmtree(old / "predicates")
    weights = (old / "model.keras").read_bytes()
    (tmp_path / "plain.txt").write_text("Cats love to sleep\n\n2 cats sleep\n")

    assert "end_to_end" not in evaluate_task(old, files["srl"])
    with pytest.raises(ValueError, match=r"no tagger that finds predicates .* --resume"):
        predict_task(old, tmp_path / "plain.txt", tmp_path / "out")
    run("srl", old, resume=True, epochs=1, **SETTINGS["srl"])
    number = predict_task(old, tmp_path / "plain.txt", tmp_path / "out")

    assert (old / "model.keras").read_bytes() == weights
    rows = [line.split("\t") for line in (tmp_path / "out").read_text().split("\n")]
    assert [bool(row[0]) for row in rows] == [*[True] * 4, False, False, *[True] * 3, False, False]
    assert number == sum(row[0] not in ("-", "") for row in rows)
    run("srl", old, overwrite=True, has_elmo=False, epochs=1, **SETTINGS["srl"])
    assert load_predicate_tagger([old], load_task(old)).elmo is None


@pytest.mark.parametrize(
    ("content", "name", "predicates"),
    [
        ("Cats sleep .\n\n2 cats - \n", "in.txt", [-1, -1, -1]),
        ("# text = It is\n1\tIt\n2\tis\n", "in.conllu", [-1]),
        ("1\tIt\n2\tis\n", "in.conllu", [-1]),
        ("#begin document x\nCats - (A0*)\nsleep sleep (V*)\n", "in.txt", [1]),
    ],
)
def test_sentences_and_columns_are_told_apart(content, name, predicates, tmp_path):
    srl = TASKS["srl"]()
    (tmp_path / name).write_text(content)

    examples = srl.read_inputs(str(tmp_path / name), config_of("srl"))

    assert [example.predicate for example in examples] == predicates
    if -1 in predicates:
        with pytest.raises(ValueError, match=r"line \d: .*fit none of the layouts"):
            srl.read([str(tmp_path / name)], config_of("srl"))


def test_stdin_is_predicted_as_a_file(trained, command, stdin, tmp_path):
    stdin(b"a good film\n" * 3)
    assert command("task", "predict", trained("sst")[0], "-", tmp_path / "out.gz")[0] == 0
    assert gzip.decompress((tmp_path / "out.gz").read_bytes()).count(b"\n") == 3
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="pipe is not a regular file"):
        predict_task(trained("sst")[0], tmp_path / "pipe", tmp_path / "other")


def test_tagged_texts_are_separated_by_empty_lines(predicted):
    number, lines = predicted("ner", "a good film\n\na bad film\n")

    assert number == 3
    tokens = ["a", "good", "film", "", "", "a", "bad", "film", ""]
    assert [line.partition("\t")[0] for line in lines] == tokens


@pytest.mark.parametrize("task", ["sst", "classify", "snli"])
def test_labels_and_probabilities_are_written_in_the_order_of_the_texts(
    predicted, trained, task, tmp_path
):
    texts, content = ["a good film", "", "a bad film"], "a good film\n\na bad film\n"
    if task == "snli":
        texts = [pair["sentence2"] for pair in PAIRS]
        content = "\n".join(json.dumps({**pair, "gold_label": 0}) for pair in PAIRS)  # unlabeled
    number, lines = predicted(task, content)
    workdir, record = trained(task)

    predict_task(workdir, tmp_path / "in.txt", tmp_path / "out.jsonl", probabilities=True)

    rows = [json.loads(row) for row in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert number == len(rows)
    for line, text, row in zip(lines, texts, rows, strict=True):
        probabilities = row.pop("probabilities")
        assert list(probabilities) == record["labels"]
        assert sum(probabilities.values()) == pytest.approx(1, abs=1e-5)
        assert row["label"] == max(probabilities, key=probabilities.get)
        if task == "snli":
            assert (row["sentence2"], json.loads(line)) == (text, row)
        else:
            assert (row["text"], line) == (text, f"{row['label']}\t{text}")
    assert task != "sst" or record["labels"] == ["negative", "positive"]


def test_predicted_answers_are_substrings_of_the_passage(predicted, trained, tmp_path):
    passage = "The cat , a small one , sat on the mat ."
    questions = [{"id": name, "question": "Where is it ?"} for name in ("where", "why")]

    number, (line,) = predicted("squad", json.dumps(squad_of(passage, *questions)))

    answers = json.loads(line)
    assert list(answers) == ["where", "why"]
    assert number == len(answers)
    assert all(answer and answer in passage for answer in answers.values())
    with pytest.raises(ValueError, match=r"question 'where' has no answer"):
        evaluate_task(trained("squad")[0], [tmp_path / "in.txt"])
    with pytest.raises(ValueError, match="are not for --task squad"):
        predict_task(trained("squad")[0], tmp_path / "in.txt", tmp_path / "new", format="text")


def test_roles_have_all_sentences_and_their_words(predicted, trained, tmp_path):
    content = f"Cats - *\nrun run (V*)\nhats - *\n\n{SRL}"
    number, lines = predicted("srl", content)

    assert number == 4  # sentences without a predicate are kept, but not counted
    rows = [line.split("\t") for line in lines]
    verbs = [line.split()[1:2] or [""] for line in SRL.rstrip().splitlines()]
    assert [row[:1] for row in rows] == [["-"], ["run"], ["-"], [""], *verbs, [""]]
    assert [len(row) for row in rows] == [2, 2, 2, 1, 3, 3, 3, 3, 1, 1, 1, 1, 2, 2, 1]
    words = (tmp_path / "out.words").read_text().splitlines()
    assert words == [*(line.partition(" ")[0] for line in content.rstrip().splitlines()), ""]
    (tmp_path / "out").unlink()
    with pytest.raises(FileExistsError, match=r"out\.words"):  # before it reads
        predict_task(trained("srl")[0], tmp_path / "missing.txt", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_unknown_roles_count_as_missed(trained, tmp_path):
    (tmp_path / "new.props").write_text("Cats - (NEW*)\nsleep sleep (V*)\n")

    unknown = evaluate_task(trained("srl")[0], [tmp_path / "new.props"])

    assert (unknown["recall"], unknown["arguments"]) == (0, 1)


def test_text_is_predicted_as_different_documents(predicted, tmp_path):
    number, _ = predicted("coref", "Anna saw Bonn .\nShe likes it .\n\nRain\n")

    documents = read_documents(tmp_path / "out")
    assert [document.name for document in documents] == ["document_0", "document_1"]
    assert number == len(documents)
    assert " ".join(documents[0].sentences[1]) == "She likes it ."
    assert documents[1].sentences == [["Rain"]]
    (tmp_path / "in.conll").write_text("d 0 0 Anna (1)\n")
    with pytest.raises(ValueError, match="#begin document"):
        TASKS["coref"]().read_inputs(str(tmp_path / "in.conll"), config_of("coref"))


def test_long_examples_are_left_out_of_training(files, caplog, run, tmp_path):
    caplog.set_level("INFO", logger="absl")
    for task in ("squad", "srl"):
        caplog.clear()
        description, config = TASKS[task](), config_of(task, max_tokens=3)
        examples = description.read([str(files[task])], config)

        assert len(description.for_training(examples, config)) == 1
        assert "2 of 3 examples are left out" in caplog.text
    with pytest.raises(ValueError, match="All 4 training examples have more than"):
        run("srl", tmp_path / "run", has_elmo=False, max_tokens=1)
    assert not (tmp_path / "run").exists()
