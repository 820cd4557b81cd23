"""The limits of a request, and the errors of rejected requests with TF Serving's codes and wording.

All modules of the server raise a `tf.errors.OpError` for a request that is rejected.
"""

import functools
import math
from collections.abc import Iterable, Mapping, Sequence

import grpc
import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

from elmo_tf.saved_models.messages import LENGTHS
from elmo_tf.settings import Count, checked_dataclass, setting

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


@checked_dataclass
class Limits:
    """The limits of a request. Larger requests are rejected before they are computed.

    Args:
        max_request_bytes: of a message, and of each tensor in it; gRPC allows less than 2 GiB.
        max_sentences: rows of a request.
        max_tokens: number of sentences times the tokens of the longest.

    Raises:
        ValueError: a limit is less than 1, or `max_request_bytes` is 2 GiB or more.
    """

    max_request_bytes: int = setting(64 * 1024 * 1024, ge=1, lt=2**31)
    max_sentences: Count = 4096
    max_tokens: Count = 65_536

    def check_size(
        self, alias: str, dtype: int, shape: Sequence[int], strings: Sequence[bytes] = ()
    ) -> None:
        """Checks the size of a tensor before it is decoded.

        A TensorProto may hold one value for a tensor of any size, so that a small message could
        fill the memory. The last of `strings` is repeated if there are too few.
        """
        try:
            is_string = dtype == tf.string.as_datatype_enum
            element_size = 16 if is_string else tf.as_dtype(dtype).size
        except TypeError:  # an unknown type, which is rejected later
            element_size = 1
        # An empty axis counts as 1, because the other axes cost time even without rows.
        num_elements = math.prod(max(1, size) for size in shape)
        num_bytes = num_elements * element_size
        if strings:
            num_bytes += len(strings[-1]) * max(0, num_elements - len(strings))
        if num_bytes > self.max_request_bytes:
            raise invalid(
                f"tensor parsing error: {alias} has the shape {list(shape)}, which is more than "
                f"{self.max_request_bytes} bytes"
            )

    def check_tokens(
        self, signature: meta_graph_pb2.SignatureDef, inputs: Mapping[str, np.ndarray]
    ) -> int:
        """Checks the number of sentences and tokens of a request.

        Returns:
            Number of sentences times the tokens of the longest; 0 if the inputs are not text.
        """
        dtypes = {info.dtype for info in signature.inputs.values()}
        if tf.string.as_datatype_enum not in dtypes and not takes_sentences(signature):
            return 0
        num_sentences = max((len(array) for array in inputs.values() if array.ndim), default=0)
        if num_sentences > self.max_sentences:
            raise invalid(
                f"The request has {num_sentences} sentences, more than {self.max_sentences}. "
                "Send them in several requests."
            )
        is_raw = "starts" in signature.outputs
        longest = max((self._longest(array, is_raw) for array in inputs.values()), default=0)
        num_tokens = max(1, num_sentences) * longest
        if num_tokens > self.max_tokens:
            raise invalid(
                f"The request has {num_sentences} sentences, the longest with {longest} tokens or "
                f"more; their product must be at most {self.max_tokens}. Send fewer or shorter "
                "sentences at once."
            )
        return num_tokens

    def _longest(self, array: np.ndarray, is_raw: bool) -> int:
        """Returns the tokens of the longest row; counting stops above the limit."""
        if array.ndim > 1:
            return array.shape[1]
        if array.dtype != object:
            return 0
        texts = array.ravel().tolist()
        if is_raw:  # a tokenizer may make a token of each byte
            return max(map(len, texts), default=0)
        limit = self.max_tokens // max(1, len(texts))
        tokens = (text.decode("utf-8", "replace").split(None, limit) for text in texts)
        return max(map(len, tokens), default=0)


def takes_sentences(signature: meta_graph_pb2.SignatureDef) -> bool:
    """Whether a signature is that of an exported biLM, which returns the sentence lengths."""
    return LENGTHS in signature.outputs
