import ast
import importlib
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

import elmo_tf
from elmo_tf.lazy import register_lazily
from task_models import KINDS, new_model

ROOT = Path(elmo_tf.__file__).parent
FOLDERS = {
    "elmo_tf": ROOT,
    **{
        name: Path(importlib.import_module(name).__file__).parent
        for name in ("elmo_tf.saved_models", "elmo_tf.trainers")
    },
}
# Written with `keras.ops`, so that they run on Keras's other backends too.
BACKEND_FREE = [
    ROOT / "config.py",
    ROOT / "models" / "lstm_stack.py",
    *(path for path in (ROOT / "layers").glob("*.py") if not path.stem.endswith("_tf")),
]


def test_public_names_and_subpackages_are_attributes_of_the_package():
    names = "BiLM BiLMConfig CharCNNConfig Elmo Embedder LSTMConfig Vocabulary char_ids load_bilm"
    for name in (*names.split(), "load_language_model", "save_bilm"):
        assert getattr(elmo_tf, name).__name__ == name
        assert name in dir(elmo_tf)
    for name in elmo_tf._SUBPACKAGES:
        assert getattr(elmo_tf, name) is importlib.import_module(f"elmo_tf.{name}")
        assert name in dir(elmo_tf)
    with pytest.raises(AttributeError, match=r"module 'elmo_tf' has no attribute 'BiRNN'"):
        _ = elmo_tf.BiRNN


def test_all_registered_classes_are_listed_for_lazy_import():
    registered = {}
    for package, folder in FOLDERS.items():
        for path in folder.rglob("*.py"):
            module = ".".join([package, *path.relative_to(folder).with_suffix("").parts])
            pattern = r'register_keras_serializable\(package="elmo_tf"\)\nclass (\w+)'
            for name in re.findall(pattern, path.read_text(encoding="utf-8")):
                registered[name] = module
    assert registered == elmo_tf.REGISTERED


@pytest.fixture(scope="module")
def keras_files(tmp_path_factory, bilm):
    """Files of saved models, with all classes that users save."""
    import keras

    folder = tmp_path_factory.mktemp("keras_files")
    exported = elmo_tf.saved_models.export(bilm, folder / "exported", check=False)
    inputs = keras.Input((None,), dtype="string")
    models = {
        "elmo": keras.Model(inputs, elmo_tf.Elmo(bilm)(inputs)),
        "exported": keras.Model(inputs, elmo_tf.saved_models.load(exported)(inputs)),
        **{kind: new_model(kind, bilm) for kind in KINDS},
    }
    for name, model in models.items():
        model.save(folder / f"{name}.keras")
    return [folder / f"{name}.keras" for name in models]


@pytest.mark.more
@pytest.mark.parametrize("modules", ["elmo_tf, keras", "keras, elmo_tf"])
def test_a_fresh_process_loads_models_after_importing_the_package(modules, keras_files):
    code = f"import sys, {modules}\nfor path in sys.argv[1:]:"
    code += " print(type(keras.models.load_model(path)).__name__)"
    command = [sys.executable, "-c", code, *keras_files]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    names = [model_class.__name__ for model_class, _ in KINDS.values()]
    assert result.stdout.split() == ["Functional", "Functional", *names]


def test_importing_the_package_does_not_import_tensorflow():
    code = "import sys, elmo_tf; sys.exit('tensorflow' in sys.modules or 'keras' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("path", BACKEND_FREE, ids=lambda path: path.stem)
def test_layers_do_not_import_tensorflow(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imported = set()
    for node in tree.body:  # imports inside functions belong to the fast paths
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module)
    assert not {name for name in imported if name.split(".")[0] == "tensorflow"}
    assert not {name for name in imported if name.endswith("_tf") and name != "elmo_tf"}


KERAS = "class saving:\n    objects = {}\n    get_custom_objects = lambda: saving.objects\n"
PART = "class Part:\n    from_config = dict\n"


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """A new path with a small `keras` and `parts`, a module with a serializable class."""
    for name, code in (("keras", KERAS), ("parts", PART)):
        (tmp_path / f"{name}.py").write_text(code)
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in ("keras", "parts"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("keras_is_first", [True, False])
@pytest.mark.usefixtures("modules")
def test_a_registered_class_is_imported_when_a_saved_model_needs_it(keras_is_first):
    if keras_is_first:
        importlib.import_module("keras")

    register_lazily("some", {"Part": "parts"})

    stand_in = importlib.import_module("keras").saving.objects["some>Part"]
    assert "parts" not in sys.modules
    assert stand_in.from_config({"units": 3}) == {"units": 3}
    assert "parts" in sys.modules
