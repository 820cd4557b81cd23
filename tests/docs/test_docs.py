"""Runs every Python and shell block of the README and the docs, page by page.

Blocks of other languages (`text`) are not run. A page runs in a folder with small files that have
the names used in the docs; `localhost:8500` and `localhost:8501` are the ports of a running server.
"""

import glob
import gzip
import itertools
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from sybil.document import Document
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser

from sense_files import word, write_corpus, write_inventory
from task_files import NER

pytestmark = [
    pytest.mark.more,
    pytest.mark.filterwarnings("ignore:pkg_resources is deprecated"),  # tensorflow_hub imports it
]

ROOT = Path(__file__).parents[2]
CARDS = [ROOT / "saved_models" / name / "README.md" for name in ("small_en", "small_ko")]
PAGES = [
    path
    for path in [ROOT / "README.md", *CARDS, *sorted((ROOT / "docs").rglob("*.md"))]
    if any(f"```{language}\n" in path.read_text("utf-8") for language in ("python", "shell"))
]
TEXT = """The bank raised its rates .
They sat on the bank of the river .
The bank was open .
I like the river .
"""
TREEBANK = """1	The	_	DET
2	bank	_	NOUN
3	was	_	AUX

1	I	_	PRON
2	like	_	VERB

"""


@pytest.fixture(scope="module")
def files(tmp_path_factory, checkpoint_directory):
    """A folder with the files that the tutorials need."""
    folder = tmp_path_factory.mktemp("docs")
    for name in ("text.txt", "held_out.txt", "text/a.txt", "text/b.txt", "texts/a.txt"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(TEXT * 20, "utf-8")
    for name in ("text.txt.gz", "texts/a.txt.gz"):
        (folder / name).write_bytes(gzip.compress(TEXT.encode()))
    for name in ("train.conll", "dev.conll", "test.conll"):
        (folder / name).write_text(NER, "utf-8")
    for name in ("train.conllu", "dev.conllu"):
        (folder / name).write_text(TREEBANK * 2, "utf-8")
    banks = [["A", word("bank", "bank", f"bank%{sense}")] for sense in ("money", "river")]
    for name in ("train.data.xml", "test.data.xml"):
        write_corpus(folder / name, banks)
    write_inventory(folder / "senses.tsv", "bank n bank%money", "bank n bank%river")
    shutil.copytree(checkpoint_directory, folder / "checkpoint")
    return folder


@pytest.fixture(scope="module")
def models(files, tmp_path_factory):
    """The same files, with the trained models `run` and `other` and an exported model."""
    from elmo_tf import load_bilm, saved_models
    from elmo_tf.trainers import PretrainConfig, pretrain

    folder = shutil.copytree(files, tmp_path_factory.mktemp("docs") / "models")
    (folder / "vocab.txt").write_text("<S>\n</S>\n<UNK>\nthe\nbank\nriver\n", "utf-8")
    files = {"corpus": folder / "text.txt", "vocab": folder / "vocab.txt"}
    pretrain(PretrainConfig(**files, workdir=folder / "run", preset="tiny", steps=1, batch_size=2))
    shutil.copytree(folder / "run", folder / "other")
    saved_models.export(load_bilm(folder / "run"), folder / "exported", check=False)
    shutil.copytree(folder / "exported" / "1", folder / "exported" / "2")
    return folder


@pytest.fixture(scope="module")
def server(models):
    from elmo_tf import saved_models

    server = saved_models.serve(models / "exported", port=0, rest_port=0)
    yield server
    server.stop()


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_code_blocks_of_a_page_run(page, request, tmp_path, monkeypatch):
    text = page.read_text("utf-8")
    is_tutorial = page.parent.name == "tutorials"
    files = request.getfixturevalue("files" if is_tutorial else "models")
    folder = shutil.copytree(files, tmp_path / "page")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    commands = "".join(re.findall(r"```shell\n(.*?)```", text, re.DOTALL))
    if "elmo-tf export" in commands:
        shutil.rmtree(folder / "exported", ignore_errors=True)
    if "elmo-tf vocab" in commands:
        (folder / "vocab.txt").unlink(missing_ok=True)
    if "localhost:850" in text and not is_tutorial:
        server = request.getfixturevalue("server")
        text = text.replace("localhost:8500", f"localhost:{server.port}")
        text = text.replace("localhost:8501", f"localhost:{server.rest_port}")
    copy = folder / "page.md"
    copy.write_text(text, "utf-8")
    parsers = (PythonCodeBlockParser(), CodeBlockParser("shell", _run_shell_block))
    for example in Document.parse(str(copy), *parsers).examples():
        example.evaluate()


def _run_shell_block(example):
    """Calls of `elmo-tf` run in this process: TensorFlow takes seconds to start."""
    from elmo_tf import cli

    for line in example.parsed.replace("\\\n", " ").splitlines():
        if any(character in line for character in "<>|&"):
            path = f'PATH="{Path(sys.executable).parent}:$PATH"; '
            subprocess.run(["bash", "-ec", path + line], check=True)
        elif words := shlex.split(line, comments=True):
            assert words[0] == "elmo-tf", f"not a call of elmo-tf: {words}"
            arguments = itertools.chain.from_iterable(glob.glob(word) or [word] for word in words)
            assert cli.main(list(arguments)[1:]) == 0, words
