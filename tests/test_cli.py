"""The command line, called in this process or, where that matters, in a new process."""

import json
import os
import resource
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from elmo_tf import cli, saved_models
from elmo_tf.saved_models.exporting import export
from runs import LINES
from sense_files import word, write_corpus, write_inventory

# The subcommands that end by themselves.
SUBCOMMANDS = (
    *("tokenize", "vocab", "train", "evaluate", "score", "substitutes", "convert", "export"),
    *("embed", "probe", "senses", "neighbors", "plot training"),
    *("benchmark", "plot similarity"),
)
pytestmark = pytest.mark.usefixtures("eager_module")


@pytest.fixture(autouse=True)
def folder_with_text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("\n".join(LINES) + "\n")


@pytest.fixture(scope="module")
def exported(trained, tmp_path_factory):
    """The directory of a model that the command exported."""
    directory = tmp_path_factory.mktemp("exported")
    arguments = ["export", str(trained), str(directory), "--version", "3"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export, "verify", lambda *arguments: None)
        assert cli.main(arguments) == 0
    return directory


def process(*arguments):
    call = [sys.executable, "-m", "elmo_tf.cli", *arguments]
    return subprocess.run(call, capture_output=True, text=True, check=False)


def cpu_time(call):
    """The result of a function, and the CPU time of its subprocesses in seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = call()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return result, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize("name", [(), ("embed",)])
def test_help_is_printed_within_a_second_of_cpu_time_or_five_imports_of_numpy(name):
    result, seconds = cpu_time(lambda: process(*name, "--help"))
    numpy = [sys.executable, "-c", "import numpy"]
    _, of_numpy = cpu_time(lambda: subprocess.run(numpy, check=True))
    assert seconds < max(1, 5 * of_numpy)  # the latter on slow processors
    assert (result.returncode, result.stderr) == (0, "")
    assert f"Usage: {' '.join(['elmo-tf', *name])}" in result.stdout


@pytest.mark.more
def test_the_example_commands_run_in_sequence(command, monkeypatch):
    Path("text.txt").write_text("\n".join(LINES * 20) + "\n")
    Path("raw.txt").write_text("The cat sat. It slept.\n")
    for name in ("train.conllu", "dev.conllu"):
        Path(name).write_text("1\tthe\tthe\tDET\n2\tcat\tcat\tNOUN\n")
    for name in ("a.data.xml", "b.data.xml"):
        write_corpus(Path(name), [["the", word("bank", "bank", "bank%1")]])
    write_inventory(Path("s.tsv"), "bank n bank%1")
    for name in SUBCOMMANDS:
        _, out, _ = command(*name.split(), "--help")
        line = out.splitlines()[0]
        status, _, err = command(*shlex.split(line)[1:])
        assert status == 0, err
    for name in ("vectors.hdf5", "exported/1/saved_model.pb", "training.png", "a.png"):
        assert Path(name).is_file()


@pytest.mark.parametrize(
    ("files", "min_count"), [(["text.txt"], 16), (["-"], 16), (["text.txt"] * 2, 32)]
)
def test_vocab_writes_the_most_frequent_tokens(command, caplog, stdin, files, min_count):
    stdin(Path("text.txt").read_bytes())
    status, out, _ = command("vocab", *files, "--output", "v.txt", "--min-count", min_count)
    assert (status, out) == (0, "")
    tokens = Path("v.txt").read_text().split()
    assert tokens == ["<S>", "</S>", "<UNK>", "the", ".", "cat", "dog", "sat"]
    assert "v.txt holds 8 tokens." in caplog.text


def test_train_prints_the_last_perplexity_as_json(command, trained, caplog):
    Path("run").mkdir()
    status, out, err = command(
        *("train", "--corpus", "te*.txt", "--vocab", trained / "vocab.txt", "--workdir", "run"),
        *("--preset", "tiny", "--steps", "2", "--batch-size", "2", "--valid", "text.txt"),
        *("--eval-every", "1"),
    )
    assert status == 0
    result = json.loads(out)
    assert result["step"] == 2
    assert result["perplexity"][0]["step"] == 2
    share = result["perplexity"][0]["unknown"]
    assert 0.05 < share < 1
    assert "Step 1: held-out perplexity" in caplog.text
    assert f"tokens, {share:.1%} unknown)." in caplog.text
    assert caplog.text.count(f"{share:.1%} of the targets are not in the vocabulary") == 1
    assert "tokens/s" in err


def test_training_resumes_with_resume_and_restarts_with_overwrite(command, trained):
    shutil.copytree(trained, "run")
    arguments = (
        *("train", "--corpus", "text.txt", "--vocab", trained / "vocab.txt", "--workdir", "run"),
        *("--from", trained, "--batch-size", "2", "--unroll", "3"),
    )
    status, out, err = command(*arguments, "--steps", "5")
    assert (status, out) == (2, "")
    assert err.splitlines()[-1].startswith("elmo-tf: run already holds a training run. Add --resu")
    resume = ("train", "--workdir", "run", "--resume")
    status, out, err = command(*resume, "--steps", "5")
    assert (status, json.loads(out)["step"]) == (0, 5), err
    assert len(Path("run/log.jsonl").read_text().splitlines()) == 5
    status, _, err = command(*resume, "--seed", "6")
    assert (status, "seed was 5" in err) == (1, True)
    assert command(*arguments, "--steps", "1", "--overwrite")[0] == 0
    assert len(Path("run/log.jsonl").read_text().splitlines()) == 1


@pytest.mark.parametrize(
    "end", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.more)]
)
def test_serve_prints_its_ports_and_exits_with_status_0(exported, end):
    # Processes that a shell runs in the background ignore SIGINT.
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
        "from elmo_tf import cli; cli.run()"
    )
    options = ("--port", "0", "--rest-port", "0", "--grace", "5")
    call = [sys.executable, "-c", code, "serve", exported, *options]
    with subprocess.Popen(call, stdout=subprocess.PIPE, text=True) as server:
        ports = json.loads(server.stdout.readline())
        with saved_models.Client(f"localhost:{ports['port']}") as client:
            assert client.predict(["the cat"])["elmo"].shape == (1, 2, 64)
        os.kill(server.pid, end)
        try:
            assert server.wait(30) == 0
        finally:
            server.kill()


def test_a_repeated_option_has_the_values_of_all():
    options = "--corpus a b --valid v --workdir w --corpus c --steps 2"
    _, arguments, _ = cli.new_app().parse_args(["train", *options.split()])
    config = arguments.kwargs["config"]
    assert (config.corpus, config.valid, config.steps) == (("a", "b", "c"), ("v",), 2)


TEXT_READERS = [
    ("vocab", "{text}", "--output", "v.txt"),
    ("tokenize", "{text}", "--language", "xx", "--output", "v.txt"),
    ("train", "--corpus", "{text}", "--vocab", "{run}/vocab.txt", "--workdir", "r"),
    ("evaluate", "{run}", "{text}"),
    ("score", "{run}", "{text}"),
    ("embed", "{run}", "{text}", "v.hdf5"),
    ("neighbors", "cat", "--model", "{run}", "--corpus", "{text}"),
]


@pytest.mark.parametrize("arguments", TEXT_READERS)
def test_suspicious_lines_are_reported_by_all_commands(command, trained, caplog, arguments):
    lines = b"caf\xe9", b"\xff\xfea\0", b"<S> the dog", b"the cat sat"
    Path("odd.txt").write_bytes(b"\n".join(lines) + b"\n" + b"the cat\n" * 100)
    arguments = [part.format(run=trained, text="odd.txt") for part in arguments]
    command(*arguments, *(("--steps", "1", "--batch-size", "2") if arguments[0] == "train" else ()))
    (report,) = [line for line in caplog.messages if line.startswith("Suspicious lines: ")]
    for kind in ("2 with invalid UTF-8", "1 with NUL bytes", "1 with a token <S>"):
        assert kind in report


def test_existing_folders_are_not_replaced(command, trained):
    Path("models/1").mkdir(parents=True)
    Path("models/1/saved_model.pb").write_text("mine")
    status, _, err = command("export", trained, "models")
    assert (status, Path("models/1/saved_model.pb").read_text()) == (2, "mine")
    assert "models/1 exists. Choose another path or add --overwrite" in err
    # Converting a trained checkpoint onto itself would lose its vocabulary and softmax.
    names = {path.name for path in trained.iterdir()}
    status, _, err = command("convert", trained, trained, "--overwrite")
    assert (status, "contains other files" in err) == (2, True)
    assert {path.name for path in trained.iterdir()} == names


def test_an_error_prints_one_line_without_library_messages_and_a_traceback_with_debug(command):
    with pytest.raises(FileNotFoundError, match="There is no checkpoint no"):
        command("convert", "no", "target", "--debug")
    result = process("convert", "no", "target")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("elmo-tf: There is no checkpoint no. Models: ")
    assert result.stderr.count("\n") == 1


def test_a_closed_stdout_prints_no_error(command, trained, monkeypatch):
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as stdout:  # closing it writes the rest, as at the end of Python
        monkeypatch.setattr(sys, "stdout", stdout)
        status, _, err = command("evaluate", trained, "text.txt")
    assert status == 1
    assert "elmo-tf:" not in err
