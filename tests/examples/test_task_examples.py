"""The examples of task models, each with a few lines of data and a tiny biLM."""

import runpy
import sys
from pathlib import Path

import pytest

from task_files import FILES

pytestmark = pytest.mark.more

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


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
    ("name", "task", "extra", "score"),
    [
        ("tag_tokens", "ner", ["--scheme", "BIO"], "'f1'"),
        ("tag_tokens", "ner", [], "'accuracy'"),
        ("classify_sentences", "sst", [], "'accuracy'"),
        ("infer_entailment", "snli", [], "'accuracy'"),
        ("answer_questions", "squad", [], "'em'"),
        ("label_roles", "srl", [], "'f1'"),
        ("resolve_coreference", "coref", [], "'average'"),
    ],
)
def test_a_task_model_is_trained_and_evaluated(name, task, extra, score, run, tmp_path):
    file = tmp_path / "examples.conll"
    repeats = 2 if task == "coref" else 1  # its vocabulary has the words that occur twice
    file.write_text(repeats * FILES[task][1], encoding="utf-8")
    printed = run(name, "--train", file, "--dev", file, "--epochs", 2, *extra)
    assert "Epoch 2/2" in printed
    assert score in printed.splitlines()[-1]
