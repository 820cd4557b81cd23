"""The limits of a request, and the errors of rejected requests.

All modules of the server raise a `tf.errors.OpError` for a request that is rejected.
"""

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Annotated

import grpc
import numpy as np
import tensorflow as tf
from pydantic import Field
from tensorflow.core.protobuf import meta_graph_pb2

from elmo_tf.saved_models.messages import LENGTHS
from elmo_tf.settings import Count, checked_dataclass

_MAX_MESSAGE = 500  # characters: gRPC limits a message to 8 KB, escaped
_STATUS_CODES = {code.value[0]: code for code in grpc.StatusCode}

# Errors of a malformed request, of one that may be retried later, and of an unknown model.
invalid = functools.partial(tf.errors.InvalidArgumentError, None, None)
unavailable = functools.partial(tf.errors.UnavailableError, None, None)
not_found = functools.partial(tf.errors.NotFoundError, None, None)


def status_of(error: Exception) -> tuple[grpc.StatusCode, str]:
    """Returns the code and the message of an error for clients."""
    code, message = grpc.StatusCode.INTERNAL, f"{type(error).__name__}: {error}"
    if isinstance(error, tf.errors.OpError):
        code = _STATUS_CODES.get(error.error_code, grpc.StatusCode.UNKNOWN)
        message = error.message
    return code, message if len(message) <= _MAX_MESSAGE else f"{message[:_MAX_MESSAGE]}…"


@checked_dataclass
class Limits:
    """The limits of a request, above which it is rejected, and of a batch.

    Args:
        max_request_bytes: of a message, and of each tensor in it; gRPC allows less than 2 GiB.
        max_tokens: of a request: number of sentences times the tokens of the longest.
        max_batch_size: sentences of several requests that are computed together. 1 computes each
            request alone, as a model with layer normalization needs.

    Raises:
        ValueError: a limit is less than 1, or `max_request_bytes` is 2 GiB or more.
    """

    max_request_bytes: Annotated[int, Field(ge=1, lt=2**31)] = 64 * 1024 * 1024
    max_tokens: Count = 65_536
    max_batch_size: Count = 64

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
                f"{alias} has the shape {list(shape)}, which is more than "
                f"{self.max_request_bytes} bytes."
            )

    def check_tokens(
        self, signature: meta_graph_pb2.SignatureDef, inputs: Mapping[str, np.ndarray]
    ) -> int:
        """Checks and returns the number of tokens of a request; 0 if the inputs are not text."""
        dtypes = {info.dtype for info in signature.inputs.values()}
        if tf.string.as_datatype_enum not in dtypes and LENGTHS not in signature.outputs:
            return 0
        is_raw = "starts" in signature.outputs
        longest = max((self._longest(array, is_raw) for array in inputs.values()), default=0)
        num_sentences = max((len(array) for array in inputs.values() if array.ndim), default=0)
        num_tokens = max(1, num_sentences) * max(1, longest)
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
