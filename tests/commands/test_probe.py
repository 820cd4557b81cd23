"""`elmo-tf probe` on small files."""

import json
import random
from pathlib import Path

import pytest

from elmo_tf import Embedder
from elmo_tf.evaluation import probe
from elmo_tf.tasks.tagging import read_tagged

pytestmark = pytest.mark.usefixtures("eager_module")

TAGS = {"the": "D", "a": "D", "cat": "N", "dog": "N", "saw": "V", ".": "P"}


def sentences(count, seed):
    """Sentences of random words, as columns."""
    draw = random.Random(seed)
    chosen = [draw.choices(list(TAGS), k=draw.randint(1, 7)) for _ in range(count)]
    return "\n".join("".join(f"{word} {TAGS[word]}\n" for word in words) for words in chosen)


@pytest.fixture(autouse=True)
def files(in_temporary_folder, tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "caches"))
    Path("train.conll").write_text(sentences(40, 1))
    Path("test.conll").write_text(sentences(10, 2) + "\na D\nmouse new\n")


def test_json_output_holds_results_and_settings_of_the_probe(stdout_of, checkpoint_directory):
    call = ("probe", checkpoint_directory, "--train", "train.conll", "--test", "test.conll")
    found = json.loads(stdout_of(*call))
    tagged = map(read_tagged, ("train.conll", "test.conll"))
    expected = probe(Embedder(checkpoint_directory), *tagged)
    for one in (*found["layers"], *expected["layers"]):
        assert one.pop("seconds") > 0
    settings = {name: found.pop(name) for name in list(found) if name not in expected}
    assert found == expected
    assert settings["model"] == str(checkpoint_directory)
    assert (settings["train"], settings["test"]) == (["train.conll"], ["test.conll"])
    assert (settings["precision"], settings["max_iterations"]) == ("float32", 200)
    assert found["test_unseen_tags"] == found["test_unknown"] == 1
    assert [path.name for path in Path("caches/elmo_tf").iterdir()] == ["layers"]


def test_markdown_output_is_a_table(stdout_of, checkpoint_directory, caplog):
    out = stdout_of(
        *("probe", checkpoint_directory, "--train", "train.conll", "--test", "train.conll"),
        *("--format", "markdown", "--max-iterations", 1),
    )
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in out.splitlines()]
    assert rows[0] == ["accuracy (%)", "all", "known", "unknown", "iterations"]
    assert rows[2] == ["most frequent tag", "100.0", "100.0", "-", "-"]
    assert [row[0] for row in rows[3:6]] == ["layer 0", "layer 1", "layer 2"]
    assert rows[3][4] == "1, not converged"
    tokens = len(sentences(40, 1).split()) // 2
    assert out.endswith(
        f"Trained on {tokens} tokens of 40 sentences with 4 tags, tested on {tokens} tokens of 40 "
        "sentences: 0 of them unknown, 0 with a tag that the training data lack.\n"
    )
    assert "did not converge" in caplog.text


def test_several_files_and_columns_are_read(stdout_of, checkpoint_directory, caplog):
    rows = "1\tthe\tthe\tDET\tDT\n2\tcat\tcat\tNOUN\tNN\n\n"
    Path("a.conllu").write_text(rows)
    Path("b.txt").write_text(rows.replace("NN", "NNS"))

    out = stdout_of(
        *("probe", checkpoint_directory, "--train", "a.conllu", "b.txt", "--test", "a.conllu"),
        *("--input-format", "conllu", "--tag-column", 5),
        *("--token-column", 3, "--max-train-tokens", 3),
        *("--precision", "bfloat16"),
    )
    found = json.loads(out)
    assert (found["tags"], found["train_sentences"]) == (2, 1)
    assert "trained on a sample of 1 of the 2 sentences" in caplog.text
