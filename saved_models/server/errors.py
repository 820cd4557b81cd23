"""The errors of requests, with TF Serving's codes and wording."""

from collections.abc import Iterable

import tensorflow as tf

_MAX_MESSAGE = 1024  # bytes; TF Serving's limit


def invalid(message: str) -> tf.errors.InvalidArgumentError:
    """Returns the error of a malformed request."""
    return tf.errors.InvalidArgumentError(None, None, message)


def unavailable(message: str) -> tf.errors.UnavailableError:
    """Returns the error of a request that may be retried later."""
    return tf.errors.UnavailableError(None, None, message)


def not_found(message: str) -> tf.errors.NotFoundError:
    """Returns the error of a request for an unknown model or version."""
    return tf.errors.NotFoundError(None, None, message)


def servable_not_found(name: str, version: int | None) -> tf.errors.NotFoundError:
    """Returns the error for a model or version that is not served; `None` means the newest."""
    name = shortened(name)
    servable = f"Latest({name})" if version is None else f"Specific({name}, {version})"
    return not_found(f"Servable not found for request: {servable}")


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
