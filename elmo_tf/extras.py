"""Imports of optional packages, which the extras of elmo_tf install."""

import importlib
from types import ModuleType


class MissingExtraError(ImportError):
    """A package of an extra of elmo_tf is not installed."""


def require_extra(module: str, extra: str, purpose: str) -> ModuleType:
    """Imports a module of an optional package.

    Args:
        module: dotted name of the module.
        extra: the extra of elmo_tf that installs the package.
        purpose: the feature that needs it; the subject of the error message.

    Raises:
        MissingExtraError: the package is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        # The package is installed, but a module that it imports is not.
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        raise MissingExtraError(
            f"{purpose} needs {package}. Install it with: pip install 'elmo_tf[{extra}]'"
        ) from None
