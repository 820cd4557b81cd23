import argparse
import json

import pytest

from elmo_tf.commands.reports import (
    add_report_options,
    check_report_options,
    markdown_table,
    percent,
    report,
    short_names,
)

CONTENT = {"layers": [0.5, 0.75], "word": "größer"}


@pytest.fixture
def told(capsys):
    """Reports `CONTENT` with some options; gives what came to stdout."""

    def tell(*options):
        parser = argparse.ArgumentParser()
        add_report_options(parser)
        arguments = parser.parse_args([str(option) for option in options])
        check_report_options(arguments)
        report(arguments, CONTENT, lambda: "| a table |")
        return capsys.readouterr().out

    return tell


def test_programs_get_json_and_people_a_table(told, monkeypatch):
    assert json.loads(told()) == CONTENT
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert told() == "| a table |\n"


def test_a_file_gets_the_json_whatever_stdout_gets(told, tmp_path):
    told("--format", "markdown", "--json", tmp_path / "results.json")

    assert json.loads((tmp_path / "results.json").read_text("utf-8")) == CONTENT


def test_invalid_bytes_of_a_text_are_escaped_there(told, tmp_path, monkeypatch):
    monkeypatch.setitem(CONTENT, "word", "caf\udce9")

    assert told("--json", tmp_path / "results.json").encode()
    assert json.loads((tmp_path / "results.json").read_text("utf-8"))["word"] == "caf\udce9"


def test_a_file_is_replaced_only_if_that_is_allowed(told, tmp_path):
    path = tmp_path / "results.json"
    path.write_text("earlier results")

    with pytest.raises(FileExistsError, match=r"results\.json exists\."):
        told("--json", path)
    assert path.read_text() == "earlier results"
    told("--json", path, "--overwrite")
    assert json.loads(path.read_text("utf-8")) == CONTENT


def test_a_table_keeps_numbers_as_they_are_written_and_marks_those_that_lack():
    table = markdown_table(["layer", "known"], [["0", percent(0.5)], ["1", percent(None)]])

    assert [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()] == [
        ["layer", "known"],
        [":--------", "--------:"],
        ["0", "50.0"],
        ["1", "-"],
    ]


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["run", "other/"], ["run", "other"]),
        (["a/run", "b/run", "a/x/best"], ["a/run", "b/run", "x/best"]),
    ],
)
def test_short_names_have_as_much_of_paths_as_tells_them_apart(paths, names):
    assert short_names(paths) == names
