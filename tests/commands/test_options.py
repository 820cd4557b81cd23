import json

import pytest

from elmo_tf.commands.options import print_results, short_names


@pytest.mark.parametrize("is_terminal", [False, True])
def test_stdout_gets_json_and_a_terminal_gets_a_table(capsys, monkeypatch, is_terminal):
    monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal)
    content = {"layers": [0.5, 0.75], "word": "caf\udce9"}  # an invalid byte
    for format in (None, "json", "markdown"):
        print_results(content, lambda: "| a table |", format)
        out = capsys.readouterr().out.encode()
        if format == "markdown" or (format is None and is_terminal):
            assert out == b"| a table |\n"
        else:
            assert json.loads(out) == content


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["run", "other/"], ["run", "other"]),
        (["a/run", "b/run", "a/x/best"], ["a/run", "b/run", "x/best"]),
    ],
)
def test_short_names_are_the_shortest_unique_path_endings(paths, names):
    assert short_names(paths) == names
