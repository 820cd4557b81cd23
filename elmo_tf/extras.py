"""Imports of optional packages, which the extras of elmo_tf install."""

import importlib
import importlib.metadata
import re
import shlex
from types import ModuleType

# Packages that are not named as the module.
_PACKAGES = {
    "faiss": "faiss-cpu",
    "grpc_health": "grpcio-health-checking",
    "grpc_reflection": "grpcio-reflection",
    "sklearn": "scikit-learn",
}


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
        package = module.partition(".")[0]
        # The package is installed, but a module that it imports is not.
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        packages = _packages(extra) or [_PACKAGES.get(package, package)]
        raise MissingExtraError(
            f"{purpose} needs {package}. Install it with: pip install {shlex.join(packages)}"
        ) from None


def _packages(extra: str) -> list[str]:
    """The packages of an extra, with their versions; empty in a source tree without metadata."""
    try:
        requirements = importlib.metadata.requires("elmo_tf") or []
    except importlib.metadata.PackageNotFoundError:
        return []
    found = (re.fullmatch(r"(.+?) *; *extra == ['\"](.+)['\"]", each) for each in requirements)
    return [match[1] for match in found if match and match[2] == extra]
