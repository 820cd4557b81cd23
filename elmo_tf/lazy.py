"""What is imported late: public names (PEP 562), registered Keras classes, optional packages."""

import functools
import importlib
from collections.abc import Callable, Mapping
from types import ModuleType, SimpleNamespace
from typing import Any

import wrapt


def lazy_names(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns the functions `__getattr__` and `__dir__` of a package.

    `homes` are the modules of its public names; for a public submodule, the submodule itself.
    """

    def get_attribute(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = importlib.import_module(homes[name])
        return home if homes[name] == f"{package}.{name}" else getattr(home, name)

    return get_attribute, lambda: sorted(homes)


def register_lazily(package: str, homes: Mapping[str, str]) -> None:
    """Registers placeholders of classes right after the import of Keras.

    Each imports the module of its class, see `homes`, when Keras loads a model with the class.
    """

    def register(keras: ModuleType) -> None:
        registered = keras.saving.get_custom_objects()
        for name, home in homes.items():
            load = functools.partial(_load, home, name)  # replaces the placeholder
            registered.setdefault(f"{package}>{name}", SimpleNamespace(from_config=load))

    wrapt.register_post_import_hook(register, "keras")


def _load(home: str, name: str, config: dict[str, Any]) -> Any:
    return getattr(importlib.import_module(home), name).from_config(config)


def require_extra(module: str, extra: str, purpose: str) -> ModuleType:
    """Imports a module for a `purpose`; the error names the `extra` that installs its package."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = module.partition(".")[0]
        # The package is installed, but a module that it imports is not.
        if error.name is None or error.name.partition(".")[0] != missing:
            raise
        raise ImportError(
            f"{purpose} needs {missing}, which the extra `{extra}` of elmo_tf installs: "
            f"pip install '.[{extra}]' in its folder."
        ) from None
