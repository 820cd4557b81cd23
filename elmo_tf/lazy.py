"""Lazy imports of public names (PEP 562) and registered Keras classes; imports to leave out."""

import contextlib
import functools
import importlib
import importlib.machinery
import sys
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType, SimpleNamespace
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns the functions `__getattr__` and `__dir__` of a package.

    Args:
        package: name of the package.
        homes: the module of each public name, or the submodule itself if it is public.
    """

    def get_attribute(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = importlib.import_module(homes[name])
        return home if homes[name] == f"{package}.{name}" else getattr(home, name)

    return get_attribute, lambda: sorted(homes)


def register_lazily(package: str, homes: Mapping[str, str]) -> None:
    """Registers classes with Keras before their modules are imported.

    A placeholder is registered under the name of each class. It imports the module when Keras loads
    a saved model with that class. Keras itself is not imported: if it is not imported yet, the
    placeholders are registered right after its import.

    Args:
        package: package name under which the classes are registered.
        homes: the module of each class.
    """

    def register(keras: ModuleType) -> None:
        registered = keras.saving.get_custom_objects()
        for name, home in homes.items():
            # The import replaces this placeholder with the class.
            load = functools.partial(_load, home, name)
            registered.setdefault(f"{package}>{name}", SimpleNamespace(from_config=load))

    if "keras" in sys.modules:
        register(sys.modules["keras"])
    else:
        sys.meta_path.insert(0, _AfterImport("keras", register))


def _load(home: str, name: str, config: dict[str, Any]) -> Any:
    return getattr(importlib.import_module(home), name).from_config(config)


class _AfterImport:
    """Import hook that calls a function with a module right after its import."""

    def __init__(self, name: str, call: Callable[[ModuleType], None]):
        self._name = name
        self._call = call

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        spec = importlib.machinery.PathFinder.find_spec(name, path) if name == self._name else None
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_call(module: ModuleType) -> None:
                execute(module)
                sys.meta_path.remove(self)
                self._call(module)

            spec.loader.exec_module = execute_and_call
        return spec


@contextlib.contextmanager
def left_out(*modules: str) -> Iterator[None]:
    """Imports of these modules raise `ImportError`, unless they are imported already."""
    missing = [name for name in modules if name not in sys.modules]
    sys.modules.update(dict.fromkeys(missing))
    try:
        yield
    finally:
        for name in missing:
            del sys.modules[name]
