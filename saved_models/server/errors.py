"""The errors of requests, with TF Serving's codes and wording."""

from collections.abc import Iterable

import grpc
import tensorflow as tf

_STATUS_CODES = {code.value[0]: code for code in grpc.StatusCode}
_MAX_MESSAGE = 1024  # bytes; TF Serving's limit


def invalid(message: str) -> tf.errors.InvalidArgumentError:
    """The error of a request that is wrong in itself."""
    return tf.errors.InvalidArgumentError(None, None, message)


def unavailable(message: str) -> tf.errors.UnavailableError:
    """The error of a request that may be tried again later."""
    return tf.errors.UnavailableError(None, None, message)


def not_found(message: str) -> tf.errors.NotFoundError:
    """The error of a request for what is not served."""
    return tf.errors.NotFoundError(None, None, message)


def status_code(error: tf.errors.OpError) -> grpc.StatusCode:
    """What gRPC calls an error."""
    return _STATUS_CODES.get(error.error_code, grpc.StatusCode.UNKNOWN)


def shortened(message: str) -> str:
    """A message as it is sent: what a request named may be of any length."""
    content = message.encode("utf-8", "replace")
    if len(content) <= _MAX_MESSAGE:
        return message
    return content[:_MAX_MESSAGE].decode("utf-8", "ignore") + "...TRUNCATED"


def braces(names: Iterable[str]) -> str:
    """Names as TF Serving shows a set of them."""
    return "{" + ",".join(sorted(names)) + "}"
