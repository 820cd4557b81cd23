"""If its library is missing, each integration raises an error that names what to install."""

import importlib
import importlib.metadata
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import elmo_tf.saved_models
from elmo_tf import Embedder
from elmo_tf.lazy import require_extra

ROOT = Path(__file__).parents[2]
METADATA = importlib.metadata.metadata("elmo_tf")
EXTRAS = METADATA.get_all("Provides-Extra")


@pytest.mark.parametrize("library", ["sklearn", "spacy"])
def test_an_import_without_the_library_names_the_package(monkeypatch, library, bilm):
    module = f"elmo_tf.integrations.{library}"
    for name in [name for name in sys.modules if name.partition(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf"pip install '\.\[{library}\]'"):
        importlib.import_module(module)
    if library == "spacy":
        with pytest.raises(ImportError, match=r"A tokenizer needs spacy, .* `spacy`"):
            Embedder(bilm, tokenizer="en")


def test_the_server_without_its_extra_names_it(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("elmo_tf.saved_models.server")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(ImportError, match=r"The server needs uvicorn, .* `serve`"):
        elmo_tf.saved_models.serve  # noqa: B018


def test_docs_install_only_existing_extras_and_required_packages():
    pages = [*ROOT.glob("*.md"), *(ROOT / "saved_models").rglob("*.md")]
    pages += [*(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.*")]
    texts = {page.relative_to(ROOT): page.read_text("utf-8") for page in pages}
    required = {re.match(r"[\w.-]+", each)[0] for each in METADATA.get_all("Requires-Dist")}
    required.remove("elmo_tf")  # not on the package index
    allowed = re.compile(rf"\.(\[({'|'.join(EXTRAS)}|,)+\])?|({'|'.join(required)})([^\w.-].*)?")
    wrong = []
    for name, text in texts.items():
        commands = re.findall(r"pip install ([^`#\n]*)", text)
        words = [word for command in commands for word in shlex.split(command)]
        words += re.findall(r"elmo_tf\[[\w,]+\]", text)
        wrong += [(name, word) for word in words if word[0] != "-" and not allowed.fullmatch(word)]
    assert not wrong


def test_import_errors_inside_an_installed_package_are_unchanged(tmp_path, monkeypatch):
    (tmp_path / "broken_package.py").write_text("import no_such_part")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_part"):
        require_extra("broken_package", "plot", "A picture")


@pytest.mark.more
def test_the_package_works_without_optional_libraries():
    code = """
import sys
names = "sklearn", "spacy", "huggingface_hub", "safetensors", "pyarrow", "matplotlib", "pandas"
for name in *names, "grpc_health", "prometheus_client", "starlette", "uvicorn":
    sys.modules[name] = None
import elmo_tf
for name in elmo_tf.__all__:
    getattr(elmo_tf, name)
from elmo_tf.saved_models import Client, export, load
Client("localhost:8500").close()
print(elmo_tf.Embedder("small-en", layers="top").encode("A bank .").shape)
"""
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "(384,)"
