"""If its library is missing, each integration raises an error that names the extra."""

import importlib
import subprocess
import sys

import pytest

from elmo_tf import Embedder
from elmo_tf.extras import MissingExtraError, require_extra


@pytest.mark.parametrize(
    ("module", "library"),
    [("elmo_tf.integrations.sklearn", "sklearn"), ("elmo_tf.integrations.spacy", "spacy")],
)
def test_an_import_without_the_library_names_the_extra(monkeypatch, module, library):
    for name in [name for name in sys.modules if name.partition(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=rf"pip install 'elmo_tf\[{library}\]'"):
        importlib.import_module(module)


def test_a_tokenizer_without_spacy_names_the_extra(monkeypatch, bilm):
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(MissingExtraError, match=r"A tokenizer needs spacy.*elmo_tf\[spacy\]"):
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
for name in "sklearn", "spacy", "huggingface_hub", "safetensors", "pyarrow", "matplotlib", "pandas":
    sys.modules[name] = None
import elmo_tf
for name in elmo_tf.__all__:
    getattr(elmo_tf, name)
print(elmo_tf.Embedder("small-en", layers="top").encode("A bank .").shape)
"""
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "(384,)"
