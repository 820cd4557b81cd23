"""The script of docs/results.md: how it splits data, and which tables it writes into pages."""

import ast
import importlib
import json
import sys
from pathlib import Path

import pytest

# At the end of the path: a benchmark and a module of the tests have the same name.
sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
import results
import results_pages
import studies
import tfidf

BENCHMARKS = Path(results.__file__).parent
FILES = {
    "dev.conll": "a O\nb O\n\nc O\n\nd O\n\ne O\n",
    "dev.txt": "(2 a)\n(1 b)\n(0 c)\n",
    "dev.jsonl": "\n".join(json.dumps({"sentence1": one, "n": n}) for n, one in enumerate("aabbc")),
    "dev.json": json.dumps({"data": [{"title": title} for title in "abc"]}),
}


@pytest.mark.parametrize("script", sorted(BENCHMARKS.glob("*.py")), ids=lambda path: path.name)
def test_names_that_a_script_imports_exist(script):
    for node in ast.walk(ast.parse(script.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("elmo_tf"):
            module = importlib.import_module(node.module)
            assert all(hasattr(module, name.name) for name in node.names), node.module


@pytest.mark.parametrize(
    ("name", "chosen", "reported"),
    [("dev.conll", "a O\nb O\n\nd O\n", "c O\n\ne O\n"), ("dev.txt", "(2 a)\n(0 c)\n", "(1 b)\n")],
)
def test_development_sentences_are_split_alternately(tmp_path, name, chosen, reported):
    assert texts_of_halves(tmp_path, name) == [chosen, reported]


def test_pairs_of_one_premise_and_questions_of_one_article_are_not_split(tmp_path):
    halves = [text.splitlines() for text in texts_of_halves(tmp_path, "dev.jsonl")]
    assert [[json.loads(line)["n"] for line in half] for half in halves] == [[0, 1, 4], [2, 3]]
    halves = [json.loads(text)["data"] for text in texts_of_halves(tmp_path, "dev.json")]
    assert [[article["title"] for article in half] for half in halves] == [["a", "c"], ["b"]]


def test_single_document_files_are_split_alternately(tmp_path):
    assert results.halves(["1", "2", "3"], tmp_path) == [["1", "3"], ["2"]]


def test_wikitext_is_split_into_sentences():
    text = ' = A = \n \n It has 1 @,@ 000 co @-@ ops . " Why ? " she asked . Yes \n'
    lines = results.one_sentence_per_line(text).splitlines()
    assert lines == ["= A =", "It has 1,000 co-ops .", '" Why ? " she asked .', "Yes"]


def texts_of_halves(folder, name):
    (folder / name).write_text(FILES[name])
    halves = results.halves([str(folder / name)], folder / "halves")
    return [Path(*half).read_text() for half in halves]


@pytest.mark.parametrize("name", studies.STUDIES)
def test_every_run_has_a_unique_name_and_valid_settings(name, tmp_path):
    from elmo_tf.tasks.config import TaskConfig

    runs = list(studies.runs_of(name))
    assert len({run.name for run in runs}) == len(runs)
    for variant in studies.STUDIES[name].inputs:
        seeds = {run.seed for run in runs if (run.variant, run.share) == (variant, 1)}
        assert seeds == set(range(studies.SEEDS))
    for run in runs:
        settings = studies.settings_of(run, tmp_path, tmp_path / "tuned")
        settings |= {"train": ["train"], "dev": ["dev"], "workdir": "run"}
        assert (TaskConfig(**settings).elmo is None) == (run.variant in ("without", "GloVe"))


def test_tfidf_learns_the_label_of_a_text_and_of_a_pair():
    texts = [["good film"], ["bad film"]] * 6
    one = tfidf.Texts(["yes", "no"] * 6, texts)
    assert tfidf.tfidf_accuracy(one, one, one, ["tokens"]) == 1
    pairs = [["a film", "a film"], ["no film", "a film"], ["a film", "no film"]] * 6
    two = tfidf.Texts(["same", "left", "right"] * 6, pairs)
    assert tfidf.tfidf_accuracy(two, two, two, ["characters", "tokens"]) == 1


def test_tables_of_a_page_are_updated(monkeypatch):
    monkeypatch.setitem(results_pages.BLOCKS, "probe", lambda: "| new |")
    page = "Before.\n\n<!-- probe -->\n\n| old |\n\n<!-- end of probe -->\n\nAfter.\n"
    assert results_pages.filled(page) == page.replace("old", "new")


@pytest.mark.parametrize("name", results_pages.PAGES)
def test_tables_of_a_page_match_the_measurements(name):
    page = (Path(results_pages.__file__).parents[1] / name).read_text("utf-8")
    assert results_pages.filled(page) == page
