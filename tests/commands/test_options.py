import json

import pytest

from elmo_tf.commands.options import Report, short_names

CONTENT = {"layers": [0.5, 0.75], "word": "größer"}


@pytest.fixture
def print_report(capsys):
    """Reports `CONTENT` with some options; returns the text on stdout."""

    def call(**settings):
        options = Report(**settings)
        options.check()
        options.write(CONTENT, lambda: "| a table |")
        return capsys.readouterr().out

    return call


def test_stdout_gets_json_and_a_terminal_gets_a_table(print_report, monkeypatch):
    assert json.loads(print_report()) == CONTENT
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert print_report() == "| a table |\n"


def test_json_file_does_not_depend_on_the_stdout_format(print_report, tmp_path, monkeypatch):
    path = tmp_path / "results.json"
    print_report(format="markdown", json=str(path))

    assert json.loads(path.read_text("utf-8")) == CONTENT
    path.write_text("earlier")
    with pytest.raises(FileExistsError, match=r"results\.json exists\."):
        print_report(json=str(path))
    assert path.read_text() == "earlier"
    monkeypatch.setitem(CONTENT, "word", "caf\udce9")  # an invalid byte
    assert print_report(json=str(path), overwrite=True).encode()
    assert json.loads(path.read_text("utf-8"))["word"] == "caf\udce9"


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["run", "other/"], ["run", "other"]),
        (["a/run", "b/run", "a/x/best"], ["a/run", "b/run", "x/best"]),
    ],
)
def test_short_names_are_the_shortest_unique_path_endings(paths, names):
    assert short_names(paths) == names
