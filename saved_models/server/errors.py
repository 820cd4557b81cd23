"""The errors of requests, with TF Serving's codes and wording.

All modules of the server raise a `tf.errors.OpError` for a request that is rejected.
"""

import functools
from collections.abc import Iterable

import grpc
import tensorflow as tf

_MAX_MESSAGE = 1024  # bytes; TF Serving's limit
_STATUS_CODES = {code.value[0]: code for code in grpc.StatusCode}

# Errors of a malformed request, of one that may be retried later, and of an unknown version.
invalid = functools.partial(tf.errors.InvalidArgumentError, None, None)
unavailable = functools.partial(tf.errors.UnavailableError, None, None)
not_found = functools.partial(tf.errors.NotFoundError, None, None)


def servable_not_found(name: str, version: int | None) -> tf.errors.NotFoundError:
    """Returns the error for a model or version that is not served; `None` means the newest."""
    name = shortened(name)
    servable = f"Latest({name})" if version is None else f"Specific({name}, {version})"
    return not_found(f"Servable not found for request: {servable}")


def status_of(error: Exception) -> tuple[grpc.StatusCode, str]:
    """Returns the code and the message of an error for clients."""
    if isinstance(error, tf.errors.OpError):
        code = _STATUS_CODES.get(error.error_code, grpc.StatusCode.UNKNOWN)
        return code, shortened(error.message)
    return grpc.StatusCode.INTERNAL, shortened(f"{type(error).__name__}: {error}")


def shortened(message: str) -> str:
    """Truncates a message, which may quote long names from a request."""
    content = message.encode("utf-8", "replace")
    if len(content) <= _MAX_MESSAGE:
        return message
    return content[:_MAX_MESSAGE].decode("utf-8", "ignore") + "...TRUNCATED"


def printable(text: str) -> str:
    """A text from a request for one line of a log: shortened, with control characters escaped."""
    return shortened(text).encode("unicode_escape").decode()


def braces(names: Iterable[str]) -> str:
    """Formats a set of names as TF Serving does."""
    return "{" + ",".join(sorted(names)) + "}"
