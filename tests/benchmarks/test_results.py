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
PAIRS = [json.dumps({"sentence1": one, "n": n}) + "\n" for n, one in enumerate("aabbc")]
ARTICLES = [{"title": title} for title in "abc"]
# For each kind of file: its text, and both halves.
HALVES = {
    ".conll": ("a O\nb O\n\nc O\n\nd O\n\ne O\n", "a O\nb O\n\nd O\n", "c O\n\ne O\n"),
    ".txt": ("(2 a)\n(1 b)\n(0 c)\n", "(2 a)\n(0 c)\n", "(1 b)\n"),
    ".jsonl": tuple(map("".join, (PAIRS, [*PAIRS[:2], PAIRS[4]], PAIRS[2:4]))),
    ".json": tuple(
        json.dumps({"version": "1.1", "data": part}) + "\n"
        for part in (ARTICLES, ARTICLES[::2], ARTICLES[1:2])
    ),
}


@pytest.mark.parametrize("script", sorted(BENCHMARKS.glob("*.py")), ids=lambda path: path.name)
def test_names_that_a_script_imports_exist(script):
    for node in ast.walk(ast.parse(script.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("elmo_tf"):
            module = importlib.import_module(node.module)
            assert all(hasattr(module, name.name) for name in node.names), node.module


@pytest.mark.parametrize("suffix", HALVES)
def test_sentences_premises_and_articles_of_a_file_are_split_alternately(tmp_path, suffix):
    text, *expected = HALVES[suffix]
    (tmp_path / f"dev{suffix}").write_text(text)
    halves = results.halves([str(tmp_path / f"dev{suffix}")], tmp_path / "halves")
    assert [Path(*half).read_text() for half in halves] == expected


def test_single_document_files_are_split_alternately(tmp_path):
    assert results.halves(["1", "2", "3"], tmp_path) == [["1", "3"], ["2"]]


def test_wikitext_is_split_into_sentences():
    text = ' = A = \n \n It has 1 @,@ 000 co @-@ ops . " Why ? " she asked . Yes \n'
    lines = results.one_sentence_per_line(text).splitlines()
    assert lines == ["= A =", "It has 1,000 co-ops .", '" Why ? " she asked .', "Yes"]


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
