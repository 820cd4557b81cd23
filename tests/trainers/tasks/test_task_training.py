"""Task models trained on a few lines, with a biLM of a few weights."""

import json
from contextlib import nullcontext

import numpy as np
import pytest

from elmo_tf.tasks import CRFTagger
from elmo_tf.trainers.tasks.answering import evaluate_task, predict_task
from elmo_tf.trainers.tasks.config import TaskConfig
from elmo_tf.trainers.tasks.kinds import KINDS
from elmo_tf.trainers.tasks.training import _drawn, _is_better, train_task
from elmo_tf.trainers.tasks.workdir import claimed_workdir, load_model
from reference import checkpoint

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
FILES = {
    "ner": ("ner.conll", NER),
    "pos": ("pos.conllu", "1\tthe\t_\tDET\n2\tcat\t_\tNOUN\n\n1\tsat\t_\tVERB\n"),
    "sst": ("sst.txt", TREES),
    "snli": ("snli.jsonl", "".join(json.dumps(pair) + "\n" for pair in PAIRS)),
}
SMALL = {"units": 6, "word_dim": 5, "learning_rate": 0.03, "dropout": 0.0, "batch_size": 2}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A file of each task."""
    folder = tmp_path_factory.mktemp("tasks")
    for name, content in FILES.values():
        (folder / name).write_text(content, encoding="utf-8")
    return {task: folder / name for task, (name, _) in FILES.items()}


@pytest.fixture(scope="module")
def run(files, tmp_path_factory, checkpoint_directory):
    """Trains on a file, and judges by it."""
    cache = tmp_path_factory.mktemp("cache")

    def train(task, workdir, has_elmo=True, **settings):
        settings = {**SMALL, "cache": cache, "epochs": 3, **settings}
        elmo = checkpoint_directory if has_elmo else None
        return train_task(
            TaskConfig(task, files[task], files[task], workdir, elmo=elmo, **settings)
        )

    return train


@pytest.fixture(scope="module")
def ner(run, tmp_path_factory):
    """A work directory in which named entities were learnt by heart, and its record."""
    workdir = tmp_path_factory.mktemp("work") / "ner"
    return workdir, run(
        "ner", workdir, elmo_dropout=0.0, units=40, learning_rate=0.01, epochs=30, patience=30
    )


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


def test_what_was_kept_is_the_model_of_the_best_epoch(ner, files):
    workdir, record = ner

    # From the layers of the biLM itself, not from those that were kept in float16.
    assert evaluate_task(workdir, [files["ner"]]) == record["best"]["dev"]
    model, _ = load_model(workdir)
    assert isinstance(model, CRFTagger)
    assert len(model.elmo.mixes) == 1


def test_tags_are_predicted_in_columns_and_follow_their_scheme(ner, tmp_path):
    (tmp_path / "text.txt").write_text("Anna Berg sings\n\nin Bonn\n")

    number = predict_task(ner[0], tmp_path / "text.txt", tmp_path / "out.conll")

    lines = (tmp_path / "out.conll").read_text().splitlines()
    assert number == 3  # a place for every line
    tokens = [line.split("\t")[0] for line in lines]
    assert tokens == ["Anna", "Berg", "sings", "", "", "in", "Bonn", ""]
    tags = {line.split("\t")[1] for line in lines if line}
    assert tags <= {"O", "B-PER", "I-PER", "B-LOC", "I-LOC"}
    with pytest.raises(FileExistsError, match=r"out\.conll"):
        predict_task(ner[0], tmp_path / "text.txt", tmp_path / "out.conll")


def test_text_and_columns_are_told_apart(ner, tmp_path):
    (tmp_path / "in.txt").write_text(NER.replace("lives O", "lives B-LOC"))
    out = tmp_path / "out.conll"

    with pytest.raises(ValueError, match=r"each line ends in a label .*--input-format"):
        predict_task(ner[0], tmp_path / "in.txt", out)
    known = ["NN", ".", "O"]
    for text, is_refused in (
        ("cat NN\n. .\n", True),
        ("the cat .\na dog .\n", False),
        ("cat O\nthe cat is O\n", False),
    ):
        (tmp_path / "text.txt").write_text(text)
        with pytest.raises(ValueError, match="are these columns") if is_refused else nullcontext():
            KINDS["pos"].unlabelled(str(tmp_path / "text.txt"), None, None, known)

    assert predict_task(ner[0], tmp_path / "in.txt", out, format="conll") == 3
    assert out.read_text().startswith("Anna\t")
    assert predict_task(ner[0], tmp_path / "in.txt", out, format="text", overwrite=True) == 12


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        (TREES, ["a bad film", "a good film"]),
        (TREES.replace("\n", "\n\n"), ["a bad film", "a good film"]),
        ("(negative (2 bad) (2 film))\n", ["bad film"]),
        ("( great movie )\n( bad ) but true\n", ["( great movie )", "( bad ) but true"]),
        ("(not bad at all)\n", ["(not bad at all)"]),
        (TREES + "(not bad at all)\n", [*TREES.splitlines(), "(not bad at all)"]),
        ("\n\n", ["", ""]),
    ],
)
def test_a_sentence_in_brackets_is_no_tree(content, texts, tmp_path):
    (tmp_path / "in.txt").write_text(content)

    found = KINDS["sst"].unlabelled(str(tmp_path / "in.txt"), None, None, ["negative", "positive"])

    assert [" ".join(tokens) for (tokens,) in found] == texts


def test_columns_to_be_tagged_are_read_as_those_of_training(tmp_path):
    file = tmp_path / "numbered.conll"
    file.write_text("0 Anna B-PER\n1 lives O\n\n")
    settings = {**SMALL, "token_column": 2, "epochs": 1}
    train_task(TaskConfig("ner", file, file, tmp_path / "run", **settings))

    predict_task(tmp_path / "run", file, tmp_path / "out.conll")

    lines = (tmp_path / "out.conll").read_text().splitlines()
    assert [line.split("\t")[0] for line in lines] == ["Anna", "lives", ""]
    (tmp_path / "text.txt").write_text("Anna lives\n")
    assert predict_task(tmp_path / "run", tmp_path / "text.txt", tmp_path / "of_text.conll") == 1


def test_the_command_scores_tags_and_exports(ner, files, tmp_path, command):
    status, out, err = command("task", "evaluate", ner[0], files["ner"])
    assert (status, json.loads(out)["f1"]) == (0, 1.0), err

    (tmp_path / "text.txt").write_text("Anna Berg sings\n")
    output = tmp_path / "out.conll"
    status, out, err = command("task", "predict", ner[0], tmp_path / "text.txt", output)
    assert (status, json.loads(out)) == (0, {"output": str(output), "examples": 1}), err
    assert output.read_text().startswith("Anna\t")

    status, out, err = command("task", "export", ner[0], tmp_path / "exported", "--version", 3)
    assert (status, out.strip()) == (0, str(tmp_path / "exported" / "3")), err
    labels = (tmp_path / "exported" / "3" / "assets" / "labels.txt").read_text().split()
    assert labels == ner[1]["labels"]


def test_a_run_goes_on_exactly_where_it_ended(run, tmp_path):
    settings = {"dropout": 0.3, "elmo_dropout": 0.3}
    whole = run("ner", tmp_path / "whole", **settings)
    run("ner", tmp_path / "parts", epochs=1, **settings)

    resumed = run("ner", tmp_path / "parts", resume=True, **settings)

    assert losses(resumed) == losses(whole)
    assert resumed["best"] == whole["best"]
    again = run("ner", tmp_path / "parts", resume=True, **settings)
    assert again["epochs"] == resumed["epochs"]


def test_results_do_not_depend_on_what_was_kept_before(run, tmp_path):
    kept = run("ner", tmp_path / "kept")
    fresh = run("ner", tmp_path / "fresh", cache_gb=0)

    assert losses(kept) == losses(fresh)


def test_a_share_of_the_examples_knows_all_labels(run, tmp_path):
    record = run("ner", tmp_path / "run", has_elmo=False, share=0.4, epochs=1)

    assert record["examples"] == {"train": 1, "dev": 3}
    assert "B-PER" in record["labels"]
    assert "B-LOC" in record["labels"]


def test_a_larger_share_holds_a_smaller_one():
    drawn = [set(_drawn(range(100), share, seed=3)) for share in (0.1, 0.25, 1)]

    assert [len(one) for one in drawn] == [10, 25, 100]
    assert drawn[0] < drawn[1] < drawn[2]
    assert set(_drawn(range(100), 0.1, seed=4)) != drawn[0]


def test_it_ends_when_nothing_gets_better(run, tmp_path):
    record = run("ner", tmp_path / "run", has_elmo=False, learning_rate=1e-6, patience=2, epochs=9)

    assert len(record["epochs"]) == record["best"]["epoch"] + 2 < 9


def test_before_a_score_the_loss_tells_what_is_better(files, tmp_path):
    (tmp_path / "dev.conll").write_text("lives O\nin O\n")  # without a span to be found
    settings = {**SMALL, "learning_rate": 0.003, "patience": 1, "epochs": 4}

    record = train_task(
        TaskConfig("ner", files["ner"], tmp_path / "dev.conll", tmp_path / "run", **settings)
    )

    assert [epoch["dev"]["f1"] for epoch in record["epochs"]] == [0, 0, 0, 0]
    assert losses(record) == sorted(losses(record), reverse=True)
    assert record["best"]["epoch"] == 4


@pytest.mark.parametrize(
    ("score", "loss", "best_score", "best_loss", "is_better"),
    [
        (0.4, 2.0, 0.3, 1.0, True),
        (0.3, 1.0, 0.3, 2.0, False),
        (0.0, 1.0, 0.0, 2.0, True),
        (0.0, 2.0, 0.0, 2.0, False),
        (0.0, 1.0, 0.3, 2.0, False),  # back to nothing, whatever the loss
    ],
)
def test_the_better_epoch_is_that_of_the_score(score, loss, best_score, best_loss, is_better):
    one = {"loss": loss, "dev": {"f1": score}}
    best = {"loss": best_loss, "dev": {"f1": best_score}}

    assert _is_better(one, best, "f1") == is_better


@pytest.mark.parametrize(
    ("task", "settings"),
    [
        ("pos", {"has_elmo": False, "lowercase": True}),
        ("sst", {"placement": "both", "mix": "average", "phrases": 1}),
        ("sst", {"model": "bilstm", "fine_tune": True, "binary": True}),
        ("snli", {"placement": "output", "layer_norm": True, "characters": True}),
    ],
)
def test_every_task_is_trained_judged_and_answered(task, settings, run, files, tmp_path):
    record = run(task, tmp_path / "run", epochs=2, **settings)

    scores = evaluate_task(tmp_path / "run", [files[task]])
    assert scores == record["best"]["dev"]
    sentences = "a good film\na bad film\n"
    if task == "snli":
        sentences = "".join(json.dumps({**pair, "gold_label": 0}) + "\n" for pair in PAIRS)
    (tmp_path / "in.txt").write_text(sentences)
    number = predict_task(tmp_path / "run", tmp_path / "in.txt", tmp_path / "out.txt")
    lines = (tmp_path / "out.txt").read_text().splitlines()
    if task == "snli":
        assert number == 3  # those without a gold label, too
        rows = [json.loads(line) for line in lines]
        assert [row["sentence2"] for row in rows] == ["He rests .", "He runs .", "A cat"]
        assert {row["label"] for row in rows} <= {"entailment", "contradiction"}
    elif task == "sst":
        predict_task(tmp_path / "run", files[task], tmp_path / "of_trees.txt")
        trees = (tmp_path / "of_trees.txt").read_text().splitlines()
        assert [line.split("\t")[1] for line in trees] == ["a bad film", "a good film"]
        assert [line.split("\t")[1] for line in lines] == sentences.splitlines()
        assert {line.split("\t")[0] for line in lines} <= set(record["labels"])
    else:
        tokens = [line.split("\t")[0] for line in lines]
        assert tokens == ["a", "good", "film", "", "a", "bad", "film", ""]


@pytest.mark.parametrize(
    ("freeze_words", "words", "fixed"),
    [
        # Those that are read in training, of the file and such as stand twice; then others of it.
        (False, ("Anna", "Berg", "Bonn", "far"), [[-1, 0]]),
        (True, ("Berg", "Bonn", "Anna", "far"), [[1, 2], [-1, 0]]),
    ],
)
def test_word_vectors_can_be_given_and_frozen(freeze_words, words, fixed, run, tmp_path):
    (tmp_path / "vectors.txt").write_text("Anna 1 2\nfar -1 0\n")

    run(
        "ner",
        tmp_path / "run",
        has_elmo=False,
        word_vectors=tmp_path / "vectors.txt",
        freeze_words=freeze_words,
        epochs=1,
    )

    model, _ = load_model(tmp_path / "run")
    embedding = model.token_vectors.embeddings[0]
    assert embedding.words == words
    assert embedding.fixed.numpy().tolist() == fixed
    begun = [[0, 1] if word != "Anna" else [1, 2] for word in ("", *words[: -len(fixed)])]
    assert np.all(embedding.embedding.numpy() != begun)  # all are learnt further


def test_broken_files_are_refused_with_their_line(run, files, ner, tmp_path, checkpoint_directory):
    (tmp_path / "dev.conll").write_text("Anna B-PER\n\nRome B-CITY\n")
    (tmp_path / "broken.conll").write_text("Anna B-PER\nRome I-LOC\n")
    (tmp_path / "short.conll").write_text("Anna B-PER\nRome\n")

    for name, message in (
        ("dev.conll", "line 3: the tag 'B-CITY' is none of .* B-PER"),
        ("broken.conll", "line 2: I-LOC may not follow B-PER"),
        ("short.conll", "line 2: 1 columns, but line 1 has 2"),
    ):
        with pytest.raises(ValueError, match=message):
            train_task(TaskConfig("ner", files["ner"], tmp_path / name, tmp_path / "run"))
        with pytest.raises(ValueError, match=message):
            evaluate_task(ner[0], [tmp_path / name])
    assert not (tmp_path / "run").exists()


def test_a_work_directory_in_use_is_left_alone(run, ner, tmp_path):
    with pytest.raises(FileExistsError, match=r"is in use\. Go on in it"):
        run("ner", ner[0])
    with pytest.raises(ValueError, match=r"dropout was 0\.0, is 0\.5"):
        run("ner", ner[0], dropout=0.5, resume=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").touch()
    with pytest.raises(FileExistsError, match="is in use"):
        run("ner", tmp_path / "other", resume=True)


def test_other_data_are_not_gone_on_with(run, files, tmp_path):
    run("ner", tmp_path / "run", has_elmo=False, epochs=1)
    (tmp_path / "more.conll").write_text(NER + "\nin O\n")
    settings = {**SMALL, "resume": True}

    with pytest.raises(ValueError, match=r"with other examples .*`examples` was .*'train': 3"):
        train_task(
            TaskConfig("ner", tmp_path / "more.conll", files["ner"], tmp_path / "run", **settings)
        )
    (tmp_path / "other.conll").write_text(NER.replace("Berg", "Dorf"))
    with pytest.raises(ValueError, match=r"other examples or word vectors, .*`data` was"):
        train_task(
            TaskConfig("ner", tmp_path / "other.conll", files["ner"], tmp_path / "run", **settings)
        )
    state = tmp_path / "run" / "state.npz"
    state.write_bytes(state.read_bytes()[:1000])
    with pytest.raises(ValueError, match=r"state\.npz is damaged"):
        run("ner", tmp_path / "run", has_elmo=False, resume=True)


def test_another_bilm_under_the_same_name_is_not_gone_on_with(files, tmp_path, options, weights):
    elmo = checkpoint.write(tmp_path / "elmo", options, weights)
    settings = {**SMALL, "elmo": elmo, "cache_gb": 0, "epochs": 1}
    train_task(TaskConfig("ner", files["ner"], files["ner"], tmp_path / "run", **settings))
    others = {name: array * 1.5 for name, array in weights.items()}
    checkpoint.write(tmp_path / "other", options, others)
    (tmp_path / "other" / "weights.hdf5").replace(tmp_path / "elmo" / "weights.hdf5")

    again = TaskConfig("ner", files["ner"], files["ner"], tmp_path / "run", resume=True, **settings)
    with pytest.raises(ValueError, match=r"another biLM, .*: `bilm` was [0-9a-f]{64}, is "):
        train_task(again)


def test_what_a_killed_run_has_left_is_no_hindrance_and_goes(run, tmp_path):
    workdir = tmp_path / "run"
    run("ner", workdir, has_elmo=False, epochs=1)
    left = [".model.keras.0123abcd.part", ".model.keras.0123abcd.keras", ".state.npz.89abcdef.part"]
    for name in left:
        (workdir / name).touch()
    (workdir / "state.npz").unlink()
    record = json.loads((workdir / "task.json").read_text())
    as_it_began = {**record, "best": None, "epochs": [], "finished": False}
    (workdir / "task.json").write_text(json.dumps(as_it_began))

    record = run("ner", workdir, has_elmo=False, epochs=1, resume=True)

    assert record["finished"]
    names = {path.name for path in workdir.iterdir()}
    assert names == {"model.keras", "task.json", "log.jsonl", "state.npz"}


def test_results_are_deleted_by_overwrite_alone_and_only_those_of_a_task(run, tmp_path):
    workdir = tmp_path / "run"
    run("ner", workdir, has_elmo=False, epochs=2)
    (workdir / "state.npz").unlink()
    (workdir / "tagged.conll").touch()

    with pytest.raises(FileExistsError, match="is in use"):
        run("ner", workdir, has_elmo=False, epochs=2, resume=True)
    (workdir / "tagged.conll").rename(tmp_path / "tagged.conll")
    with pytest.raises(ValueError, match=r"state\.npz is missing, .*\(overwrite=True"):
        run("ner", workdir, has_elmo=False, epochs=2, resume=True)
    (tmp_path / "tagged.conll").rename(workdir / "tagged.conll")
    record = run("ner", workdir, has_elmo=False, epochs=1, overwrite=True)

    assert len(record["epochs"]) == len((workdir / "log.jsonl").read_text().splitlines()) == 1
    assert (workdir / "tagged.conll").exists()
    (workdir / "task.json").unlink()
    with pytest.raises(FileExistsError, match=r"no work directory of a task: there is log\.jsonl"):
        run("ner", workdir, has_elmo=False, epochs=1, overwrite=True)
    assert (workdir / "log.jsonl").exists()


def test_two_runs_do_not_share_a_work_directory(run, tmp_path):
    with (
        claimed_workdir(tmp_path / "run"),
        pytest.raises(FileExistsError, match="Another process trains in"),
    ):
        run("ner", tmp_path / "run", has_elmo=False, epochs=1)

    assert run("ner", tmp_path / "run", has_elmo=False, epochs=1)["finished"]


def test_a_folder_without_a_model_is_refused(tmp_path, ner):
    with pytest.raises(FileNotFoundError, match=r"no trained task model: there is no model\.keras"):
        evaluate_task(tmp_path, ["x"])
    (tmp_path / "model.keras").touch()
    for content in ("{", "{}", "[]"):
        (tmp_path / "task.json").write_text(content)
        with pytest.raises(ValueError, match=r"task\.json is damaged"):
            evaluate_task(tmp_path, ["x"])
    (tmp_path / "model.keras").write_bytes((ner[0] / "model.keras").read_bytes()[:1000])
    (tmp_path / "task.json").write_bytes((ner[0] / "task.json").read_bytes())
    with pytest.raises(ValueError, match=r"model\.keras cannot be read"):
        evaluate_task(tmp_path, ["x"])


def test_divergence_ends_a_run(run, tmp_path):
    with pytest.raises(FloatingPointError, match="training has diverged"):
        run("sst", tmp_path / "run", has_elmo=False, learning_rate=1e30, epochs=4)
