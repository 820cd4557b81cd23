"""If its library is missing, each integration raises an error that names what to install."""

import importlib
import subprocess
import sys

import pytest

from elmo_tf import Embedder
from elmo_tf.lazy import require_extra


@pytest.mark.parametrize(
    ("library", "module", "message"),
    [
        ("sklearn", "elmo_tf.integrations.sklearn", r"pip install '\.\[sklearn\]'"),
        ("spacy", "elmo_tf.integrations.spacy", r"pip install '\.\[spacy\]'"),
        ("uvicorn", "elmo_tf.saved_models.server", r"The server needs uvicorn, .* `serve`"),
    ],
)
def test_an_import_without_the_library_names_the_extra(monkeypatch, library, module, message):
    for name in [name for name in sys.modules if name.startswith((f"{library}.", module))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=message):
        importlib.import_module(module)


def test_a_tokenizer_without_its_library_names_the_extra(monkeypatch, bilm):
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(ImportError, match=r"A tokenizer needs spacy, .* `spacy`"):
        Embedder(bilm, tokenizer="en")


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
