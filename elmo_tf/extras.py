"""Packages that only some parts need, and word of what brings them where they are missing."""

import importlib
from types import ModuleType


class MissingExtraError(ImportError):
    """A package is not installed that an extra of elmo_tf brings."""


def require_extra(module: str, extra: str, purpose: str) -> ModuleType:
    """Imports a module of a package that comes with an extra.

    Args:
        module: its dotted name.
        extra: of elmo_tf, which brings it.
        purpose: what needs it, the beginning of a sentence.

    Returns:
        The module.

    Raises:
        MissingExtraError: the package is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        # Whatever else is missing is another trouble.
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        raise MissingExtraError(
            f"{purpose} needs {package}: pip install 'elmo_tf[{extra}]' brings it."
        ) from None
