"""Task models trained on a few lines, with a biLM of a few weights."""

import json
import shutil

import numpy as np
import pytest

from elmo_tf.tasks.config import TaskConfig
from elmo_tf.tasks.registry import load_task
from elmo_tf.tasks.task import new_embeddings
from elmo_tf.trainers.tasks.predict import evaluate_task, predict_task
from elmo_tf.trainers.tasks.training import _rank, _sample, train_task
from task_files import NER, SMALL, sentences


def losses(record):
    return [epoch["loss"] for epoch in record["epochs"]]


def test_named_entities_are_learnt(ner):
    workdir, record = ner

    assert record["best"]["score"] == 1
    assert losses(record)[-1] < losses(record)[0] / 10
    assert json.loads((workdir / "task.json").read_text()) == record
    log = (workdir / "log.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in log] == record["epochs"]
    assert record["labels"][:5] == ["O", "B-LOC", "I-LOC", "U-LOC", "L-LOC"]


def test_predictions_have_the_scheme_of_the_training_file(ner, tmp_path):
    shutil.copytree(ner[0], tmp_path, dirs_exist_ok=True)
    old = load_task(ner[0])
    old.settings["output_scheme"] = None  # as in version 0.4
    old.save(tmp_path / "model.keras")
    gold = [["B-PER", "I-PER", "O", "O", "B-LOC"], ["B-LOC", "O", "O"], ["B-PER", "O"]]
    for workdir in (ner[0], tmp_path):
        model = load_task(workdir)
        assert model.tag(sentences(NER)) == gold
        assert model.predictions(sentences(NER))["probabilities"].shape[-1] == 5
        assert model.output_labels == ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
    assert old.tag([["Bonn"]]) == [["U-LOC"]]


@pytest.mark.usefixtures("eager_functions")
def test_classifiers_select_by_another_score_and_weight_labels(tmp_path, caplog):
    settings = {**SMALL, "model": "bilstm", "metric": "f1_macro", "epochs": 1}
    file = tmp_path / "uneven.csv"
    file.write_text("text,label\na b,x\nc d,y\ne f,y\ng h,y\n")

    plain, balanced = (
        train_task(TaskConfig("classify", file, file, tmp_path / name, **settings, **weights))
        for name, weights in (("plain", {}), ("balanced", {"class_weight": "balanced"}))
    )

    assert plain["best"]["score"] == plain["best"]["dev"]["macro_f1"] != 0
    assert losses(plain) != losses(balanced)
    assert sum(sum(row.values()) for row in plain["best"]["dev"]["confusion"].values()) == 4
    assert "uneven.csv is a file of `train` and of `dev`" in caplog.text
    file.write_text("text,label\na b,x\nc d,x\n")
    train_task(TaskConfig("classify", file, file, tmp_path / "one", **settings))
    assert "All training examples have the same label, x" in caplog.text


@pytest.mark.usefixtures("eager_functions")
def test_columns_are_predicted_by_format_and_raw_text_is_reported(ner, tmp_path, caplog):
    (tmp_path / "in.txt").write_text(NER)
    out = tmp_path / "out.conll"

    assert predict_task(ner[0], tmp_path / "in.txt", out, format="conll") == 3
    assert out.read_text().startswith("Anna\t")
    assert predict_task(ner[0], tmp_path / "in.txt", out, overwrite=True) == 12
    assert "look like raw text" not in caplog.text
    assert "in.txt end in labels. Columns need --input-format conll" in caplog.text
    (tmp_path / "raw.txt").write_text("Anna lives here.\n")
    assert predict_task(ner[0], tmp_path / "raw.txt", out, overwrite=True) == 1
    assert "1 that look like raw text, such as 'here.'" in caplog.text


@pytest.mark.usefixtures("eager_functions")
def test_prediction_reads_the_same_token_column_as_training(tmp_path):
    file = tmp_path / "numbered.conll"
    file.write_text("0 Anna B-PER\n1 lives O\n\n")
    settings = {**SMALL, "token_column": 2, "epochs": 1}
    train_task(TaskConfig("ner", file, file, tmp_path / "run", **settings))

    predict_task(tmp_path / "run", file, tmp_path / "out.conll")

    lines = (tmp_path / "out.conll").read_text().splitlines()
    assert [line.split("\t")[0] for line in lines] == ["Anna", "lives", ""]
    (tmp_path / "text.txt").write_text("Anna lives\n")
    assert predict_task(tmp_path / "run", tmp_path / "text.txt", tmp_path / "of_text.conll") == 1


def test_a_larger_share_contains_all_examples_of_a_smaller_share():
    drawn = [set(_sample(range(100), share, seed=3)) for share in (0.1, 0.25, 1)]

    assert [len(one) for one in drawn] == [10, 25, 100]
    assert drawn[0] < drawn[1] < drawn[2]
    assert set(_sample(range(100), 0.1, seed=4)) != drawn[0]


@pytest.mark.usefixtures("eager_functions")
def test_training_stops_early_without_improvement(run, tmp_path):
    record = run("ner", tmp_path / "run", has_elmo=False, learning_rate=1e-6, patience=1, epochs=9)

    assert len(record["epochs"]) == record["best"]["epoch"] + 1 < 9


def test_loss_decides_only_at_a_score_of_zero():
    def rank(f1, loss):
        return _rank({"dev": {"f1": f1}, "loss": loss}, "f1")

    assert rank(0.4, 2.0) > rank(0.3, 1.0) == rank(0.3, 2.0) > rank(0.0, 1.0) > rank(0.0, 2.0)


@pytest.mark.parametrize("freeze_words", [False, True])
def test_word_vectors_can_be_given_and_frozen(freeze_words, tmp_path):
    file = tmp_path / "vectors.txt"
    file.write_text("Anna 1 2\nfar -1 0\n")
    config = TaskConfig(
        "ner", "a", "b", "c", word_vectors=file, freeze_words=freeze_words, characters=False
    )

    (embedding,) = new_embeddings(config, [(sentence,) for sentence in sentences(NER)])

    # Training words that are in the file or occur twice, and other words of the file.
    mean, vectors = [0, 1], {"Anna": [1, 2], "far": [-1, 0]}
    table = np.concatenate([embedding.embedding, embedding.fixed]).tolist()
    rows = dict(zip(("", *embedding.words), table, strict=True))
    assert rows == {**dict.fromkeys(("", "Berg", "Bonn"), mean), **vectors}
    frozen = set(embedding.words[embedding.num_trained :])
    assert frozen == (vectors.keys() if freeze_words else {"far"})


def test_an_error_in_a_file_names_the_line(files, ner, tmp_path):
    dev = tmp_path / "dev.conll"
    dev.write_text("Anna B-PER\n\nRome B-CITY\n")
    message = "line 3: unknown tag 'B-CITY'. Known .* B-PER"
    with pytest.raises(ValueError, match=message):
        train_task(TaskConfig("ner", files["ner"], dev, tmp_path / "run"))
    with pytest.raises(ValueError, match=message):
        evaluate_task(ner[0], [dev])
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("eager_functions")
def test_a_diverging_run_raises_an_error(run, tmp_path):
    with pytest.raises(FloatingPointError, match="training has diverged"):
        run("sst", tmp_path / "run", has_elmo=False, learning_rate=1e30, epochs=4)
