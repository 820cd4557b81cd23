import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import elmo_tf
from task_models import KINDS, new_model

PACKAGES = ("elmo_tf", "elmo_tf.saved_models", "elmo_tf.trainers")
FOLDERS = {name: Path(importlib.import_module(name).__file__).parent for name in PACKAGES}


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
    output = subprocess.check_output([sys.executable, "-c", code, *keras_files], text=True)
    names = [model_class.__name__ for model_class, _ in KINDS.values()]
    assert output.split() == ["Functional", "Functional", *names]


LATE = """
import sys, elmo_tf
assert not {"tensorflow", "keras"} & sys.modules.keys()
import keras
registered = keras.saving.get_registered_object("elmo_tf>ScalarMix")
assert "elmo_tf.layers.scalar_mix" not in sys.modules
assert type(registered.from_config({"name": "mix"})).__name__ == "ScalarMix"
"""


def test_the_package_imports_tensorflow_late_and_registered_classes_when_they_are_needed():
    subprocess.run([sys.executable, "-c", LATE], check=True, timeout=120)


def test_layers_do_not_import_tensorflow():
    """They run on Keras's other backends too. Imports inside functions belong to the fast paths."""
    root, pattern = FOLDERS["elmo_tf"], r"^(?:from|import) (?:tensorflow|\S+\.\w+_tf)\b"
    layers = [path for path in root.glob("layers/*.py") if not path.stem.endswith("_tf")]
    for path in (*layers, root / "config.py", root / "models" / "lstm_stack.py"):
        assert not re.search(pattern, path.read_text(encoding="utf-8"), re.MULTILINE), path
