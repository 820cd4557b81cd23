"""Imports of optional packages, which the extras of elmo_tf install."""

import importlib
import importlib.metadata
import re
import shlex
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
        MissingExtraError: the package is not installed. The message names all packages of the
            extra, not elmo_tf itself, which is not on the package index.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = module.partition(".")[0]
        # The package is installed, but a module that it imports is not.
        if error.name is None or error.name.partition(".")[0] != missing:
            raise
        requirements = importlib.metadata.requires("elmo_tf") or []
        found = (re.fullmatch(r"(.+?) *; *extra == ['\"](.+)['\"]", each) for each in requirements)
        packages = [match[1] for match in found if match and match[2] == extra]
        raise MissingExtraError(
            f"{purpose} needs {missing}. Install it with: pip install {shlex.join(packages)}"
        ) from None
