"""Public names that a package imports on first use (PEP 562), so that importing it is quick.

The classes among them can be loaded from saved Keras models nevertheless.
"""

import dataclasses
import importlib
import importlib.machinery
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The functions `__getattr__` and `__dir__` of a package.

    Args:
        package: its name.
        homes: module of each public name. A module whose own name ends in the public one stands
            for itself.
    """

    def get_attribute(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = importlib.import_module(homes[name])
        return home if homes[name] == f"{package}.{name}" else getattr(home, name)

    return get_attribute, lambda: sorted(homes)


def register_lazily(package: str, homes: Mapping[str, str]) -> None:
    """Makes Keras find classes in saved models before they are imported.

    Keras finds a class by its registered name, and the class is registered when its module is
    imported. Until then a stand-in is registered, which imports the module when a saved model
    needs it. If Keras itself is not imported yet, the stand-ins are registered as soon as it is.

    Args:
        package: under which the classes are registered.
        homes: module of each registered class.
    """

    def register(keras: ModuleType) -> None:
        registered = keras.saving.get_custom_objects()
        for name, home in homes.items():
            registered.setdefault(f"{package}>{name}", _StandIn(home, name))

    if "keras" in sys.modules:
        register(sys.modules["keras"])
    else:
        sys.meta_path.insert(0, _AfterImport("keras", register))


@dataclasses.dataclass(frozen=True)
class _StandIn:
    """What Keras finds under the registered name of a class that is not imported yet."""

    home: str
    name: str

    def from_config(self, config: dict[str, Any]) -> Any:
        # The import registers the class itself in place of this.
        return getattr(importlib.import_module(self.home), self.name).from_config(config)


class _AfterImport:
    """A finder of modules that calls a function with one of them once it is imported."""

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
