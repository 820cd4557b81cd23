import importlib.util
import sys

import pytest

from elmo_tf.lazy import register_lazily

KERAS = "class saving:\n    objects = {}\n    get_custom_objects = lambda: saving.objects\n"
PART = "class Part:\n    from_config = dict\n"


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """A new path with a small `keras` and `parts`, a module with a serializable class."""
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
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
    num_finders = len(sys.meta_path)

    register_lazily("some", {"Part": "parts"})

    assert importlib.util.find_spec("keras") is not None  # finding the module does not import it
    stand_in = importlib.import_module("keras").saving.objects["some>Part"]
    assert "parts" not in sys.modules
    assert stand_in.from_config({"units": 3}) == {"units": 3}
    assert "parts" in sys.modules
    assert len(sys.meta_path) == num_finders
