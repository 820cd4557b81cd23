"""`elmo-tf query`."""

import json
import os
import pty
import subprocess
import sys


def test_sentences_in_the_arguments_are_answered_in_one_object(command, stdout_of, server, caplog):
    address = f"localhost:{server.port}"
    call = ("query", address, "the cat", "", "--output", "default", "--output", "sequence_len")
    answer = json.loads(stdout_of(*call))
    assert list(answer) == ["default", "sequence_len"]
    assert answer["sequence_len"] == [2, 0]
    assert answer["default"] == [[300, 600, 900, 1200, 1500, 1800], [0] * 6]
    command("query", address, "a cat.")
    assert "1 that look like raw text, such as 'cat.'" in caplog.text
    text = command("query", address, "größer ja", "-", "--signature=split", "--output=tokens")[1]
    assert json.loads(text) == {"tokens": [["größer", "ja"], ["-", ""]]}


def test_raw_text_is_tokenized_by_the_command_or_the_server(command, server, stdin):
    call = "query", f"localhost:{server.port}", "--output", "sequence_len"
    assert json.loads(command(*call, "--tokenize=xx", "a cat.")[1]) == {"sequence_len": [3]}
    stdin(b"a cat.\n")
    assert json.loads(command(*call, "--tokenize=xx")[1]) == {"sequence_len": 3}
    status, _, err = command("query", call[1], "--tokenize", "a cat.")
    assert (status, "Pass the code of the tokenizer, such as --tokenize en" in err) == (1, True)


def test_lines_of_stdin_are_answered_line_by_line(stdout_of, server, stdin):
    lines = [b"the cat sat", b"", b"\xff on it", b"a"] * 30
    stdin(b"\r\n".join(lines) + b"\n")
    call = "query", f"localhost:{server.port}", "-", "--output", "elmo", "--output", "sequence_len"
    answers = [json.loads(line) for line in stdout_of(*call).splitlines()]
    assert [answer["sequence_len"] for answer in answers] == [3, 0, 3, 1] * 30
    assert [len(answer["elmo"]) for answer in answers] == [3, 0, 3, 1] * 30


def test_each_typed_line_is_answered_before_the_next(server):
    controller, terminal = pty.openpty()
    with subprocess.Popen(
        [
            *(sys.executable, "-m", "elmo_tf.cli", "query", f"localhost:{server.port}"),
            *("--output", "sequence_len"),
        ],
        stdin=terminal,
        stdout=subprocess.PIPE,
    ) as process:
        os.close(terminal)
        for line, length in (("the cat\n", 2), ("a\n", 1)):
            os.write(controller, line.encode())
            assert json.loads(process.stdout.readline()) == {"sequence_len": length}
        os.write(controller, b"\x04")  # the end of the input
        assert process.wait(30) == 0
    os.close(controller)
