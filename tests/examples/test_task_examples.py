"""The examples of task models, each with a few lines of data and a tiny biLM."""

import runpy
import sys
from pathlib import Path

import pytest

from task_files import FILES as TASK_FILES

pytestmark = pytest.mark.more

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FILES = {
    "tag_tokens": TASK_FILES["ner"][1],
    "classify_sentences": TASK_FILES["sst"][1],
    "answer_questions": TASK_FILES["squad"][1],
    "label_roles": TASK_FILES["srl"][1],
    "resolve_coreference": 2 * TASK_FILES["coref"][1],  # words that occur twice
    "infer_entailment": TASK_FILES["snli"][1],
}


@pytest.fixture
def run(monkeypatch, capsys, checkpoint_directory):
    """Runs an example script; returns its output."""

    def call(name, *arguments):
        command = [f"{name}.py", "--elmo", str(checkpoint_directory), *map(str, arguments)]
        monkeypatch.setattr(sys, "argv", command)
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        return capsys.readouterr().out

    return call


def test_elmo_is_trained_in_a_custom_model(run):
    lines = run("own_model", "--epochs", 15).splitlines()
    assert [line.partition(":")[0] for line in lines] == ["functional", "Subclassed"]
    for line in lines:
        first, last = (float(number) for number in line.split("loss ")[1].split(" → "))
        assert last < first


@pytest.mark.parametrize(
    ("name", "extra", "score"),
    [
        ("tag_tokens", ["--scheme", "BIO"], "'f1'"),
        ("tag_tokens", [], "'accuracy'"),
        ("classify_sentences", [], "'accuracy'"),
        ("infer_entailment", [], "'accuracy'"),
        ("answer_questions", [], "'em'"),
        ("label_roles", [], "'f1'"),
        ("resolve_coreference", [], "'average'"),
    ],
)
def test_a_task_model_is_trained_and_evaluated(name, extra, score, run, tmp_path):
    file = tmp_path / "examples.conll"
    file.write_text(FILES[name], encoding="utf-8")
    printed = run(name, "--train", file, "--dev", file, "--epochs", 2, *extra)
    assert "Epoch 2/2" in printed
    assert score in printed.splitlines()[-1]
